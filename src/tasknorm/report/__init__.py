"""Our runs next to the paper's numbers: tables, average ranks, claims and figures, also as one page."""

from tasknorm.report.comparison import Comparison
from tasknorm.report.comparison_page import write_page
from tasknorm.report.write import write_report

__all__ = ["Comparison", "write_page", "write_report"]
