"""How one request to vLLM ends: with a result, or with an error that says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.exceptions import GracefulHTTPError, VLLMValidationError

from rlcm_serve.core import Sampling
from rlcm_serve.engine import requests
from rlcm_serve.engine.requests import check_sampling, once_admitted
from rlcm_serve.engine.running import RunningVllm
from rlcm_serve.errors import EngineBusy, EngineDead, RequestRefused, RlcmError


def running(*steps: str | Exception | None) -> RunningVllm:
    """vLLM whose request has an output with each finish reason, or fails."""

    async def generate(*_: Any, **__: Any) -> AsyncIterator[SimpleNamespace]:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            yield SimpleNamespace(outputs=[SimpleNamespace(finish_reason=step)])

    made = RunningVllm.__new__(RunningVllm)
    made.llm = SimpleNamespace(generate=generate, errored=False)
    made._killed, made._adapters, made.outputs_received = None, {}, 0
    made._open, made._canaries = 0, 0
    made._ids = (str(number) for number in count())
    return made


async def reasons(vllm: RunningVllm) -> list[str | None]:
    async with vllm.outputs((1,), SamplingParams(), priority=0) as outputs:
        return [output.outputs[0].finish_reason async for output in outputs]


async def test_a_canary_goes_before_all_others_and_does_not_count() -> None:
    """In a vLLM that was adopted, all others may be requests that this service does not know."""
    vllm, seen = running("stop"), list[tuple[int, int]]()
    generate = vllm.llm.generate

    def watched(*asked: Any, priority: int, **more: Any) -> Any:
        seen.append((priority, vllm.in_flight))
        return generate(*asked, **more)

    vllm.llm.generate = watched
    await vllm.canary()
    async with vllm.outputs((1,), SamplingParams(), priority=0):
        await vllm.canary()
    assert seen == [(-1, 0), (0, 1), (-1, 1)]
    assert vllm.in_flight == 0


async def test_calls_of_a_start_end_when_vllm_dies() -> None:
    """vLLM never answers a call that its death interrupts."""
    vllm = running()

    async def killed() -> None:
        await asyncio.sleep(0.1)
        vllm.llm.errored = True

    dying = asyncio.create_task(killed())
    async with asyncio.timeout(20):
        with pytest.raises(TimeoutError):
            async with vllm.answering(3600):
                await asyncio.Event().wait()
    await dying


async def test_calls_of_a_start_may_take_their_time() -> None:
    vllm = running()
    async with vllm.answering(60):
        await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        async with vllm.answering(0.01):
            await asyncio.Event().wait()
    assert not vllm.has_died


@pytest.mark.parametrize("end", ["stop", "length"])
async def test_a_result_ends_a_request(end: str) -> None:
    assert await reasons(running(None, end)) == [None, end]


@pytest.mark.parametrize("end", ["error", "abort"])
async def test_what_vllm_ends_without_a_result_is_no_end_of_the_model(end: str) -> None:
    """vLLM says so in an output like any other; the text before it is a stump."""
    with pytest.raises(EngineDead, match=f"ended a request without a result: {end}"):
        await reasons(running(None, end))


@pytest.mark.parametrize(
    ("error", "wanted", "said"),
    [
        (
            GracefulHTTPError("the queue is full", HTTPStatus.SERVICE_UNAVAILABLE),
            EngineBusy,
            "vLLM takes no more requests now: the queue is full",
        ),
        (VLLMValidationError("min_p is odd"), RequestRefused, "vLLM refuses the request: min_p"),
    ],
)
async def test_what_vllm_refuses_is_no_internal_error(
    error: Exception, wanted: type[RlcmError], said: str
) -> None:
    with pytest.raises(wanted, match=said):
        await reasons(running(error))


async def test_work_under_way_waits_while_the_queue_is_full() -> None:
    refusals = [EngineBusy("full", retry_after=0.0)] * 5

    @once_admitted
    async def ask(name: str) -> str:
        if refusals:
            raise refusals.pop()
        return name

    assert await ask("forced") == "forced"
    assert not refusals


async def test_a_queue_that_stays_full_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PATIENCE", 0.05)
    asked = []

    @once_admitted
    async def ask() -> None:
        asked.append(1)
        raise EngineBusy("full", retry_after=0.01)

    with pytest.raises(EngineBusy, match="takes no more requests now: full"):
        await ask()
    assert 2 <= len(asked) <= 7


def test_sampling_that_drafts_rule_out_is_refused_at_the_start() -> None:
    def vllm(speculation: object) -> Any:
        return SimpleNamespace(
            model_config=SimpleNamespace(max_logprobs=20, is_diffusion=False),
            vllm_config=SimpleNamespace(
                speculative_config=speculation, structured_outputs_config=None
            ),
            input_processor=SimpleNamespace(tokenizer=None),
        )

    check_sampling(vllm(None), Sampling(0.8, 1.0, min_p=0.1))
    check_sampling(vllm(object()), Sampling(0.8, 1.0))
    with pytest.raises(RequestRefused, match="cannot sample like this: The min_p"):
        check_sampling(vllm(object()), Sampling(0.8, 1.0, min_p=0.1))
