"""A logits processor with a fault that the study must find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from unittest.mock import patch

from rlcm_serve.engine.worker.processor_v2 import ExitProcessorV2
from rlcm_serve.engine.worker.tracking import Step, Tracked

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcRequestState


class LastRows(Step):
    """Takes every reading at the row of the last draft, which may be refused."""

    def visit(
        self,
        tracked: Tracked,
        row: int,
        tokens: int,
        last_token: int | None,
        drafts: Sequence[int] = (),
    ) -> None:
        before = len(self._due)
        super().visit(tracked, row, tokens, last_token, drafts)
        self._due[before:] = [due._replace(row=row + len(drafts)) for due in self._due[before:]]


class ReadsRefusedRows(ExitProcessorV2):
    """Exit control with `LastRows` in place of `Step`."""

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        super().__init__(vllm_config, req_states)
        # For ever, in vLLM's process alone.
        patch(f"{ExitProcessorV2.__module__}.Step", LastRows).start()
