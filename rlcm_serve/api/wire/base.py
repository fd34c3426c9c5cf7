"""The base of all wire types."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """No unknown fields, no guessing at types."""

    model_config = ConfigDict(extra="forbid", strict=True, from_attributes=True)
