from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration import (
    FULL_BUDGET,
    INITIAL_STATE,
    CalibrationError,
    ExitPolicy,
    ExitReason,
    Fingerprint,
    Reading,
    Rollout,
    Traces,
    answers_at_end,
    confidence_vote,
    majority_vote,
    step,
)
from calibration.policy.voting import NO_ANSWER, Vote
from calibration.simulation.groups import Average, Groups
from calibration.simulation.procedure import Procedure, simulate
from calibration.simulation.replay import outcomes, replay
from calibration.simulation.risks import ERROR, REGRET, RISKS, SELECTIVE, Outcomes, Risk

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def traces(make_rollout: MakeRollout, fingerprint: Fingerprint) -> Traces:
    return Traces.from_rollouts(
        [
            # p1: two rollouts, right from 32 tokens on, and wrong throughout.
            make_rollout("p1", (0.2, 0.6, 0.9), (False, True, True), end=40),
            make_rollout("p1", (0.1, 0.95, 0.4), (False, False, False), end=47, rollout=1),
            # p2: hopeless until the budget.
            make_rollout("p2", (0.05,) * 5, (False,) * 5, end=80, natural=False),
        ],
        fingerprint,
    )


EAGER = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.6, lambda_answer=0.5)
FORCED = replace(EAGER, lambda_answer=0.0, answer_on_low=True)


def by_name(traces: Traces, values_UT: np.ndarray) -> list[list[float]]:
    """The units' values, sorted by their names."""
    unit = dict(zip(traces.units, traces.unit_P.tolist(), strict=True))
    return [values_UT[unit[name]].tolist() for name in sorted(unit)]


def test_selective_by_hand(traces: Traces) -> None:
    found = replay(traces, [EAGER, FULL_BUDGET])
    # Eager: p1 stops high at 32 tokens, right and wrong; p2 exits low at 32 and abstains.
    # An answer costs 3.
    assert by_name(traces, found.losses.loss_UT) == [[0.5, 0.5], [0.0, 1.0]]
    assert by_name(traces, found.losses.weight_UT) == [[1.0, 1.0], [0.0, 1.0]]
    assert found.losses.risk_T.tolist() == [0.5, 0.75]
    assert found.answered_T.tolist() == [0.5, 1.0]
    assert found.right_T.tolist() == [0.25, 0.25]
    assert found.tokens_T.tolist() == [(35 + 32) / 2, (46.5 + 83) / 2]
    assert (found.full_tokens, found.full_right) == ((46.5 + 83) / 2, 0.25)
    assert (found.n_problems, found.n_draws) == (2, 3)


def test_risks_that_count_every_question_by_hand(traces: Traces) -> None:
    # p2 now pays for the answer forced at its low exit.
    error = replay(traces, [FORCED, FULL_BUDGET], ERROR)
    assert by_name(traces, error.losses.loss_UT) == [[0.5, 0.5], [1.0, 1.0]]
    assert not error.losses.is_ratio
    assert error.answered_T.tolist() == [1.0, 1.0]
    assert error.tokens_T.tolist() == [35.0, (46.5 + 83) / 2]
    hasty = replace(FORCED, lambda_low=0.2, patience=0)
    regret = replay(traces, [FORCED, hasty], REGRET)
    # Hasty: the right one of p1 exits low at 16 tokens, wrong; at the full budget it was right.
    assert by_name(traces, regret.losses.loss_UT) == [[0.0, 0.5], [0.0, 0.0]]
    assert regret.full_right == 0.25


def test_abstaining_at_the_end_costs_only_what_the_model_wrote_itself(traces: Traces) -> None:
    found = replay(traces, [ExitPolicy(lambda_answer=1.0)])
    # p1 ends naturally, its own answers cost 3 each; p2 reaches the budget, and none is forced.
    assert found.answered_T.tolist() == [0.0]
    assert found.tokens_T.tolist() == [((43 + 50) / 2 + 80) / 2]


