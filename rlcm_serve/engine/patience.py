"""On a CPU, vLLM's processes sleep while they wait for each other."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

_LOOK_MS = 10
"""How often a reader that is busy looks for itself: a notification can get lost between two that
come within a millisecond."""


@cache
def sleep_while_waiting() -> None:
    """Has readers of vLLM's shared memory sleep where they would spin.

    vLLM 0.31 spins for a second after each message, and so from one step of a generation to the
    next (vllm-project/vllm#52814): beside a GPU that is a core which nobody needs, and without one
    it is a core that the computation needs.
    """
    from vllm.distributed.device_communicators import shm_broadcast
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        shm_broadcast.SpinCondition = _sleeping(shm_broadcast.SpinCondition)


def _sleeping(spinning: type[Any]) -> type[Any]:
    class SleepingCondition(spinning):
        busy_loop_s: float

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._busy_s, self.busy_loop_s = self.busy_loop_s, 0.0

        def wait(self, timeout_ms: int | None = None) -> None:
            if time.monotonic() <= self.last_read + self._busy_s:
                timeout_ms = _LOOK_MS if timeout_ms is None else min(timeout_ms, _LOOK_MS)
            super().wait(timeout_ms)

    return SleepingCondition
