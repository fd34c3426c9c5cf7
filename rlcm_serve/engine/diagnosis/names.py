"""What vLLM itself knows: names of its arguments, and values of its sampling parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def engine_argument_names() -> list[str]:
    """The names of vLLM's engine arguments."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    return [field.name for field in fields(AsyncEngineArgs)]


def check_sampling(parameters: Mapping[str, Any]) -> None:
    """Makes vLLM's sampling parameters.

    Raises:
        TypeError, ValueError: vLLM does not have one of the names, or refuses a value.
    """
    from vllm import SamplingParams

    SamplingParams(**parameters)
