"""Runs side by side: main table, paired differences, curves, and what is not comparable."""

from rlcm_serve.evaluation.compare.base import Comparison
from rlcm_serve.evaluation.compare.comparing import compare
from rlcm_serve.evaluation.compare.page import write_comparison
from rlcm_serve.evaluation.compare.text import to_text

__all__ = ["Comparison", "compare", "to_text", "write_comparison"]
