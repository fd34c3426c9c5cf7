"""Wire types of `/v1/models` and of errors in OpenAI's envelope."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire


class ModelCard(Wire):
    """A model that can be used in requests."""

    id: Annotated[
        str,
        Field(
            description="Id of the model, for the field `model` of a request.",
            examples=["embedded"],
        ),
    ]
    object: Annotated[
        Literal["model"], Field(description="Type of the object.", examples=["model"])
    ] = "model"
    created: Annotated[
        int, Field(description="Always 0: the creation time is unknown.", examples=[0])
    ] = 0
    owned_by: Annotated[str, Field(description="Owner of the model.", examples=["rlcm-serve"])] = (
        "rlcm-serve"
    )


class ModelList(Wire):
    """The available models. The service serves one."""

    object: Annotated[
        Literal["list"], Field(description="Type of the object.", examples=["list"])
    ] = "list"
    data: Annotated[
        list[ModelCard],
        Field(
            description="The available models.",
            examples=[
                [{"id": "embedded", "object": "model", "created": 0, "owned_by": "rlcm-serve"}]
            ],
        ),
    ]


class ErrorBody(Wire):
    """An error in OpenAI's format."""

    message: Annotated[
        str,
        Field(
            description="What is wrong, and how to fix it.",
            examples=["alpha is 1.5: give an accepted risk between 0 and 1"],
        ),
    ]
    type: Annotated[
        str, Field(description="Type of the error.", examples=["invalid_request_error"])
    ]
    param: Annotated[
        str | None,
        Field(description="The field that caused the error; null if none did.", examples=["alpha"]),
    ]
    code: Annotated[str, Field(description="Code of the error.", examples=["invalid_request"])]
    rlcm: Annotated[
        dict[str, Any],
        Field(
            description="The same error as problem details (RFC 9457).",
            examples=[{"type": "urn:rlcm:problem:invalid-request", "status": 422}],
        ),
    ]


class ErrorResponse(Wire):
    """An error response in OpenAI's format."""

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
