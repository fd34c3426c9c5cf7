"""Signals and statistics of tokens under both model runners: every token counts once.

The double samples with what the processor leaves it, in place, as vLLM does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from calibration import FULL_BUDGET, INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.core import Reading, Signal
from rlcm_serve.engine.worker.figures.distributions import Distributions
from rlcm_serve.engine.worker.probed_model import LATEST
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from rlcm_serve.engine.worker.signals import ENTROPY
from rlcm_serve.engine.worker.statistics import STATISTICS
from tests.rlcm_serve.engine.batch_double import (
    HIGH,
    LOW,
    THINK_END,
    VOCABULARY,
    WORD,
    Echo,
    Request,
    Runner,
    RunnerV1,
    RunnerV2,
    RunnerV2Drafting,
    held_bytes,
    new_request,
)
from tests.rlcm_serve.engine.channels import CHANNELS, caught_up, final, new

N = 4
WINDOW = 4 * N
TOKENS = ("sequence-probability", "lowest-group", "tail")
LENGTH = 30  # the longest rollout here
ONE_ROW = (VOCABULARY + 3) * torch.float32.itemsize


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LATEST, "probe", Echo())
    monkeypatch.setattr(LATEST, "hidden_NH", None)


@pytest.fixture(params=[RunnerV1, RunnerV2, RunnerV2Drafting], ids=["v1", "v2", "drafts"])
def runner(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param()
    return runner


@pytest.fixture(params=CHANNELS)
def table(request: pytest.FixtureRequest) -> Iterator[ReadingsTable]:
    table = CHANNELS[request.param](slots=6, capacity=32, signals=True, tokens=64)
    yield table
    table.close()


def ask(
    table: ReadingsTable,
    length: int,
    policy: ExitPolicy = FULL_BUDGET,
    budget: int = 1000,
    reads: str = Signal.PROBE,
    seed: int = 0,
    closing: int = THINK_END,
) -> Request:
    """A request that thinks `length` tokens sampled at random, unlikely ones among them."""
    rng = torch.Generator().manual_seed(100 * seed + length)
    words = torch.randint(5, HIGH, (length,), generator=rng).tolist()
    confidence = [0.5 + 0.001 * tokens for tokens in range(64)]
    slot = asyncio.run(table.acquire(N))
    request = new_request(
        table, slot, [*words, closing, *[WORD] * 6], confidence, policy, budget, N, reads
    )
    request.logits = 3 * torch.randn(64, VOCABULARY, generator=rng)
    return request


def after(request: Request, tokens: int) -> dict[str, float]:
    """The signals after that many tokens, by their definitions."""
    log_probs_TV = request.logits[:tokens].double().log_softmax(dim=-1)
    sampled_T = log_probs_TV[range(tokens), list(request.says[:tokens])]
    confidence_T = -log_probs_TV.topk(20, dim=-1).values.mean(dim=-1)
    groups = [
        float(confidence_T[max(0, end - WINDOW) : end].mean())
        for end in range(min(WINDOW, tokens), tokens + 1)
    ]
    figures = (float(sampled_T.mean().exp()), *(c / (c + 10) for c in (min(groups), groups[-1])))
    return dict(zip(TOKENS, figures, strict=True)) | {"probe": request.confidence[tokens]}


def statistics_after(request: Request, tokens: int) -> list[float]:
    """The statistics after that many tokens, by their definitions."""
    if not tokens:
        return [0.0] * len(STATISTICS)
    log_probs_TV = request.logits[:tokens].double().log_softmax(dim=-1)
    log_prob = log_probs_TV[range(tokens), list(request.says[:tokens])]
    entropy = torch.distributions.Categorical(logits=request.logits[:tokens].double()).entropy()
    confidence = -log_probs_TV.topk(20, dim=-1).values.mean(dim=-1)
    found = (
        *(log_prob.mean(), log_prob.min(), log_prob[-32:].mean(), log_prob[-32:].min()),
        log_prob.sort().values[:5].mean(),
        *(entropy.mean(), entropy[-32:].mean(), entropy.max()),
        *(confidence.mean(), confidence[-32:].mean(), confidence[-32:].min()),
    )
    return [*map(float, found), math.log(tokens)]


def assert_read(request: Request, early: range, last: int | None) -> None:
    """Its readings lie at these lengths, each with all signals, and none is another's."""
    assert request.slot is not None
    found = new(request.slot, len(request.output))
    assert [checkpoint.tokens for checkpoint in found] == list(early)
    c_end = final(request.slot)
    assert (c_end and c_end.tokens) == last
    assert request.spec is not None
    for checkpoint in [*found, *([c_end] if c_end else [])]:
        expected = after(request, checkpoint.tokens)
        assert checkpoint.signals == pytest.approx(expected, abs=1e-6)
        assert checkpoint.signals is not None
        assert checkpoint.confidence == checkpoint.signals[request.spec.reads]