def test_an_answer_that_cannot_be_read_is_not_given(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rollout = make_rollout(confidences=(0.95, 0.5), correct=(False, True), end=20)
    unread = replace(rollout.checkpoints[0], answer=None, answer_class=NO_ANSWER)
    traces = Traces.from_rollouts([replace(rollout, checkpoints=(unread,))], fingerprint)
    early = ExitPolicy(lambda_high=0.9)
    found = replay(traces, [early])
    assert found.answered_T.tolist() == [0.0]
    assert found.losses.loss_UT.tolist() == found.losses.weight_UT.tolist() == [[0.0]]
    # It was forced, and its tokens count.
    assert found.tokens_T.tolist() == [19.0]
    # If every question counts, no answer counts as wrong.
    assert replay(traces, [early], ERROR).losses.loss_UT.tolist() == [[1.0]]
    assert replay(traces, [early], REGRET).losses.loss_UT.tolist() == [[1.0]]


def test_problems_of_a_group_are_one_unit(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    traces = Traces.from_rollouts(
        [
            # Group z: problems a and c, apart in the traces; c is right in one rollout of two.
            make_rollout("a", (0.5, 0.5), (True, True), group="z", end=20),
            make_rollout("b", (0.5, 0.5), (False, False), end=20),
            make_rollout("c", (0.5, 0.5), (True, True), group="z", end=20),
            make_rollout("c", (0.5, 0.5), (False, False), group="z", rollout=1, end=23),
        ],
        fingerprint,
    )
    assert sorted(set(traces.units)) == ["group z", "problem b"]
    # Problems a, b and c lose 0, 1 and 1/2.
    by_size = replay(traces, [FULL_BUDGET], ERROR)
    assert by_name(traces, by_size.losses.loss_UT) == [[0.25], [0.5]]
    assert by_name(traces, by_size.losses.weight_UT) == [[1.0], [0.5]]
    assert by_size.losses.risk_T.tolist() == by_size.right_T.tolist() == [0.5]
    assert by_size.tokens_T.tolist() == [(23 + 23 + 24.5) / 3]
    larger = replay(traces, [FULL_BUDGET], ERROR, groups=Groups(max_size=4))
    assert by_name(traces, larger.losses.loss_UT) == [[0.125], [0.25]]
    assert by_name(traces, larger.losses.weight_UT) == [[0.5], [0.25]]
    alike = replay(traces, [FULL_BUDGET], ERROR, groups=Groups(Average.GROUPS))
    assert by_name(traces, alike.losses.loss_UT) == [[0.25], [1.0]]
    assert not alike.losses.is_ratio
    assert alike.right_T.tolist() == [0.375]
    assert alike.tokens_T.tolist() == [((23 + 24.5) / 2 + 23) / 2]
    assert not by_size.losses.binary
    assert not alike.losses.binary


def test_a_vote_by_hand(make_rollout: MakeRollout, fingerprint: Fingerprint) -> None:
    traces = Traces.from_rollouts(
        [
            # Exits high at 16 tokens with 6/8, wrong; ends at 40 with 4/8 and 3/8, both right; and
            # abstains by a low exit at 16 with 0.13.
            make_rollout("p", (0.75, 0.1, 0.9), (False, True, True), rollout=0),
            make_rollout("p", (0.3, 0.3, 0.5), (True, True, True), rollout=1),
            make_rollout("p", (0.3, 0.3, 0.375), (True, True, True), rollout=2),
            make_rollout("p", (0.13, 0.3, 0.8), (False, False, False), rollout=3),
        ],
        fingerprint,
    )
    policy = ExitPolicy(lambda_low=0.2, lambda_high=0.75)
    procedure = Procedure(4)
    drawn = outcomes(
        traces,
        [
            policy,
            replace(policy, lambda_vote=0.49),
            replace(policy, lambda_vote=0.5),
            replace(policy, lambda_answer=0.45),
            replace(policy, answer_on_low=True),
        ],
        procedure,
    )
    # 7/8 for right, 6/8 for wrong; one abstained with 0.13. With λa the vote of 3/8 falls silent
    # and 6/8 wins; with the low exit answered, wrong holds 0.88. There are no ties, so the order of
    # the samples has no say.
    assert drawn.answered_DT.tolist() == [[True, True, False, True, True]]
    assert drawn.correct_DT.tolist() == [[True, True, False, False, False]]
    assert drawn.confidence_DT == pytest.approx(
        np.array([[0.875, 0.875, 0.875, 0.75, 0.88]]) / (1.625 + 0.13)
    )
    spent = 19 + 43 + 43 + 16
    assert drawn.tokens_DT.tolist() == [[spent, spent, spent, spent, spent + 3]]
    # At the full budget: right with 0.9, 4/8 and 3/8, against 0.8.
    assert drawn.full_correct_D.tolist() == [True]
    assert drawn.full_tokens_D.tolist() == [4 * 43]
    majority = outcomes(traces, [replace(policy, lambda_vote=0.5)], Procedure(4, "majority"))
    assert majority.correct_DT.tolist() == [[True]]
    assert majority.confidence_DT.tolist() == [[0.5]]
    assert replay(traces, [policy], SELECTIVE, procedure).losses.binary


def test_one_sample_needs_no_share_of_the_vote(traces: Traces) -> None:
    strict = replace(FULL_BUDGET, lambda_vote=1.0)
    assert replay(traces, [strict]).answered_T.tolist() == [1.0]


def random_traces(
    fingerprint: Fingerprint, seed: int, n_problems: int = 25, dearest: int = 0
) -> Traces:
    """Coarse confidences and few answers, so that ties are common; groups; unequal rollouts.

    A reading costs up to `dearest` tokens.
    """
    rng = np.random.default_rng(seed)

    def reading(tokens: int) -> Reading:
        answer_class = int(rng.integers(-1, 3))
        return Reading(
            tokens,
            int(rng.integers(0, 11)) / 10,
            None if answer_class == NO_ANSWER else str(answer_class),
            answer_class,
            int(rng.integers(1, 6)),
            answer_class == 0,
            int(rng.integers(0, dearest + 1)),
        )

    def rollout(problem: int, number: int) -> Rollout:
        natural = bool(rng.random() < 0.6)
        end = int(16 * rng.integers(0, 5) + rng.integers(1, 16)) if natural else 80
        checkpoints = tuple(reading(tokens) for tokens in range(16, end, 16))
        reason = ExitReason.NATURAL if natural else ExitReason.BUDGET
        group = f"g{problem % 4}" if problem % 3 else None
        return Rollout(f"p{problem}", number, reason, checkpoints, reading(end), group)

    counts = rng.integers(3, 8, size=n_problems)
    return Traces.from_rollouts(
        [
            rollout(problem, number)
            for problem in range(n_problems)
            for number in range(counts[problem])
        ],
        fingerprint,
    )


POLICIES = [
    FULL_BUDGET,
    ExitPolicy(0.2, 32, 0.8, 0.3, lambda_vote=0.5),
    ExitPolicy(0.2, 32, 0.8, lambda_vote=0.4),
    ExitPolicy(0.3, 0, 0.7, 0.5, smoothing=0.5),
    ExitPolicy(0.3, 16, 0.9, answer_on_low=True),
    ExitPolicy(0.1, 0, 0.9, low_rise=0.4, low_slope=0.1, low_shift=40.0, answer_on_low=True),
    ExitPolicy(0.2, 32, 0.8, 0.3, lambda_vote=0.5, lambda_stop=0.2),
    ExitPolicy(0.3, 16, 0.9, answer_on_low=True, lambda_stop=0.25),
    ExitPolicy(answer_on_low=True, lambda_stop=1 / 3),
]


def serve(
    traces: Traces, policy: ExitPolicy, rows: list[int], vote: str
) -> tuple[bool, bool, int, float]:
    """One question, answered as in serving: answered, correct, tokens, confidence."""
    classes, weights, correct, depths, answer_tokens = [], [], [], [], []
    for r in rows:
        state, reason, final = INITIAL_STATE, None, int(traces.final_R[r])
        for column in range(final):
            at, confidence = (
                int(traces.tokens_RC[r, column]),
                float(traces.confidence_RC[r, column]),
            )
            state, reason = step(policy, state, at, confidence)
            if reason is not None:
                break
        else:
            column = final
        weights.append(float(traces.confidence_RC[r, column]))
        if reason is None:
            answers = answers_at_end(policy, state, weights[-1])
        else:
            answers = reason is ExitReason.HIGH or policy.answer_on_low
        classes.append(int(traces.answer_class_RC[r, column]) if answers else NO_ANSWER)
        correct.append(bool(traces.correct_RC[r, column]))
        depths.append(int(traces.tokens_RC[r, column]))
        makes_answer = answers or (reason is None and traces.natural_R[r])
        answer_tokens.append(int(traces.answer_tokens_RC[r, column]) if makes_answer else 0)

    def held(counted: list[int]) -> Vote:
        of = [classes[i] for i in counted]
        return (
            majority_vote(of)
            if vote == "majority"
            else confidence_vote(of, [weights[i] for i in counted])
        )

    # Token by token, all samples at the same depth, until one answer leads far enough.
    for clock in range(max(depths) + 1):
        counted = [i for i, depth in enumerate(depths) if depth <= clock]
        first, second = sorted((*held(counted).tally.values(), 0.0, 0.0), reverse=True)[:2]
        if len(rows) > 1 and (first - second) / len(rows) >= policy.lambda_stop:
            break
    reading = max(n for depth, n in zip(depths, answer_tokens, strict=True) if depth == clock)
    tokens = 0
    for i, (r, depth, n) in enumerate(zip(rows, depths, answer_tokens, strict=True)):
        tokens += depth + n if i in counted else min(depth + n, clock + reading)
        if traces.confidence_tokens_RC is not None:
            read = traces.tokens_RC[r, : traces.final_R[r] + 1] <= min(depth, clock)
            # A final reading is at the same depth as a checkpoint only if both were read.
            read[-1] = i in counted and depth == traces.tokens_RC[r, traces.final_R[r]]
            tokens += int(traces.confidence_tokens_RC[r, : len(read)][read].sum())
    if len(rows) == 1:
        return classes[0] != NO_ANSWER, classes[0] == 0 and correct[0], tokens, weights[0]
    final_vote = held(counted)
    answered = final_vote.winner is not None and final_vote.share >= policy.lambda_vote
    return answered, answered and final_vote.winner == 0, tokens, final_vote.share


PROCEDURES = [
    Procedure(),
    Procedure(2),
    Procedure(3, draws=4),
    Procedure(3, "majority"),
]


@pytest.mark.parametrize("procedure", PROCEDURES, ids=str)
@pytest.mark.parametrize("dearest", [0, 9])
def test_replay_is_what_serving_would_do(
    fingerprint: Fingerprint, procedure: Procedure, dearest: int
) -> None:
    traces = random_traces(fingerprint, seed=1, dearest=dearest)
    unread = replace(traces, confidence_tokens_RC=None)
    drawn = outcomes(traces, POLICIES, procedure)
    for d, rows in enumerate(simulate(traces, procedure).rollout_DN.tolist()):
        for t, policy in enumerate(POLICIES):
            served = serve(traces, policy, rows, procedure.vote)
            assert served == (
                drawn.answered_DT[d, t],
                drawn.correct_DT[d, t],
                drawn.tokens_DT[d, t],
                drawn.confidence_DT[d, t],
            )
        _, correct, tokens, _ = serve(unread, FULL_BUDGET, rows, procedure.vote)
        assert (correct, tokens) == (drawn.full_correct_D[d], drawn.full_tokens_D[d])


def test_readings_cost_until_the_stop_and_nothing_at_the_full_budget(
    fingerprint: Fingerprint,
) -> None:
    def reading(tokens: int, confidence: float, cost: int) -> Reading:
        return Reading(tokens, confidence, "7", 0, 3, True, cost)

    checkpoints = (reading(16, 0.2, 5), reading(32, 0.7, 6))
    rollout = Rollout("p", 0, ExitReason.NATURAL, checkpoints, reading(40, 0.9, 7))
    traces = Traces.from_rollouts([rollout], fingerprint)
    policies = [ExitPolicy(lambda_high=high) for high in (0.1, 0.6, 0.8)]
    found = replay(traces, [*policies, FULL_BUDGET])
    assert found.tokens_T.tolist() == [16 + 3 + 5, 32 + 3 + 11, 40 + 3 + 18, 40 + 3 + 18]
    assert found.full_tokens == 43
    free = replay(replace(traces, confidence_tokens_RC=None), [*policies, FULL_BUDGET])
    assert free.tokens_T.tolist() == [19, 35, 43, 43]
    assert (free.losses.loss_UT == found.losses.loss_UT).all()


@pytest.mark.parametrize("procedure", PROCEDURES, ids=str)
@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
@pytest.mark.parametrize("average", Average)
def test_means_are_of_draws_then_of_problems_or_units(
    fingerprint: Fingerprint, procedure: Procedure, risk: Risk, average: Average
) -> None:
    traces = random_traces(fingerprint, seed=2)
    policies = POLICIES
    if risk.answers_always:
        policies = [p for p in POLICIES if p.answer_on_low or p.lambda_low < 0]
    found = replay(traces, policies, risk, procedure, Groups(average))
    drawn = outcomes(traces, policies, procedure)
    problem_D = simulate(traces, procedure).problem_D
    units = traces.unit_P.tolist()
    largest = max(Counter(units).values())

    def of_units(values_DT: np.ndarray) -> list[np.ndarray]:
        problem_means = [values_DT[problem_D == p].mean(axis=0) for p in range(traces.n_problems)]
        return [
            np.array([m for m, name in zip(problem_means, units, strict=True) if name == unit])
            for unit in sorted(set(units))
        ]

    def losses(values_DT: np.ndarray) -> np.ndarray:
        if average is Average.GROUPS:
            return np.array([of_unit.mean(axis=0) for of_unit in of_units(values_DT)])
        return np.array([of_unit.sum(axis=0) / largest for of_unit in of_units(values_DT)])

    def mean(values_DT: np.ndarray) -> np.ndarray:
        if average is Average.GROUPS:
            return np.mean([of_unit.mean(axis=0) for of_unit in of_units(values_DT)], axis=0)
        return np.concatenate(of_units(values_DT)).mean(axis=0)

    loss_DT, weight_DT = risk.loss(drawn)
    if weight_DT is None:
        weight_DT = np.ones(loss_DT.shape)
    assert found.losses.loss_UT == pytest.approx(losses(loss_DT), abs=1e-12)
    assert found.losses.weight_UT == pytest.approx(losses(weight_DT), abs=1e-12)
    assert found.answered_T == pytest.approx(mean(drawn.answered_DT))
    assert found.right_T == pytest.approx(mean(drawn.correct_DT))
    assert found.tokens_T == pytest.approx(mean(drawn.tokens_DT))
    assert found.full_tokens == pytest.approx(mean(drawn.full_tokens_D))
    assert found.full_right == pytest.approx(mean(drawn.full_correct_D))


@pytest.mark.parametrize("procedure", PROCEDURES, ids=str)
def test_nothing_depends_on_the_blocks(fingerprint: Fingerprint, procedure: Procedure) -> None:
    traces = random_traces(fingerprint, seed=3, dearest=9)
    odd = Risk.custom("odd", lambda outcomes: outcomes.tokens_DT % 7 / 7)
    for risk in (SELECTIVE, odd):
        whole = replay(traces, POLICIES, risk, procedure)
        for block in (1, 50, 97):
            parts = replay(traces, POLICIES, risk, procedure, block=block)
            assert (parts.losses.loss_UT == whole.losses.loss_UT).all()
            assert (parts.losses.weight_UT == whole.losses.weight_UT).all()
            for name in ("answered_T", "right_T", "tokens_T"):
                assert (getattr(parts, name) == getattr(whole, name)).all()
            assert (parts.full_tokens, parts.full_right) == (whole.full_tokens, whole.full_right)
        alone = replay(traces, POLICIES[3:4], risk, procedure)
        assert (alone.losses.loss_UT[:, 0] == whole.losses.loss_UT[:, 3]).all()
        assert alone.tokens_T[0] == whole.tokens_T[3]


def test_more_draws_than_fit_a_byte(fingerprint: Fingerprint) -> None:
    traces = random_traces(fingerprint, seed=4, n_problems=3)
    procedure = Procedure(2, draws=300)
    found = replay(traces, POLICIES[:1], SELECTIVE, procedure)
    drawn = outcomes(traces, POLICIES[:1], procedure)
    assert found.n_draws == 900
    # Problem 0 has no group; 1 and 2 are groups of one.
    assert found.answered_T[0] == pytest.approx(drawn.answered_DT.mean())
    assert drawn.answered_DT.sum() > 255


def test_a_loss_of_ones_own_is_averaged_alike(traces: Traces) -> None:
    risk = Risk.custom("cost", lambda outcomes: outcomes.tokens_DT / 100)
    found = replay(traces, [EAGER, FULL_BUDGET], risk)
    first, second = by_name(traces, found.losses.loss_UT)
    assert first == pytest.approx([0.35, 0.465])
    assert second == pytest.approx([0.32, 0.83])

    def broken(outcomes: Outcomes) -> np.ndarray:
        return outcomes.tokens_DT

    with pytest.raises(CalibrationError, match="has the value"):
        replay(traces, [EAGER], Risk.custom("broken", broken))


def test_replay_refuses(traces: Traces) -> None:
    with pytest.raises(CalibrationError, match="policies is empty"):
        replay(traces, [])
    with pytest.raises(CalibrationError, match="policy 0 has answer_on_low = False"):
        replay(traces, [EAGER], ERROR)
    with pytest.raises(CalibrationError, match="problem 'p2' has 1 rollouts"):
        replay(traces, [EAGER], SELECTIVE, Procedure(2))


def test_replay_matches_the_closed_form(world: Any) -> None:
    policies = [
        FULL_BUDGET,
        ExitPolicy(lambda_answer=0.8),
        ExitPolicy(lambda_high=0.9),
        ExitPolicy(lambda_high=0.95, lambda_answer=0.6),
    ]
    found = replay(world.draw(np.random.default_rng(0), 40_000), policies)
    expected = [world.risk(policy) for policy in policies]
    assert found.losses.risk_T == pytest.approx(expected, abs=0.01)
