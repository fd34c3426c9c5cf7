import asyncio
import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import ExitPolicy, ExitReason, confidence_vote, majority_vote
from calibration.policy.vote_stop import vote_stop
from calibration.policy.voting import NO_ANSWER, Vote
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import (
    CancelledSample,
    Message,
    OnInfeasible,
    Question,
    Reading,
    Role,
    Rollout,
    Sampling,
    Solution,
    VoteRule,
)
from rlcm_serve.errors import EngineDead, Infeasible, OutOfTime, RequestRefused
from rlcm_serve.events import (
    CheckpointEvent,
    Event,
    ExitEvent,
    SampleEvent,
    TokenEvent,
    VoteEvent,
)
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.sample import gives_answer
from rlcm_serve.solving.solver import Solver
from tests.rlcm_serve import scripted_engine
from tests.rlcm_serve.scripted_engine import (
    BUDGET,
    FORCED_TOKENS,
    IDENTITY,
    INTERVAL,
    OWN_ANSWER_TOKENS,
    Script,
    ScriptedEngine,
    certificate,
)

POLICY = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)
QUESTION = Question("A dial shows 3. A up 5.", alpha=0.1)

HIGH = Script(confidences=(0.5, 0.95), forced="8} so")
LOW = Script(confidences=(0.05,), ends_at=None)
NATURAL = Script(c_end=0.6)
SCRIPTS = st.builds(
    Script,
    confidences=st.lists(st.sampled_from([0.05, 0.5, 0.95]), min_size=1, max_size=4),
    c_end=st.sampled_from([0.3, 0.5, 0.8]),
    ends_at=st.sampled_from([8, 16, 24, 40, 56, None]),
    own=st.sampled_from([r"\boxed{7}", r"\boxed{8}", None]),
    forced=st.sampled_from(["7}", "8}", "8 or may"]),
)
BUDGET_END = Script(c_end=0.6, ends_at=None, forced="9}")


def solver(grader: AnswerGrader, *scripts: Script, policy: ExitPolicy = POLICY) -> Solver:
    guarantees = Guarantees([IDENTITY], [certificate({0.1: policy})])
    return Solver(ScriptedEngine(*scripts), guarantees, grader)


def engine_of(solver: Solver) -> ScriptedEngine:
    assert isinstance(solver.engine, ScriptedEngine)
    return solver.engine


async def solve(grader: AnswerGrader, *scripts: Script, question: Question = QUESTION) -> Solution:
    return await solver(grader, *scripts).solve(replace(question, samples=len(scripts)))


async def test_a_high_exit_forces_the_answer(grader: AnswerGrader) -> None:
    solution = await solve(grader, HIGH)
    (sample,) = solution.finished
    assert solution.exit is ExitReason.HIGH
    assert (solution.answer, solution.confidence) == ("8", 0.95)
    assert not solution.abstained
    assert len(sample.rollout.tokens) == 32
    assert sample.answer_tokens == FORCED_TOKENS
    assert sample.tokens == solution.tokens == 32 + FORCED_TOKENS + 1
    assert solution.prompt_tokens == 7
    assert solution.guarantee is not None
    assert solution.no_guarantee_reason is None


