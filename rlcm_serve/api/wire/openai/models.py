"""What `/v1/models` answers with, and errors in OpenAI's envelope."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire


class ModelCard(Wire):
    """A model that can be asked."""

    id: Annotated[str, Field(description="To be given as `model`.", examples=["embedded"])]
    object: Annotated[Literal["model"], Field(description="What this is.", examples=["model"])] = (
        "model"
    )
    created: Annotated[int, Field(description="Not known: always 0.", examples=[0])] = 0
    owned_by: Annotated[str, Field(description="Who serves it.", examples=["rlcm-serve"])] = (
        "rlcm-serve"
    )


class ModelList(Wire):
    """All models: the one that is served."""

    object: Annotated[Literal["list"], Field(description="What this is.", examples=["list"])] = (
        "list"
    )
    data: Annotated[
        list[ModelCard],
        Field(
            description="The models.",
            examples=[
                [{"id": "embedded", "object": "model", "created": 0, "owned_by": "rlcm-serve"}]
            ],
        ),
    ]


class ErrorBody(Wire):
    """What went wrong, as OpenAI's clients read it."""

    message: Annotated[
        str,
        Field(
            description="What was wrong, and what to do.",
            examples=["alpha is 1.5: give an accepted risk between 0 and 1"],
        ),
    ]
    type: Annotated[
        str, Field(description="Kind of the error.", examples=["invalid_request_error"])
    ]
    param: Annotated[str | None, Field(description="The field at fault.", examples=["alpha"])]
    code: Annotated[str, Field(description="Name of the error.", examples=["invalid_request"])]
    rlcm: Annotated[
        dict[str, Any],
        Field(
            description="The same as a problem document (RFC 9457).",
            examples=[{"type": "urn:rlcm:problem:invalid-request", "status": 422}],
        ),
    ]


class ErrorResponse(Wire):
    """OpenAI's envelope of an error."""

    error: Annotated[
        ErrorBody,
        Field(
            description="The error.",
            examples=[
                {
                    "message": "alpha is 1.5: give an accepted risk between 0 and 1",
                    "type": "invalid_request_error",
                    "param": "alpha",
                    "code": "invalid_request",
                    "rlcm": {"type": "urn:rlcm:problem:invalid-request", "status": 422},
                }
            ],
        ),
    ]
