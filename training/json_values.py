"""Values for JSON, which has neither NaN nor infinity."""

from __future__ import annotations

import math
from typing import Any


def finite_or_null(value: Any) -> Any:
    """The value with None for every number in it, at any depth, that is not finite."""
    if isinstance(value, dict):
        return {name: finite_or_null(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
