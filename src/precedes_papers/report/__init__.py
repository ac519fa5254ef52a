"""The report: claims, tables and figures as files and as one page."""

from precedes_papers.report.files import write_report
from precedes_papers.report.page import Environment
from precedes_papers.report.screen import screen

__all__ = ["Environment", "screen", "write_report"]
