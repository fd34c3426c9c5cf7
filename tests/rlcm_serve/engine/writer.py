"""A double of vLLM that writes one text, from wherever its prompt ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace

from vllm import SamplingParams

from rlcm_serve.core import TokenIds
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_reasoner import VllmReasoner
from rlcm_serve.engine.worker.exit_control import ControlSpec, ExitControl
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from rlcm_serve.engine.worker.readings.table import Readings
from tests.rlcm_serve.engine.asking import user
from tests.rlcm_serve.engine.thinking.families import FAMILIES
from tests.rlcm_serve.engine.thinking.test_detection import text_of
from tests.rlcm_serve.scripted_engine import CONTEXT, IDENTITY

CONFIDENCE = 0.5
FORCED = "9}"
"""What every forced answer says after its opening."""


class Writer:
    """Goes on with the sample behind its prompt, a token at a time. It is always as confident."""

    context, honours_seeds = 100 * CONTEXT, True

    def __init__(self, table: ReadingsTable, sample: TokenIds, forced: TokenIds) -> None:
        self.table, self.sample, self.forced = table, sample, forced

    @asynccontextmanager
    async def outputs(
        self, prompt: TokenIds, params: SamplingParams, *_: object
    ) -> AsyncIterator[AsyncIterator[SimpleNamespace]]:
        yield self._outputs(prompt, params)

    async def _outputs(
        self, prompt: TokenIds, params: SamplingParams
    ) -> AsyncIterator[SimpleNamespace]:
        spec = ControlSpec.from_extra_args(params.extra_args)
        tokens = self.forced if spec is None else self._controlled(prompt, spec)
        for number, token in enumerate(tokens, 1):
            stops, is_cut = token in (params.stop_token_ids or ()), number == params.max_tokens
            part = SimpleNamespace(
                index=0,
                token_ids=[token],
                logprobs=None,
                stop_reason=token if stops else None,
                finish_reason="stop" if stops else "length" if is_cut else None,
            )
            yield SimpleNamespace(outputs=[part], num_cached_tokens=len(prompt))
            if stops or is_cut:
                return

    def _controlled(self, prompt: TokenIds, spec: ControlSpec) -> Iterator[int]:
        readings = Readings(self.table.address, spec.slot, spec.ticket)
        control = ExitControl(spec, readings)
        assert self.sample[: len(prompt)] == prompt
        for number, token in enumerate((*self.sample[len(prompt) :], spec.stop_low)):
            if control.thinking and control.reads_at(number):
                stop = control.read(number, CONFIDENCE)
                token = token if stop is None else stop
            if control.thinking and control.is_end(token):
                control.end(number, CONFIDENCE)
            yield token


@contextmanager
def writing(family: str, says: str) -> Iterator[VllmReasoner]:
    """A reasoner for a model of this family, whose sample is always this text and its end."""
    text = text_of(FAMILIES[family].tokenizer())
    end = text.tokenizer.eos_token_id
    said, forced = (text.tokenizer.encode(one) for one in (says, FORCED))
    sample = (*text.prompt(user("?")), *said, end)
    table = ReadingsTable(2, 100)
    vllm = Writer(table, sample, (*forced, end))
    settings = EngineSettings()
    try:
        yield VllmReasoner(
            lambda: vllm,  # type: ignore[arg-type, return-value]
            settings,
            text,
            IDENTITY,
            vllm.context,
            has_probe=True,
            familiarity=None,
        )
    finally:
        table.close()
