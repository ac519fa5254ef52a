"""The report: claims, tables and figures as files and as one page."""

from precedes.report.environment import Environment
from precedes.report.files import write_report
from precedes.report.screen import screen

__all__ = ["Environment", "screen", "write_report"]
