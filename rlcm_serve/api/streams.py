"""Server-sent events in the OpenAPI document: their names and contents."""

from __future__ import annotations

import json
from typing import Any

from rlcm_serve.api.error_responses import error_schema
from rlcm_serve.api.wire.base import Wire, inline_schema


def event_stream(description: str, events: dict[str, type[Wire]]) -> dict[int | str, Any]:
    """A response 200 that is, or can be, a stream of these events; `error` may be the last.

    Args:
        description: of the response.
        events: type of each event's content, by its name; without `error`, problem details.
    """
    schemas = {"error": error_schema()}
    schemas |= {name: inline_schema(body) for name, body in events.items()}
    return _response(description, {"oneOf": [_event(*named) for named in schemas.items()]})


def data_stream(description: str, *bodies: type[Wire], last: str) -> dict[int | str, Any]:
    """A response 200 that is, or can be, a stream of events without names.

    Args:
        description: of the response.
        bodies: types of an event's content.
        last: content of the last event of a complete stream; it is not JSON.
    """
    end = {
        "type": "string",
        "description": "Marks the end of a complete stream.",
        "const": last,
        "examples": [last],
    }
    items = [_event(None, inline_schema(body)) for body in bodies]
    items.append({"type": "object", "properties": {"data": end}, "required": ["data"]})
    return _response(description, {"anyOf": items})


def _event(name: str | None, body: dict[str, Any]) -> dict[str, Any]:
    example = {field: schema["examples"][0] for field, schema in body["properties"].items()}
    data = {
        "type": "string",
        "description": "Content of the event, as JSON.",
        "contentMediaType": "application/json",
        "contentSchema": body,
        "examples": [json.dumps(example)],
    }
    properties: dict[str, Any] = {"data": data}
    if name is not None:
        named = {"type": "string", "description": "Name of the event.", "const": name}
        properties = {"event": named} | properties
    return {"type": "object", "properties": properties, "required": list(properties)}


def _response(description: str, item: dict[str, Any]) -> dict[int | str, Any]:
    # From OpenAPI 3.2; FastAPI uses it too, and readers of 3.1 ignore it.
    content = {"text/event-stream": {"itemSchema": item}}
    return {200: {"description": description, "content": content}}
