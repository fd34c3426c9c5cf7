"""A certificate and what its policies do, on one page; the only part that needs matplotlib."""

from calibration.report.write import write_report

__all__ = ["write_report"]
