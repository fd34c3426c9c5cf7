"""Wire types of `/v1/models` and of errors in OpenAI's envelope."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rlcm_serve.api.wire.base import Wire


class ModelCard(Wire):
    """A model that can be used in requests."""

    id: str = Field(examples=["embedded"])
    """Id of the model, for the field `model` of a request."""
    object: Literal["model"] = Field(default="model", examples=["model"])
    """Type of the object."""
    created: int = Field(default=0, examples=[0])
    """Always 0: the creation time is unknown."""
    owned_by: str = Field(default="rlcm-serve", examples=["rlcm-serve"])
    """Owner of the model."""


class ModelList(Wire):
    """The available models. The service serves one."""

    object: Literal["list"] = Field(default="list", examples=["list"])
    """Type of the object."""
    data: list[ModelCard] = Field(examples=[[ModelCard.example()]])
    """The available models."""


class ErrorBody(Wire):
    """An error in OpenAI's format."""

    message: str = Field(examples=["alpha is 1.5: give an accepted risk between 0 and 1"])
    """What is wrong, and how to fix it."""
    type: str = Field(examples=["invalid_request_error"])
    """Type of the error."""
    param: str | None = Field(examples=["alpha"])
    """The field that caused the error; null if none did."""
    code: str = Field(examples=["invalid_request"])
    """Code of the error."""
    rlcm: dict[str, Any] = Field(
        examples=[{"type": "urn:rlcm:problem:invalid-request", "status": 422}]
    )
    """The same error as problem details (RFC 9457)."""


class ErrorResponse(Wire):
    """An error response in OpenAI's format."""

    error: ErrorBody = Field(examples=[ErrorBody.example()])
    """The error."""
