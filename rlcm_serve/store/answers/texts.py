"""Texts of callers and of models, as a database can store them."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text without what a database or UTF-8 refuses: NUL, and half surrogate pairs."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
