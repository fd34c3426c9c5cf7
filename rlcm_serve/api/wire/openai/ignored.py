"""Fields of OpenAI's API that have no effect here, because they change no answer."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rlcm_serve.api.wire.base import Wire


class IgnoredFields(Wire):
    """Fields that are accepted and ignored."""

    user: str | None = Field(default=None, examples=["user-1"])
    """Accepted and ignored."""
    safety_identifier: str | None = Field(default=None, examples=["user-1"])
    """Accepted and ignored."""
    metadata: dict[str, Any] | None = Field(default=None, examples=[{"run": "7"}])
    """Accepted and ignored: nothing is stored."""
    store: bool | None = Field(default=None, examples=[False])
    """Accepted and ignored: nothing is stored."""
    service_tier: str | None = Field(default=None, examples=["auto"])
    """Accepted and ignored: there is one service tier."""
    parallel_tool_calls: bool | None = Field(default=None, examples=[True])
    """Accepted and ignored: there are no tools."""
    prompt_cache_key: str | None = Field(default=None, examples=["dials"])
    """Accepted and ignored: prompts are cached by themselves."""
    prompt_cache_options: dict[str, Any] | None = Field(default=None, examples=[None])
    """Accepted and ignored: prompts are cached by themselves."""
    prompt_cache_retention: str | None = Field(default=None, examples=["in_memory"])
    """Accepted and ignored: prompts are cached in memory."""
