"""Where in a request an error is, and the known field that a misspelt one may stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlcm_serve.suggestions import did_you_mean

UNKNOWN = "unknown_field"
"""Type of the error of a field that no request has."""
_OTHER_NAMES = dict.fromkeys(("question", "prompt", "query", "input", "text"), "problem")
"""What other services call a field."""

_Place = Sequence[str | int]


def unknown_field(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The error of an unknown field, which names the field of `kind` nearest to it.

    Args:
        kind: the type that a body was read as.
        found: the error as pydantic has it; its place begins at the body's fields.
    """
    *path, name = found["loc"]
    known = {field for model in _walk(kind, path)[1] for field in model.model_fields}
    name = _OTHER_NAMES.get(name, name) if _OTHER_NAMES.get(name) in known else name
    remedy = did_you_mean(str(name), known, "leave it out")
    return {**found, "type": UNKNOWN, "msg": f"unknown field: {remedy}"}


def place_in(kind: Any, found: dict[str, Any]) -> tuple[str | int, ...]:
    """The place of an error in a body, without the names of types that pydantic puts into it.

    Args:
        kind: the type that the body was read as.
        found: as in `unknown_field`.
    """
    place = found["loc"]
    kept, _ = _walk(kind, place)
    is_name = found["type"] == "extra_forbidden" and kept[-1:] != place[-1:]
    return (*kept, *(place[-1:] if is_name else ()))


def _walk(kind: Any, path: _Place) -> tuple[tuple[str | int, ...], list[type[BaseModel]]]:
    """The numbers and names of fields on a way, and the models that may stand at its end."""
    models, kept = list(_models_in(kind)), []
    for part in path:
        deeper = [field for model in models for field in _fields_named(model, part)]
        if deeper:
            models = [model for field in deeper for model in _models_in(field.annotation)]
        if deeper or not models or isinstance(part, int):  # a mapping has no models
            kept.append(part)
    return tuple(kept), models


def _fields_named(model: type[BaseModel], name: str | int) -> Iterator[FieldInfo]:
    for own, field in model.model_fields.items():
        if name in (own, field.alias):
            yield field


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
