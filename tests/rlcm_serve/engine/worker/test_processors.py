"""Both model runners' processors, driven by hand: what they read, force and report."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence

import pytest
import torch
from vllm import SamplingParams

from calibration import FULL_BUDGET, INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.engine.worker.exit_control import EXTRA_ARG
from rlcm_serve.engine.worker.probed_model import LATEST
from rlcm_serve.engine.worker.processor_v1 import ExitProcessor
from rlcm_serve.engine.worker.processor_v2 import ExitProcessorV2
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from tests.rlcm_serve.engine.batch_double import (
    END,
    HIGH,
    LOW,
    THINK_END,
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
from tests.rlcm_serve.engine.channels import CHANNELS, caught_up, final

N = 4
CONFIDENCE = [round(0.01 + 0.9 * (7 * tokens % 31) / 31, 4) for tokens in range(64)]
"""Different at every length, and always below what a prefill's chunk leaves behind."""


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
    table = CHANNELS[request.param](slots=12, capacity=32)
    yield table
    table.close()


def ask(
    table: ReadingsTable,
    length: int,
    policy: ExitPolicy = FULL_BUDGET,
    budget: int = 1000,
    confidence: Sequence[float] = CONFIDENCE,
) -> Request:
    """A request whose thinking is `length` tokens long; then it closes it and answers."""
    says = [WORD] * length + [THINK_END] + [WORD] * 6
    slot = asyncio.run(table.acquire(N))
    return new_request(table, slot, says, confidence, policy, budget, N)


def checkpoints(last: int) -> dict[int, float]:
    return {tokens: CONFIDENCE[tokens] for tokens in range(N, last + 1, N)}


def test_checkpoints_lie_at_every_interval_and_c_end_before_the_end(
    runner: Runner, table: ReadingsTable
) -> None:
    request = ask(table, length=14)
    runner.join(request)
    runner.run()
    assert request.output == list(request.says)
    assert request.readings() == (checkpoints(12), (14, CONFIDENCE[14]))


def test_an_end_right_at_a_checkpoint_has_both_readings(
    runner: Runner, table: ReadingsTable
) -> None:
    request = ask(table, length=12)
    runner.join(request)
    runner.run()
    assert request.readings() == (checkpoints(12), (12, CONFIDENCE[12]))


def test_thinking_shorter_than_an_interval_has_only_its_final_reading(
    runner: Runner, table: ReadingsTable
) -> None:
    for length in (0, 3):
        request = ask(table, length)
        runner.join(request)
        runner.run()
        assert request.readings() == ({}, (length, CONFIDENCE[length]))


@pytest.mark.parametrize("budget", [1, 3, 4, 10, 12])
def test_the_budget_forces_a_stop_and_has_a_final_reading_alone(
    runner: Runner, table: ReadingsTable, budget: int
) -> None:
    request = ask(table, length=40, budget=budget)
    runner.join(request)
    runner.run()
    assert request.output == [WORD] * budget + [LOW]
    assert request.readings() == (checkpoints(budget - 1), (budget, CONFIDENCE[budget]))


@pytest.mark.parametrize("chunk", [2, 3, 1000])
def test_a_budget_of_0_reads_the_prompts_last_state(
    runner: Runner, table: ReadingsTable, chunk: int
) -> None:
    request = ask(table, length=40, budget=0)
    runner.join(request)
    runner.run(chunk)
    assert request.output == [LOW]
    assert request.readings() == ({}, (0, CONFIDENCE[0]))


@pytest.mark.parametrize("budget", [15, 16, 17])
def test_a_text_that_ends_just_before_the_budget_has_no_reading_at_the_budget(
    table: ReadingsTable, budget: int
) -> None:
    """Drafts reach the budget, whose state is read, in the step in which the text ends."""
    stale = 0
    for seed in range(20):
        runner = RunnerV2Drafting(seed)
        request = ask(table, 14, budget=budget)
        request.says = [WORD] * 14 + [END]
        runner.join(request)
        runner.run()
        assert request.slot is not None
        stale += final(request.slot) is not None
        assert caught_up(request.slot).final(14) is None
        early = {one.tokens: round(one.confidence, 4) for one in request.slot.new(15)}
        assert early == checkpoints(12)
        table.release(request.slot)
    assert stale, "drafts were to reach the budget"


