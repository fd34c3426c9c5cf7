"""Where in a request an error is, and the known field that a misspelt one may stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlcm_serve.suggestions import did_you_mean

UNKNOWN = "unknown_field"
"""Type of the error of a field that no request has."""
_LEAVE_OUT = "leave it out"
_QUESTION = ("problem", "input", "messages")
"""What our interfaces call the question; an interface that knows several means the first."""
_OTHER_NAMES = dict.fromkeys(("question", "prompt", "query", "text", *_QUESTION), _QUESTION)
"""What other services, or other interfaces, call a field."""
_NOT_MISSPELT = frozenset(
    (
        "functions",
        "include_reasoning",
        "instructions",
        "max_tool_calls",
        "min_tokens",
        "prompt_logprobs",
        "reasoning_effort",
        "return_token_ids",
        "skip_special_tokens",
        "stop",
        "stop_token_ids",
        "store",
        "stream_options",
        "truncate_prompt_tokens",
        "truncation",
        "web_search_options",
    )
)
"""Fields of OpenAI's API and of vLLM's whose names are near to that of a field that means
something else.
"""


def told(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The error as a caller should read it.

    Its place has no names of types, which pydantic puts into it. That of an unknown field names the
    known one nearest to it, unless that is not supported either.

    Args:
        kind: the type that a body was read as.
        found: the error as pydantic has it; its place begins at the body's fields.
    """
    if found["type"] != "extra_forbidden":
        return {**found, "loc": _walk(kind, found["loc"])[0]}
    *path, name = found["loc"]
    place, models = _walk(kind, path)
    fields = [field for model in models for field in model.model_fields.items()]
    known = {field for field, about in fields if _is_supported(about)}
    remedy = _remedy(str(name), known)
    said = f"unknown field: {remedy}"
    return {**found, "type": UNKNOWN, "msg": said, "loc": (*place, name)}


def _remedy(name: str, known: set[str]) -> str:
    if name in _NOT_MISSPELT:
        return _LEAVE_OUT
    meant = next((one for one in _OTHER_NAMES.get(name, ()) if one in known), name)
    return did_you_mean(meant, known, _LEAVE_OUT)


def _is_supported(field: FieldInfo) -> bool:
    return not (field.description or "").startswith("not supported")


def _walk(
    kind: Any, path: Sequence[str | int]
) -> tuple[tuple[str | int, ...], list[type[BaseModel]]]:
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
