"""vLLM's entry point `vllm.general_plugins`: runs in every one of its processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import suppress

PROBED = "Probed"
"""Prefix of a probed architecture's name."""

CONFIG_KEY = "rlcm"
"""Key in vLLM's `additional_config`.

Its value is {"probe": folder or None, "reserved": [first stop id, one past the last]}.
"""

_VLLM_PROCESSES = ("EngineCore", "Worker")


def register() -> None:
    """Makes `Probed<Arch>` known for every architecture that vLLM knows, without loading one."""
    from vllm.model_executor.models.registry import ModelRegistry

    known = list(ModelRegistry.models)
    for architecture in known:
        probed = PROBED + architecture
        if architecture.startswith(PROBED) or probed in known:
            continue
        ModelRegistry.register_model(probed, f"rlcm_serve.engine.worker.probed_model:{probed}")
    belong_to_service()


def belong_to_service() -> None:
    """Has vLLM's processes end when the service says so: not before it, and not after it.

    Ctrl-C goes to all processes of a terminal's foreground group. The service answers what it is
    answering before it ends, so vLLM leaves that group. And an engine outlives a front end that was
    killed; ours ends with it.
    """
    parent = multiprocessing.parent_process()
    name = multiprocessing.current_process().name
    if parent is None or not any(part in name for part in _VLLM_PROCESSES):
        return
    with suppress(PermissionError):  # it leads its session, so no terminal's group is its own
        os.setpgrp()

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="rlcm-end-with-parent", daemon=True).start()