POLICIES = [
    ExitPolicy(lambda_high=0.8),
    ExitPolicy(lambda_high=0.9, lambda_low=0.2),
    ExitPolicy(lambda_low=0.5, patience=8),
    ExitPolicy(lambda_low=0.4, patience=12, lambda_high=0.75, smoothing=0.5),
    FULL_BUDGET,
]


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_every_request_stops_where_the_rule_says(
    runner: Runner, table: ReadingsTable, chunk: int
) -> None:
    requests = [ask(table, 50, policy, budget=45) for policy in POLICIES]
    for request in requests:
        runner.join(request)
        runner.step(chunk)  # they join one after another
    runner.run(chunk)
    reasons = set()
    for request, policy in zip(requests, POLICIES, strict=True):
        state, exit_, tokens = INITIAL_STATE, None, 45
        for at in range(N, 45, N):
            state, exit_ = step(policy, state, at, CONFIDENCE[at])
            if exit_ is not None:
                tokens = at
                break
        assert request.output == [WORD] * tokens + [HIGH if exit_ is ExitReason.HIGH else LOW]
        expected_final = (45, CONFIDENCE[45]) if exit_ is None else None
        assert request.readings() == (checkpoints(min(tokens, 44)), expected_final)
        reasons.add(exit_)
    assert reasons == {ExitReason.HIGH, ExitReason.LOW, None}


@pytest.mark.parametrize("chunk", [1, 4, 7])
def test_chunks_of_a_prefill_leave_no_reading(
    runner: Runner, table: ReadingsTable, chunk: int
) -> None:
    """Their states would fire a high exit at once."""
    request = ask(table, 10, ExitPolicy(lambda_high=0.95))
    request.prompt = 30
    runner.join(request)
    runner.run(chunk)
    assert request.readings() == (checkpoints(8), (10, CONFIDENCE[10]))


@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize("after", range(1, 13))
def test_a_preemption_changes_nothing(
    runner: Runner, table: ReadingsTable, after: int, chunk: int
) -> None:
    """After `after` tokens: at checkpoints, between them, and right after the closing token."""
    policy = ExitPolicy(lambda_high=0.95, lambda_low=0.02, patience=N, smoothing=0.2)
    request, other = ask(table, 11, policy), ask(table, 30, policy)
    for each in (other, request):
        runner.join(each)
    while len(request.output) < after:
        runner.step(chunk)
    runner.preempt(request)
    for _ in range(3):
        runner.step(chunk)
    runner.join(request)
    runner.run(chunk)
    assert request.output == list(request.says)
    assert request.readings() == (checkpoints(8), (11, CONFIDENCE[11]))
    assert other.readings() == (checkpoints(28), (30, CONFIDENCE[30]))


def test_front_ends_with_a_table_each_share_an_engine(runner: Runner, table: ReadingsTable) -> None:
    """Slots are numbers within a table. Each front end of an engine has a table of its own."""
    other = type(table)(slots=12, capacity=32)
    one, two = ask(table, 11), ask(other, 30)
    assert one.slot is not None
    assert two.slot is not None
    assert one.slot.number == two.slot.number
    runner.join(one)
    while len(one.output) < 12:  # the closing token is sampled, and not yet seen
        runner.step()
    runner.preempt(one)
    runner.join(two)
    runner.step()
    runner.join(one)
    runner.run()
    assert one.readings() == (checkpoints(8), (11, CONFIDENCE[11]))
    assert two.readings() == (checkpoints(28), (30, CONFIDENCE[30]))
    other.close()


def test_requests_that_leave_early_do_not_disturb_the_others(
    runner: Runner, table: ReadingsTable
) -> None:
    requests = [ask(table, length) for length in (20, 9, 13, 21)]
    for request in requests:
        runner.join(request)
    for _ in range(6):
        runner.step()
    runner.leave(requests[0])  # aborted
    runner.run()
    for request, length in zip(requests[1:], (9, 13, 21), strict=True):
        assert request.readings() == (checkpoints(length), (length, CONFIDENCE[length]))


