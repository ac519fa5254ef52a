"""The report: claims, tables and figures as files and as one page."""

from precedes.report.charts import check_available
from precedes.report.files import write_report

__all__ = ["check_available", "write_report"]
