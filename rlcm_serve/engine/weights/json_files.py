"""Reads the JSON files of models, probes and adapters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlcm_serve.errors import ModelRefused


def read_json(file: Path) -> dict[str, Any]:
    """The object that a file holds.

    Raises:
        ModelRefused: the file is not JSON in UTF-8, or holds no object.
    """
    try:
        stored = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelRefused(f"{file} is not JSON: {error}") from error
    if not isinstance(stored, dict):
        raise ModelRefused(f"{file} is not a JSON object")
    return stored
