"""Thinking formats: how a model marks its thinking, and how the format of a model is found."""

from rlcm_serve.engine.thinking.base import Part, Reader, ThinkingFormat
from rlcm_serve.engine.thinking.detection import find_format
from rlcm_serve.engine.thinking.registry import available_formats, format_named
from rlcm_serve.engine.thinking.rendering import Rendering

__all__ = [
    "Part",
    "Reader",
    "Rendering",
    "ThinkingFormat",
    "available_formats",
    "find_format",
    "format_named",
]
