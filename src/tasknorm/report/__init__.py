"""Records of runs beside the paper's numbers: tables, average rank, claims, figures, and one page of all."""

from tasknorm.report.comparison import Comparison
from tasknorm.report.write import write_report

__all__ = ["Comparison", "write_report"]
