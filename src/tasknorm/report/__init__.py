"""Our runs next to the paper's numbers: tables, average ranks, claims and figures, also as one page."""

from tasknorm.report.comparison import Comparison
from tasknorm.report.comparison_page import write_page
from tasknorm.report.published import PublishedTable
from tasknorm.report.published import published as published_tables
from tasknorm.report.write import write_report

__all__ = ["Comparison", "PublishedTable", "published_tables", "write_page", "write_report"]
