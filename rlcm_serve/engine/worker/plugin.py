"""The plugin for vLLM's entry point `vllm.general_plugins`; runs in every vLLM process."""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import suppress
from typing import Any

PROBED = "Probed"
"""Prefix of the name of a class with a probe in it."""

OWN: dict[str, Any] = {}
"""vLLM's registered models by architecture, also those that `override` hides in its registry."""

CONFIG_KEY = "rlcm"
"""Key in vLLM's `additional_config`.

Its value is {"probe": folder or None, "reserved": [first stop id, one past the last], "tokens":
whether the figures of tokens are tracked}.
"""

_VLLM_PROCESSES = ("EngineCore", "Worker")


def register() -> None:
    """Keeps vLLM's models in `OWN`, without loading any."""
    from vllm.model_executor.models.registry import ModelRegistry

    for architecture, model in ModelRegistry.models.items():
        OWN.setdefault(architecture, model)
    end_with_service()


def override(architecture: str) -> dict[str, str]:
    """vLLM's argument `model_class_overrides` that loads an architecture with a probe in it."""
    return {architecture: f"rlcm_serve.engine.worker.probed_model:{PROBED}{architecture}"}


def end_with_service() -> None:
    """Makes this vLLM process end with the service, neither earlier nor later.

    Ctrl-C reaches every process in the terminal's foreground group. The service finishes its
    requests first, so vLLM leaves that group. If the service is killed, vLLM would stay; a thread
    ends it together with its parent.
    """
    parent = multiprocessing.parent_process()
    name = multiprocessing.current_process().name
    if parent is None or not any(part in name for part in _VLLM_PROCESSES):
        return
    with suppress(PermissionError):  # a session leader is in no terminal's group
        os.setpgrp()

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="rlcm-end-with-parent", daemon=True).start()
