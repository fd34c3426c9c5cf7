"""The known field that a misspelt one may stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from rlcm_serve.suggestions import did_you_mean

UNKNOWN = "unknown_field"
"""Type of the error of a field that no request has."""


def unknown_field(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The error of an unknown field, which names the field of `kind` nearest to it.

    Args:
        kind: the type that a body was read as.
        found: the error as pydantic has it; its place begins at the body's fields.
    """
    *path, name = found["loc"]
    known = {field for model in _models_at(kind, path) for field in model.model_fields}
    remedy = did_you_mean(str(name), known, "leave it out")
    return {**found, "type": UNKNOWN, "msg": f"unknown field: {remedy}"}


def _models_at(kind: Any, path: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that may stand at a place; numbers and names of types on the way are skipped."""
    models = list(_models_in(kind))
    for part in path:
        deeper = [model.model_fields[part] for model in models if part in model.model_fields]
        if deeper:
            models = [model for field in deeper for model in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
