"""The wire types as properties: whatever the service can say is said in full, and read back."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from calibration import ExitPolicy, ExitReason
from rlcm_serve.api.wire.events import EVENTS, StartBody, body_of
from rlcm_serve.api.wire.question import MAX_INTEGER, SolveRequest
from rlcm_serve.api.wire.solution import SolveResponse
from rlcm_serve.core import (
    MAX_SAMPLES,
    MAX_TEMPERATURE,
    Budget,
    CancelledSample,
    Expectation,
    GenerationSettings,
    Guarantee,
    Message,
    OnInfeasible,
    OnUnfamiliar,
    Question,
    Reading,
    RiskName,
    Role,
    Rollout,
    Sample,
    Sampling,
    Solution,
    VoteRule,
)
from rlcm_serve.errors import RequestRefused
from rlcm_serve.events import CheckpointEvent, ExitEvent, SampleEvent, TokenEvent, VoteEvent
from rlcm_serve.profiles.profile import DEFAULT_PROFILE
from rlcm_serve.solving.asking import ask_under
from rlcm_serve.solving.guarantees import Terms
from rlcm_serve.solving.solver import Prepared
from tests.rlcm_serve.scripted_engine import ScriptedEngine

TEXTS = st.text(max_size=12)
COUNTS = st.integers(0, 10_000)
CONFIDENCES = st.floats(0, 1) | st.just(float("nan"))
RATES = st.floats(0, 1, exclude_min=True, exclude_max=True)
CHECKPOINTS = st.builds(Reading, COUNTS, CONFIDENCES, st.booleans())
EXITS = st.sampled_from(ExitReason)
POLICIES = st.builds(ExitPolicy, lambda_high=st.floats(0.01, 1), answer_on_low=st.booleans())
THOUGHTS = st.builds(
    Rollout,
    tokens=st.lists(COUNTS, max_size=5).map(tuple),
    text=TEXTS,
    exit=EXITS,
    readings=st.lists(CHECKPOINTS, min_size=1, max_size=3).map(tuple),
    answer_text=st.none() | TEXTS,
    answer_tokens=COUNTS,
    discarded=COUNTS,
    cached_prompt_tokens=COUNTS,
)
FINISHED = st.builds(Sample, THOUGHTS, st.none() | TEXTS, COUNTS, COUNTS)
CANCELLED = st.builds(CancelledSample, COUNTS, st.lists(CHECKPOINTS, max_size=2).map(tuple))
TALLIES = st.dictionaries(TEXTS, st.floats(0, 64), max_size=3)
GUARANTEES = st.builds(
    Guarantee,
    risk=st.sampled_from(RiskName).map(str),
    alpha_requested=RATES,
    alpha_certified=RATES,
    delta=RATES,
    promise=TEXTS,
    certificate=TEXTS,
    statement=TEXTS,
    n_problems=COUNTS,
    method=TEXTS,
    covers=TEXTS,
    does_not_cover=st.lists(TEXTS, max_size=2).map(tuple),
)
EXPECTATIONS = st.builds(Expectation, st.floats(0, 1e6), st.floats(0, 1e6))
SOLUTIONS = st.builds(
    Solution,
    answer=st.none() | TEXTS,
    confidence=st.none() | CONFIDENCES,
    exit=st.none() | EXITS,
    samples=st.lists(FINISHED | CANCELLED, max_size=5).map(tuple),
    policy=st.none() | POLICIES,
    guarantee=st.none() | GUARANTEES,
    no_guarantee_reason=st.none() | TEXTS,
    tally=TALLIES,
    prompt_tokens=COUNTS,
    expectation=st.none(),
) | st.builds(
    Solution,
    answer=TEXTS,
    confidence=CONFIDENCES,
    exit=EXITS,
    samples=st.lists(FINISHED | CANCELLED, min_size=1, max_size=5).map(tuple),
    policy=POLICIES,
    guarantee=GUARANTEES,
    no_guarantee_reason=st.none(),
    tally=TALLIES,
    prompt_tokens=COUNTS,
    expectation=EXPECTATIONS,
)


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def sent(body: BaseModel) -> dict[str, Any]:
    """What a client reads; it is JSON to the letter, and the same type reads it back."""
    text = body.model_dump_json()
    assert type(body).model_validate_json(text).model_dump_json() == text
    read: dict[str, Any] = json.loads(text, parse_constant=refuse_constant)
    return read


@given(SOLUTIONS, st.booleans())
def test_a_solution_is_sent_whole(solution: Solution, return_trace: bool) -> None:
    body = sent(SolveResponse.from_solution(solution, return_trace))
    assert body["answer"] == solution.answer
    assert body["abstained"] is (solution.answer is None)
    assert body["tally"] == solution.tally
    assert (body["guarantee"] is None) == (solution.guarantee is None)
    assert (body["saved"] is None) == (solution.expectation is None)
    assert len(body["samples"]) == len(solution.samples)
    for shown, sample in zip(body["samples"], solution.samples, strict=True):
        assert (shown["exit"] == "cancelled") == isinstance(sample, CancelledSample)
        assert (shown["trace"] is not None) == (return_trace and isinstance(sample, Sample))


@given(SOLUTIONS)
def test_usage_adds_up(solution: Solution) -> None:
    body = sent(SolveResponse.from_solution(solution))
    usage = body["usage"]
    total, cached = usage.pop("total_tokens"), usage.pop("cached_prompt_tokens")
    assert total == sum(usage.values())
    assert total == solution.tokens + solution.prompt_tokens + usage["suffix_tokens"]
    assert cached >= 0
    per_sample = ("reasoning_tokens", "answer_tokens", "suffix_tokens", "discarded_tokens")
    in_samples = sum(sample[name] for sample in body["samples"] for name in per_sample)
    assert in_samples == total - solution.prompt_tokens


@given(SOLUTIONS.filter(lambda solution: solution.expectation is not None))
def test_what_is_saved_is_what_was_expected_less_what_was_spent(solution: Solution) -> None:
    saved = sent(SolveResponse.from_solution(solution))["saved"]
    assert saved["tokens"] == saved["full_budget_tokens"] - solution.tokens
    assert saved["by_cancelling_tokens"] >= 0


EVENT_BODIES = {
    "token": st.builds(TokenEvent, COUNTS, COUNTS, TEXTS, st.booleans()),
    "checkpoint": st.builds(CheckpointEvent, COUNTS, CHECKPOINTS),
    "exit": st.builds(ExitEvent, COUNTS, EXITS, COUNTS, CONFIDENCES),
    "sample": st.builds(SampleEvent, COUNTS, FINISHED | CANCELLED),
    "vote": st.builds(
        VoteEvent, COUNTS, COUNTS, TALLIES, st.none() | TEXTS, st.floats(0, 1), st.booleans()
    ),
}


@pytest.mark.parametrize("name", EVENT_BODIES)
@given(st.data())
def test_an_event_is_sent_whole(name: str, data: st.DataObject) -> None:
    event = data.draw(EVENT_BODIES[name])
    said, body = body_of(event, return_trace=data.draw(st.booleans()))
    assert said == name
    assert type(body) is EVENTS[name], "and it is what the description says"
    shown = sent(body)
    assert shown.get("sample") == getattr(event, "sample", None)


def test_all_events_are_described() -> None:
    assert EVENTS.keys() == EVENT_BODIES.keys() | {"start"}


@given(st.none() | POLICIES, st.none() | GUARANTEES, COUNTS)
def test_a_stream_begins_with_its_terms(
    policy: ExitPolicy | None, guarantee: Guarantee | None, thinking: int
) -> None:
    budget = Budget(thinking, 8)
    generation = GenerationSettings(budget, Sampling(1.0, 1.0))
    question = Question("What?", 0.1)
    terms = Terms(ask_under(question, [DEFAULT_PROFILE]), policy, budget, guarantee, None)
    prepared = Prepared(question, terms, ScriptedEngine(), (1, 2), generation)
    body = sent(StartBody.from_prepared(prepared))
    assert body["max_tokens"] == thinking
    assert body["policy"] == (None if policy is None else policy.to_scalars())


MESSAGES = st.fixed_dictionaries({"role": st.sampled_from(Role).map(str), "content": TEXTS})
ASKED = st.fixed_dictionaries(
    {"problem": st.text(min_size=1, max_size=12)}
) | st.fixed_dictionaries({"messages": st.lists(MESSAGES, min_size=1, max_size=3)})
SETTINGS = st.fixed_dictionaries(
    {"alpha": RATES},
    optional={
        "n": st.integers(1, MAX_SAMPLES),
        "vote": st.sampled_from(VoteRule).map(str),
        "risk": st.sampled_from(RiskName).map(str),
        "max_tokens": st.none() | st.integers(1, 10**9),
        "temperature": st.none() | st.floats(0, MAX_TEMPERATURE),
        "top_p": st.none() | st.floats(0, 1, exclude_min=True),
        "seed": st.none() | st.integers(0, MAX_INTEGER),
        "on_infeasible": st.sampled_from(OnInfeasible).map(str),
        "on_unfamiliar": st.sampled_from(OnUnfamiliar).map(str),
        "timeout_s": st.none() | st.floats(0, 1e9, exclude_min=True),
        "stop_when_decided": st.booleans(),
        "profile": st.none() | st.text(max_size=9),
    },
)


@given(ASKED, SETTINGS)
def test_every_valid_request_is_a_question_or_is_refused(
    asked: dict[str, Any], chosen: dict[str, Any]
) -> None:
    request = SolveRequest.model_validate_json(json.dumps(asked | chosen))
    last = asked["messages"][-1] if "messages" in asked else {"role": "user"} | asked
    text = last.get("problem", last.get("content"))
    if last["role"] != "user" or not text.strip():
        with pytest.raises(RequestRefused):
            request.to_question()
        return
    question = request.to_question()
    assert question.text == text
    assert (question.alpha, question.samples) == (chosen["alpha"], chosen.get("n", 1))
    assert question.vote == chosen.get("vote", "confidence")
    assert question.timeout == chosen.get("timeout_s")
    messages = [Message(Role(one["role"]), one["content"]) for one in asked.get("messages", ())]
    assert question.messages == tuple(messages or [Message(Role.USER, text)])
