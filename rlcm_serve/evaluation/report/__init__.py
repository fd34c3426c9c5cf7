"""A run's measures on one page, with its figures."""

from rlcm_serve.evaluation.report.write import write_report

__all__ = ["write_report"]
