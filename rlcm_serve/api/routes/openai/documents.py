"""What the descriptions of OpenAI's routes share."""

from __future__ import annotations

from typing import Any

from rlcm_serve.api.error_responses import MEANING
from rlcm_serve.api.wire.openai.models import ErrorResponse


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error responses with these statuses, in OpenAI's envelope."""
    phrases: dict[int | str, str] = {status: MEANING[status] for status in statuses}
    phrases["4XX"] = "The request is invalid in another way"  # replaces FastAPI's own 422
    return {
        status: {"model": ErrorResponse, "description": phrase}
        for status, phrase in phrases.items()
    }


ANSWERED = documented(400, 401, 403, 404, 409, 413, 415, 421, 422, 429, 500, 503, 504)
"""The error responses of routes that answer questions."""
