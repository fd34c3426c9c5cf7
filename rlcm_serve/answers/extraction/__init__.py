"""Finds answers in what models write, and says how they are forced."""

from rlcm_serve.answers.extraction.base import Extractor
from rlcm_serve.answers.extraction.boxed import BoxedExtractor
from rlcm_serve.answers.extraction.named import BOXED, extractor_named, extractor_of

__all__ = ["BOXED", "BoxedExtractor", "Extractor", "extractor_named", "extractor_of"]