def test_tokens_count_in_the_table_of_their_own_front_end(
    runner: Runner, table: ReadingsTable
) -> None:
    """Requests of several front ends, each with a table of its own, are in one batch."""
    other = type(table)(slots=6, capacity=32, signals=True, tokens=64)
    requests = [ask(of, length) for length in (27, 12) for of in (table, other)]
    for request in requests:
        runner.join(request)
    runner.run()
    for request, length in zip(requests, (27, 27, 12, 12), strict=True):
        assert_read(request, range(N, length + 1, N), length)
    other.close()


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_signals_are_of_all_tokens_before_a_reading(
    runner: Runner, table: ReadingsTable, chunk: int
) -> None:
    requests = [ask(table, length, reads=Signal.TAIL) for length in (27, 3, 12)]
    for request in requests:
        runner.join(request)
        runner.step(chunk)  # they join one after another
    runner.run(chunk)
    for request, length in zip(requests, (27, 3, 12), strict=True):
        assert_read(request, range(N, length + 1, N), length)


@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize("preempted", range(1, 13))
def test_a_preemption_changes_nothing(
    runner: Runner, table: ReadingsTable, preempted: int, chunk: int
) -> None:
    """After so many tokens: at checkpoints, between them, and right after the closing token."""
    request, other = ask(table, 11, reads=Signal.LOWEST_GROUP), ask(table, 30)
    for each in (other, request):
        runner.join(each)
    while len(request.output) < preempted:
        runner.step(chunk)
    runner.preempt(request)
    for _ in range(3):
        runner.step(chunk)
    runner.join(request)
    runner.step(chunk)
    if len(request.output) < len(request.says):
        runner.preempt(request)  # once more, perhaps with a part of it seen again
        runner.join(request)
    runner.run(chunk)
    assert_read(request, range(N, 9, N), 11)
    assert_read(other, range(N, 29, N), 30)