def test_a_readings_slot_passes_to_the_next_request(runner: Runner, table: ReadingsTable) -> None:
    """The first was aborted and gets one step more, as a batch that was under way gives it."""
    first = ask(table, 30)
    runner.join(first)
    for _ in range(N):
        runner.step()
    assert first.slot is not None
    table.release(first.slot)
    others = [ask(table, 6) for _ in range(12)]
    heir = next(r for r in others if r.slot and r.slot.number == first.slot.number)
    runner.step()  # writes a reading, with the first one's ticket
    runner.leave(first)
    runner.join(heir)
    runner.run()
    assert heir.readings() == (checkpoints(4), (6, CONFIDENCE[6]))


def test_a_slot_is_reused_by_requests_with_and_without_exit_control(
    runner: Runner, table: ReadingsTable
) -> None:
    for round_ in range(4):
        stopped = ask(table, 30, ExitPolicy(lambda_high=0.5))
        runner.join(stopped)
        runner.run()
        assert stopped.output[-1] == HIGH
        plain = Request([WORD] * 20, CONFIDENCE, None, None)
        runner.join(plain)
        runner.run()
        assert plain.output == [WORD] * 20, f"round {round_}: not controlled"


def test_requests_with_and_without_exit_control_share_a_batch(
    runner: Runner, table: ReadingsTable
) -> None:
    controlled = [ask(table, length) for length in (9, 14)]
    plain = [Request([WORD, THINK_END] * 8, CONFIDENCE, None, None) for _ in range(3)]
    for request in (plain[0], controlled[0], plain[1], controlled[1], plain[2]):
        runner.join(request)
    runner.run(chunk=3)
    assert all(request.output == list(request.says) for request in plain)
    for request, length in zip(controlled, (9, 14), strict=True):
        assert request.readings() == (checkpoints(length), (length, CONFIDENCE[length]))


def test_one_step_more_after_the_stop_changes_nothing(runner: Runner, table: ReadingsTable) -> None:
    """Asynchronous scheduling: the next step is under way when the stop id comes back."""
    requests = [ask(table, 40, budget=budget) for budget in (7, 8)]
    requests.append(ask(table, 40, ExitPolicy(lambda_high=0.5)))
    for request in requests:
        runner.join(request)
        while not request.ended:
            runner.step()
        request.seen = request.prompt + len(request.output) - 1
        runner.step()
        runner.leave(request)
    assert requests[0].readings() == (checkpoints(4), (7, CONFIDENCE[7]))
    assert requests[1].readings() == (checkpoints(4), (8, CONFIDENCE[8]))
    early, final = requests[2].readings()
    assert final is None
    assert max(early) == len(requests[2].output) - 1


def test_without_a_probe_every_reading_is_nan_and_nothing_fires(
    runner: Runner, table: ReadingsTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LATEST, "probe", None)
    request = ask(table, 40, ExitPolicy(lambda_high=0.1, lambda_low=0.05), budget=10)
    runner.join(request)
    runner.run()
    early, final = request.readings()
    assert list(early) == [4, 8]
    assert final is not None
    assert final[0] == 10
    assert all(map(math.isnan, [*early.values(), final[1]]))


def test_who_has_left_keeps_no_batch_of_states(runner: Runner, table: ReadingsTable) -> None:
    """A large model's states are megabytes a step, and slots are a thousand."""
    for length in range(8, 20):
        controlled = ask(table, length)
        plain = [Request([WORD] * 40, CONFIDENCE, None, None) for _ in range(6)]
        for request in (controlled, *plain):
            runner.join(request)
        for _ in range(6):
            runner.step()
        runner.leave(controlled)
        runner.step()
        for request in plain:
            runner.leave(request)
    rows = held_bytes(runner) / torch.float32.itemsize
    assert 12 <= rows <= 12 * (1 + runner.DRAFTS)


@pytest.mark.parametrize("processor", [ExitProcessor, ExitProcessorV2])
def test_a_malformed_exit_policy_is_refused_at_admission(
    processor: type[ExitProcessor] | type[ExitProcessorV2],
) -> None:
    processor.validate_params(SamplingParams())
    with pytest.raises(ValueError, match="malformed"):
        processor.validate_params(SamplingParams(extra_args={EXTRA_ARG: {"policy": {}}}))


def test_v1_may_change_the_most_likely_token() -> None:
    assert not RunnerV1().processor.is_argmax_invariant()
