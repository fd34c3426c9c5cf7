"""What vLLM itself knows: its arguments with their types, and values of sampling parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def engine_arguments() -> dict[str, Any]:
    """The types of vLLM's engine arguments, by name; a text if only type checkers know it."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    return {field.name: field.type for field in fields(AsyncEngineArgs)}


def check_sampling(parameters: Mapping[str, Any]) -> None:
    """Makes vLLM's sampling parameters.

    Raises:
        TypeError, ValueError: vLLM does not have one of the names, or refuses a value.
    """
    from vllm import SamplingParams

    SamplingParams(**parameters)
