"""Finds answers in what models write, and says how they are forced."""

from rlcm_serve.answers.extraction.base import Extractor
from rlcm_serve.answers.extraction.boxed import BoxedExtractor

BOXED = BoxedExtractor()
"""The extractor of a profile that names none."""

__all__ = ["BOXED", "BoxedExtractor", "Extractor"]