async def test_an_answer_is_forced_also_where_that_takes_no_token(
    grader: AnswerGrader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that marks no thinking, asked for JSON."""
    monkeypatch.setattr(scripted_engine, "SUFFIX_TOKENS", 0)
    solution = await solve(grader, HIGH)
    assert solution.finished[0].suffix_tokens == 0
    assert solution.forced
    assert not (await solve(grader, NATURAL)).forced


async def test_a_low_exit_abstains_without_forcing(grader: AnswerGrader) -> None:
    asked = solver(grader, LOW)
    solution = await asked.solve(QUESTION)
    assert solution.exit is ExitReason.LOW
    assert solution.abstained
    assert solution.confidence is None
    assert solution.tally == {}
    assert engine_of(asked).forced == 0
    assert solution.guarantee is not None, "an abstention is part of what is certified"


async def test_a_low_exit_answers_by_force_if_told_to(grader: AnswerGrader) -> None:
    asked = solver(grader, LOW, policy=replace(POLICY, answer_on_low=True))
    solution = await asked.solve(QUESTION)
    assert solution.exit is ExitReason.LOW
    assert (solution.answer, solution.confidence) == ("7", 0.05)
    assert engine_of(asked).forced == 1


async def test_a_natural_end_uses_the_models_own_answer(grader: AnswerGrader) -> None:
    asked = solver(grader, NATURAL)
    solution = await asked.solve(QUESTION)
    assert (solution.answer, solution.confidence) == ("7", 0.6)
    assert (solution.text, solution.forced) == (r"It is \boxed{7}.", False)
    assert solution.exit is ExitReason.NATURAL
    assert solution.finished[0].answer_tokens == OWN_ANSWER_TOKENS
    assert engine_of(asked).forced == 0


@pytest.mark.parametrize(
    ("own", "own_tokens"),
    [("It is 7.", OWN_ANSWER_TOKENS), (r"\boxed{7", OWN_ANSWER_TOKENS), (None, 0)],
)
async def test_a_natural_end_without_a_box_is_forced(
    grader: AnswerGrader, own: str | None, own_tokens: int
) -> None:
    solution = await solve(grader, replace(NATURAL, own=own, forced="6}"))
    assert solution.answer == "6"
    assert solution.text == (r"\boxed{6}" if own is None else f"{own}\n\n\\boxed{{6}}")
    assert solution.forced
    assert solution.finished[0].answer_tokens == own_tokens + FORCED_TOKENS


async def test_the_end_of_the_budget_forces_the_answer(grader: AnswerGrader) -> None:
    solution = await solve(grader, BUDGET_END)
    assert solution.exit is ExitReason.BUDGET
    assert solution.answer == "9"
    assert len(solution.finished[0].rollout.tokens) == BUDGET


@pytest.mark.parametrize("script", [NATURAL, BUDGET_END])
async def test_an_end_below_lambda_answer_abstains(grader: AnswerGrader, script: Script) -> None:
    asked = solver(grader, replace(script, c_end=0.39))
    solution = await asked.solve(QUESTION)
    assert solution.abstained
    assert engine_of(asked).forced == 0
    assert solution.finished[0].answer_tokens == solution.finished[0].rollout.answer_tokens


async def test_a_forced_answer_that_never_closes_is_no_answer(grader: AnswerGrader) -> None:
    solution = await solve(grader, replace(HIGH, forced="8 or may"))
    assert solution.abstained
    assert solution.exit is ExitReason.HIGH
    assert solution.finished[0].answer_tokens == FORCED_TOKENS


def test_lambda_answer_is_compared_with_the_smoothed_reading() -> None:
    readings = (Reading(16, 0.8), Reading(32, 0.8), Reading(40, 0.2, is_final=True))
    rollout = Rollout((0,) * 40, "", ExitReason.NATURAL, readings)
    assert not gives_answer(ExitPolicy(lambda_answer=0.4), rollout)
    assert gives_answer(ExitPolicy(lambda_answer=0.4, smoothing=0.5), rollout)
    assert not gives_answer(
        ExitPolicy(lambda_answer=0.4, smoothing=0.5), replace(rollout, exit=ExitReason.LOW)
    )


async def test_confidence_outvotes_number(grader: AnswerGrader) -> None:
    unsure = [Script(c_end=0.41, own=r"\boxed{7}"), Script(c_end=0.42, own=r"\boxed{7.0}")]
    sure = Script(c_end=0.88, own=r"\boxed{8}")
    solution = await solve(grader, *unsure, sure)
    assert solution.answer == "8"
    assert solution.tally == pytest.approx({"7": 0.83, "8": 0.88})
    assert solution.confidence == pytest.approx(0.88 / 1.71)
    by_number = await solve(
        grader, *unsure, sure, question=replace(QUESTION, vote=VoteRule.MAJORITY)
    )
    assert by_number.answer == "7"
    assert by_number.tally == {"7": 2, "8": 1}
    assert by_number.confidence == pytest.approx(2 / 3)


@pytest.mark.parametrize(("least", "answer"), [(0.75, "7"), (0.76, None)])
async def test_the_winner_needs_its_share_of_the_vote(
    grader: AnswerGrader, least: float, answer: str | None
) -> None:
    scripts = [Script(c_end=0.75), Script(c_end=0.5, own=None, forced="8}"), Script(c_end=0.75)]
    asked = solver(grader, *scripts, policy=replace(POLICY, lambda_vote=least))
    solution = await asked.solve(replace(QUESTION, samples=3))
    assert solution.answer == answer
    assert solution.confidence == (None if answer is None else 0.75)
    assert solution.tally == {"7": 1.5, "8": 0.5}
    # One sample has no one to convince.
    alone = await asked.solve(QUESTION)
    assert (alone.answer, alone.confidence) == ("7", 0.75)


async def test_the_vote_does_not_depend_on_the_order(grader: AnswerGrader) -> None:
    scripts = [
        Script(c_end=0.5, own=r"\boxed{\frac12}"),
        Script(c_end=0.45, own=r"\boxed{2/4}"),
        Script(c_end=0.8, own=r"\boxed{3}"),
        Script(c_end=0.3, own=r"\boxed{3}"),  # below λa: no vote
        LOW,
    ]
    for order in itertools.permutations(scripts):
        solution = await solve(grader, *order)
        assert solution.answer in (r"\frac12", "2/4")
        assert solution.confidence == pytest.approx(0.95 / (0.95 + 0.8 + 0.3 + 0.05))
        first = next(s.answer for s in solution.finished if s.answer in (r"\frac12", "2/4"))
        assert solution.answer == first
        assert solution.exit is ExitReason.NATURAL


async def test_all_abstaining_is_an_abstention(grader: AnswerGrader) -> None:
    solution = await solve(grader, LOW, LOW, replace(NATURAL, c_end=0.1))
    assert solution.abstained
    assert len(solution.samples) == 3


async def test_a_broken_reading_has_no_say(grader: AnswerGrader) -> None:
    broken = Script(confidences=(float("nan"),), c_end=float("nan"))
    solution = await solve(grader, broken, NATURAL)
    assert (solution.answer, solution.confidence) == ("7", 1.0)


async def test_another_number_of_samples_is_answered_without_a_guarantee(
    grader: AnswerGrader,
) -> None:
    solution = await solve(grader, NATURAL, HIGH)
    assert solution.answer is not None
    assert solution.guarantee is None
    assert "n is 2, the certified value is 1" in (solution.no_guarantee_reason or "")
    assert solution.policy == POLICY


async def test_max_tokens_limits_the_thinking(grader: AnswerGrader) -> None:
    solution = await solve(grader, NATURAL, question=replace(QUESTION, max_tokens=20))
    assert solution.exit is ExitReason.BUDGET
    assert len(solution.finished[0].rollout.tokens) == 20
    assert solution.guarantee is None


async def test_an_infeasible_alpha_costs_nothing(grader: AnswerGrader) -> None:
    asked = solver(grader, NATURAL)
    with pytest.raises(Infeasible):
        await asked.solve(replace(QUESTION, alpha=0.01))
    assert engine_of(asked).policies == []


async def test_all_that_happens_is_told_in_order(grader: AnswerGrader) -> None:
    told: list[Event] = []
    solution = await solver(grader, NATURAL, HIGH).solve(replace(QUESTION, samples=2), told.append)
    for number, sample in enumerate(solution.finished):
        of_sample = [e for e in told if not isinstance(e, VoteEvent) and e.sample == number]
        *readings, stopped, ended = of_sample
        assert readings == [CheckpointEvent(number, c) for c in sample.rollout.readings]
        rollout = sample.rollout
        tokens = len(rollout.tokens)
        assert stopped == ExitEvent(number, rollout.exit, tokens, rollout.confidence)
        assert ended == SampleEvent(number, sample)
    assert told[-1] == VoteEvent(
        counted=2,
        samples=2,
        tally=solution.tally,
        leader=solution.answer,
        share=solution.confidence or 0,
        decided=True,
    )


async def test_text_is_told_if_asked_for(grader: AnswerGrader) -> None:
    told: list[Event] = []
    asked = solver(grader, NATURAL)
    await asked.run(asked.prepare(QUESTION), told.append, text=True)
    *rollout, own, _, last = [event for event in told if isinstance(event, TokenEvent)]
    assert [event.text for event in rollout] == ["hm"] * 3
    assert sum(event.tokens for event in rollout) == 40
    assert own == TokenEvent(0, OWN_ANSWER_TOKENS, "It ", is_answer=True)
    assert last == TokenEvent(0, 0, r"\boxed{7}.", is_answer=True)


async def test_samples_that_can_change_nothing_are_cancelled(grader: AnswerGrader) -> None:
    sure, slow = Script(c_end=0.95), Script(stays=True)
    asked = solver(grader, sure, sure, slow, sure, slow)
    question = replace(QUESTION, samples=5, vote=VoteRule.MAJORITY)
    solution = await asked.solve(question)
    assert solution.answer == "7"
    assert [isinstance(s, CancelledSample) for s in solution.samples] == [0, 0, 1, 0, 1]
    for sample in solution.cancelled:
        assert sample.tokens == INTERVAL
        assert [c.tokens for c in sample.readings] == [INTERVAL]
    assert solution.tokens == sum(s.tokens for s in solution.finished) + 2 * INTERVAL
    assert solution.tally == {"7": 3}
    assert (engine_of(asked).thinking, engine_of(asked).aborted) == (0, 2)


async def test_disagreement_settles_an_abstention_early(grader: AnswerGrader) -> None:
    scripts = [Script(c_end=0.9), Script(c_end=0.9, own=r"\boxed{8}"), Script(stays=True)]
    asked = solver(grader, *scripts, policy=replace(POLICY, lambda_vote=0.9))
    solution = await asked.solve(replace(QUESTION, samples=3))
    assert solution.abstained
    assert len(solution.cancelled) == 1


async def test_no_sample_is_cancelled_if_that_is_turned_off(grader: AnswerGrader) -> None:
    asked = solver(grader, *[Script(c_end=0.95)] * 3, Script(stays=True))
    question = replace(QUESTION, samples=4, stop_when_decided=False, timeout=0.2)
    with pytest.raises(OutOfTime):
        await asked.solve(question)
    assert (engine_of(asked).thinking, engine_of(asked).aborted) == (0, 1)


STOPPING = replace(POLICY, lambda_answer=0.0, lambda_stop=0.4)
"""Two of four samples must agree with a confidence of 0.8 on average."""
SLOW = Script(c_end=0.9, own=r"\boxed{8}", ends_at=80)


async def test_the_vote_stops_once_an_answer_leads_far_enough(grader: AnswerGrader) -> None:
    told: list[Event] = []
    asked = solver(grader, HIGH, SLOW, HIGH, SLOW, policy=STOPPING)
    solution = await asked.solve(replace(QUESTION, samples=4, stop_when_decided=False), told.append)
    assert solution.answer == "8"
    assert solution.tally == pytest.approx({"8": 1.9})
    assert [isinstance(s, CancelledSample) for s in solution.samples] == [0, 1, 0, 1]
    assert all(32 < sample.tokens < 80 for sample in solution.cancelled)
    assert (engine_of(asked).thinking, engine_of(asked).aborted) == (0, 2)
    assert isinstance(told[-1], VoteEvent)
    assert (told[-1].counted, told[-1].decided) == (2, True)


async def test_a_sample_that_ended_beyond_the_stop_does_not_count(grader: AnswerGrader) -> None:
    """The sample that thinks least ends last: the others wait, and have no vote."""
    late = [Script(c_end=0.9, own=r"\boxed{9}", ends_at=24) for _ in range(2)]
    told: list[Event] = []
    asked = solver(grader, *late, HIGH, HIGH, policy=STOPPING)
    engine_of(asked).pauses = [20, 20, 0, 0]
    solution = await asked.solve(replace(QUESTION, samples=4), told.append)
    assert solution.answer == "9"
    assert solution.tally == pytest.approx({"9": 1.8})
    assert [isinstance(s, CancelledSample) for s in solution.samples] == [0, 0, 1, 1]
    assert [sample.tokens for sample in solution.cancelled] == [32 + FORCED_TOKENS + 1] * 2
    assert [len(sample.readings) for sample in solution.cancelled] == [2, 2]
    ends = [event for event in told if isinstance(event, SampleEvent)]
    assert sorted(event.sample for event in ends) == [0, 1, 2, 3]
    assert {event.sample: event.result for event in ends} == dict(enumerate(solution.samples))


@settings(max_examples=60)
@given(data=st.data())
def test_the_vote_does_not_depend_on_how_fast_samples_run(
    grader: AnswerGrader, data: st.DataObject
) -> None:
    """What is answered, and from which samples, is what a count by depth alone gives."""
    scripts = data.draw(st.lists(SCRIPTS, min_size=3, max_size=5))
    stop = data.draw(st.sampled_from([0.1, 0.25, 0.4, 0.6]))
    least = data.draw(st.sampled_from([0.0, 0.6]))
    rule = data.draw(st.sampled_from(VoteRule))
    policy = replace(POLICY, lambda_stop=stop, lambda_vote=least)
    pauses = data.draw(st.lists(st.integers(0, 9), min_size=len(scripts), max_size=len(scripts)))
    asked = solver(grader, *scripts, policy=policy)
    engine_of(asked).pauses = pauses
    question = replace(QUESTION, samples=len(scripts), vote=rule, stop_when_decided=False)
    solution = asyncio.run(asked.solve(question))

    alone = [
        asyncio.run(solver(grader, script, policy=policy).solve(QUESTION)) for script in scripts
    ]
    samples = [one.finished[0] for one in alone]

    def vote(counted: list[int]) -> Vote:
        classes = [int(samples[i].answer or NO_ANSWER) for i in counted]
        if rule is VoteRule.MAJORITY:
            return majority_vote(classes)
        return confidence_vote(classes, [samples[i].rollout.confidence for i in counted])

    counted = vote_stop([len(sample.rollout.tokens) for sample in samples], vote, stop)
    expected = vote(counted)
    assert [
        i for i, s in enumerate(solution.samples) if not isinstance(s, CancelledSample)
    ] == counted
    won = expected.winner is not None and expected.share >= least
    assert solution.answer == (str(expected.winner) if won else None)


async def test_out_of_time_aborts_every_sample(grader: AnswerGrader) -> None:
    asked = solver(grader, Script(stays=True))
    with pytest.raises(OutOfTime, match=r"0\.05 s.*timeout_s"):
        await asked.solve(replace(QUESTION, samples=3, timeout=0.05))
    assert (engine_of(asked).thinking, engine_of(asked).aborted) == (0, 3)


async def test_an_abstention_asked_for_at_an_infeasible_alpha_draws_nothing(
    grader: AnswerGrader,
) -> None:
    asked = solver(grader, NATURAL)
    question = replace(QUESTION, alpha=0.01, on_infeasible=OnInfeasible.ABSTAIN)
    solution = await asked.solve(question)
    assert solution.abstained
    assert (solution.samples, solution.exit, solution.tokens) == ((), None, 0)
    assert solution.guarantee is None
    assert engine_of(asked).drawings == []


async def test_what_a_question_overrides_reaches_the_engine(grader: AnswerGrader) -> None:
    asked = solver(grader, NATURAL)
    question = replace(QUESTION, samples=2, temperature=0.3, seed=5, max_tokens=64)
    await asked.run(asked.prepare(question, priority=2))
    first, second = engine_of(asked).drawings
    for generation in (first, second):
        assert generation.sampling == Sampling(0.3, IDENTITY.sampling.top_p)
        assert (generation.budget.thinking, generation.priority) == (64, 2)
    assert first.seed != second.seed
    assert await seeds_of(asked, question) == (first.seed, second.seed)
    assert not {first.seed, second.seed} & set(await seeds_of(asked, replace(question, seed=6)))


async def seeds_of(asked: Solver, question: Question) -> tuple[int | None, ...]:
    drawn = engine_of(asked).drawings
    drawn.clear()
    await asked.solve(question)
    return tuple(generation.seed for generation in drawn)


async def test_a_conversation_is_asked_as_a_whole(grader: AnswerGrader) -> None:
    messages = [Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "A dial shows 3.")]
    asked = solver(grader, NATURAL)
    solution = await asked.solve(Question.of_conversation(messages, alpha=0.1))
    assert solution.prompt_tokens == 6
    assert solution.guarantee is None
    for wrong in ([], messages[:1]):
        with pytest.raises(RequestRefused, match="the last message must be the user's"):
            Question.of_conversation(wrong, alpha=0.1)


async def test_cancelling_aborts_every_sample(grader: AnswerGrader) -> None:
    asked = solver(grader, NATURAL)
    engine = engine_of(asked)
    engine.hold(5)
    solving = asyncio.create_task(asked.solve(replace(QUESTION, samples=5)))
    await engine.all_held.wait()
    solving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await solving
    assert (engine.thinking, engine.aborted) == (0, 5)


async def test_a_dead_engine_ends_all_samples_with_one_error(grader: AnswerGrader) -> None:
    asked = solver(grader, NATURAL)
    engine_of(asked).dead = True
    with pytest.raises(EngineDead, match="restart"):
        await asked.solve(replace(QUESTION, samples=3))
    assert engine_of(asked).thinking == 0


async def test_what_does_not_fit_is_refused(grader: AnswerGrader) -> None:
    with pytest.raises(RequestRefused, match="shorten"):
        await solver(grader).solve(replace(QUESTION, text="word " * 101))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("problem", {"text": " \n"}),
        ("alpha", {"alpha": 0.0}),
        ("alpha", {"alpha": 1.0}),
        ("alpha", {"alpha": float("nan")}),
        ("n", {"samples": 0}),
        ("n", {"samples": 65}),
        ("max_tokens", {"max_tokens": 0}),
        ("temperature", {"temperature": -0.1}),
        ("temperature", {"temperature": float("nan")}),
        ("top_p", {"top_p": 0.0}),
        ("top_p", {"top_p": 1.1}),
        ("timeout_s", {"timeout": 0.0}),
        ("timeout_s", {"timeout": float("nan")}),
    ],
)
def test_a_question_out_of_range_is_refused(field: str, change: dict[str, object]) -> None:
    with pytest.raises(RequestRefused) as caught:
        replace(QUESTION, **change)  # type: ignore[arg-type]
    assert caught.value.field == field