@pytest.mark.parametrize("signal", Signal)
def test_exits_act_on_the_signal_that_is_asked_for(
    runner: Runner, table: ReadingsTable, signal: Signal
) -> None:
    reasons = set()
    for seed, policy_of in enumerate(2 * [exit_high, exit_low]):
        plain = ask(table, LENGTH, seed=seed)
        levels = [after(plain, tokens)[signal] for tokens in range(N, LENGTH + 1, N)]
        policy = policy_of(levels)
        request = ask(table, LENGTH, policy, reads=signal, seed=seed)
        runner.join(request)
        runner.run()
        state, exit_, tokens = INITIAL_STATE, None, 0
        while exit_ is None:
            tokens += N
            single = float(np.float32(levels[tokens // N - 1]))
            state, exit_ = step(policy, state, tokens, single)
        stop = HIGH if exit_ is ExitReason.HIGH else LOW
        assert request.output == [*request.says[:tokens], stop]
        assert_read(request, range(N, tokens + 1, N), None)
        reasons.add(exit_)
        for each in (plain, request):
            assert each.slot is not None
            table.release(each.slot)
    assert reasons == {ExitReason.HIGH, ExitReason.LOW}


def exit_high(levels: list[float]) -> ExitPolicy:
    return ExitPolicy(lambda_high=sorted(levels)[len(levels) // 2] - 1e-4)


def exit_low(levels: list[float]) -> ExitPolicy:
    return ExitPolicy(lambda_low=max(levels) + 1e-4, lambda_high=1.01, patience=2 * N)


def test_the_budgets_reading_has_them_too(runner: Runner, table: ReadingsTable) -> None:
    request = ask(table, LENGTH, budget=22, reads=Signal.SEQUENCE_PROBABILITY)
    runner.join(request)
    runner.run()
    assert request.output == [*request.says[:22], LOW]
    assert_read(request, range(N, 22, N), 22)


def test_empty_thinking_has_no_confidence(runner: Runner, table: ReadingsTable) -> None:
    request = ask(table, 0, reads=Signal.TAIL)
    runner.join(request)
    runner.run()
    assert request.slot is not None
    signals = {"probe": 0.5, **dict.fromkeys(TOKENS, 0.0)}
    assert final(request.slot) == Reading(0, 0.0, is_final=True, signals=signals)


@pytest.mark.parametrize("steps_more", [0, 1])
@pytest.mark.parametrize("length", [0, 1, 7, 8])
def test_what_an_end_of_text_closes_is_known_without_a_step_of_its_own(
    runner: Runner, table: ReadingsTable, length: int, steps_more: int
) -> None:
    """With asynchronous scheduling there may be a step more, which must not count."""
    request = ask(table, length, closing=WORD)
    runner.join(request)
    while len(request.output) <= length:
        runner.step()
    for _ in range(steps_more):
        runner.step()
    assert request.slot is not None
    assert final(request.slot) is None
    signals = caught_up(request.slot).token_signals(length)
    assert signals is not None
    if length:
        assert signals == pytest.approx([after(request, length)[name] for name in TOKENS])
    else:
        assert signals == (0, 0, 0)
    assert caught_up(request.slot).token_signals(len(request.output) + 1 + runner.DRAFTS) is None


def test_a_token_that_was_not_observed_leaves_no_signal(
    runner: Runner, table: ReadingsTable
) -> None:
    request = ask(table, 14, ExitPolicy(lambda_high=0.01), reads=Signal.TAIL)
    request.output += request.says[:6]
    runner.join(request)
    runner.run()
    assert request.output == list(request.says), "NaN fires nothing"
    assert request.slot is not None
    c_end = final(request.slot)
    assert c_end is not None
    assert math.isnan(c_end.confidence)
    assert c_end.signals == {"probe": pytest.approx(request.confidence[14])}


def test_distributions_are_freed_with_the_request(runner: Runner, table: ReadingsTable) -> None:
    """As large as the vocabulary each; what was aborted may not keep them, slot after slot."""
    for _ in range(12):
        aborted = ask(table, LENGTH)
        others = [Request([WORD] * 40, [0.5] * 64, None, None) for _ in range(5)]
        for request in (aborted, *others):
            runner.join(request)
        for _ in range(6):
            runner.step()
        runner.leave(aborted)
        runner.step()
        assert aborted.slot is not None
        table.release(aborted.slot)
        caught_up(aborted.slot)  # a worker without shared memory hears of it with the next question
        for request in others:
            runner.leave(request)
    assert held_bytes(runner) <= (1 + runner.DRAFTS) * (ONE_ROW + 6 * torch.float32.itemsize)


def test_who_has_left_keeps_its_own_row_alone(runner: Runner, table: ReadingsTable) -> None:
    requests = [ask(table, LENGTH) for _ in range(3)]
    for request in requests:
        runner.join(request)
    for leaver in requests:
        runner.step()
        runner.leave(leaver)
    runner.join(ask(table, LENGTH))
    runner.step()
    rows = held_bytes(runner) / (ONE_ROW + torch.float32.itemsize)
    assert 4 <= rows <= 4 * (1 + runner.DRAFTS)


@pytest.mark.parametrize("chunk", [2, 3, 1000])
def test_an_entropy_is_that_of_the_prompts_next_token(
    runner: Runner, table: ReadingsTable, chunk: int
) -> None:
    request = ask(table, 5, budget=0, reads=ENTROPY)
    other = ask(table, 9)
    for each in (other, request):
        runner.join(each)
    expected = torch.distributions.Categorical(logits=request.logits[0]).entropy()
    while not request.ended:
        runner.step(chunk)
    assert request.slot is not None
    c_end = final(request.slot)
    assert c_end is not None
    assert c_end.confidence == pytest.approx(float(expected), abs=1e-5)


def test_a_certain_next_token_has_no_entropy() -> None:
    certain = torch.full((1, VOCABULARY), -math.inf)
    certain[0, WORD] = 0.0
    assert Distributions.of(certain, [0]).entropy(0) == 0.0


class OfTokens(Echo):
    """A probe whose confidence is one of the statistics: the mean entropy over a hundred."""

    reads_tokens = True

    def confidence(
        self, hidden_NH: torch.Tensor, statistics_NS: torch.Tensor | None = None
    ) -> torch.Tensor:
        assert statistics_NS is not None
        return statistics_NS[:, 5] / 100


@pytest.fixture
def recording() -> Iterator[ReadingsTable]:
    """A table without signals, into which a probe's inputs are recorded."""
    table = ReadingsTable(slots=6, capacity=32, tokens=64, inputs=1 + len(STATISTICS))
    yield table
    table.close()


def recorded(request: Request) -> dict[int, Reading]:
    """All readings so far, by their tokens."""
    assert request.slot is not None
    c_end = final(request.slot)
    found = [*new(request.slot, len(request.output)), *([c_end] if c_end else [])]
    return {reading.tokens: reading for reading in found}


@pytest.mark.parametrize("preempted", [2, 8, 35, 41])
@pytest.mark.parametrize("chunk", [3, 1000])
def test_a_probe_reads_statistics_whatever_the_scheduler_does(
    runner: Runner,
    recording: ReadingsTable,
    chunk: int,
    preempted: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LATEST, "probe", OfTokens())
    request, other = ask(recording, 41), ask(recording, 50)
    runner.join(request)
    runner.step(chunk)
    runner.join(other)
    while len(request.output) < preempted:
        runner.step(chunk)
    runner.preempt(request)
    for _ in range(2):
        runner.step(chunk)
    runner.join(request)
    runner.run(chunk)
    for each, length in ((request, 41), (other, 50)):
        found = recorded(each)
        assert list(found) == sorted({*range(N, length + 1, N), length})
        for tokens, reading in found.items():
            expected = statistics_after(each, tokens)
            assert reading.inputs is not None
            assert reading.inputs[0] == pytest.approx(each.confidence[tokens])
            assert reading.inputs[1:].tolist() == pytest.approx(expected, abs=1e-5)
            assert reading.confidence == pytest.approx(expected[5] / 100, abs=1e-6)
            assert reading.signals is None


def test_statistics_of_what_an_end_of_text_closes_are_read_by_a_request_of_their_own(
    runner: Runner, recording: ReadingsTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LATEST, "probe", OfTokens())
    request = ask(recording, 7, closing=WORD)
    runner.join(request)
    while len(request.output) <= 7:
        runner.step()
    runner.step()  # with asynchronous scheduling there may be one more
    runner.leave(request)
    assert request.slot is not None
    statistics = caught_up(request.slot).statistics(7)
    assert statistics is not None
    assert statistics.tolist() == pytest.approx(statistics_after(request, 7), abs=1e-5)
    assert caught_up(request.slot).statistics(20) is None, "there were not that many"
    end = ask(recording, 5, budget=0)
    assert end.spec is not None
    end.spec = replace(end.spec, statistics=tuple(statistics.tolist()))
    runner.join(end)
    while not end.ended:
        runner.step()
    c_end = recorded(end)[0]
    assert c_end.confidence == pytest.approx(statistics[5] / 100)
    assert c_end.inputs is not None
    assert c_end.inputs[1:].tolist() == statistics.tolist()


def test_without_statistics_such_a_probe_says_nothing(
    runner: Runner, recording: ReadingsTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LATEST, "probe", OfTokens())
    request = ask(recording, 5, budget=0)
    runner.join(request)
    while not request.ended:
        runner.step()
    assert math.isnan(recorded(request)[0].confidence)


def test_an_aborted_request_writes_nothing_for_the_one_that_has_its_slot_now(
    runner: Runner, recording: ReadingsTable
) -> None:
    aborted = ask(recording, 30)
    runner.join(aborted)
    for _ in range(5):
        runner.step()
    assert aborted.slot is not None
    recording.release(aborted.slot)
    while True:  # until the slot has gone round
        request = ask(recording, 9, seed=1)
        assert request.slot is not None
        if request.slot.number == aborted.slot.number:
            break
    runner.join(request)
    runner.run()
    for tokens, reading in recorded(request).items():
        assert reading.inputs is not None
        assert reading.inputs[1:].tolist() == pytest.approx(
            statistics_after(request, tokens), abs=1e-5
        )
