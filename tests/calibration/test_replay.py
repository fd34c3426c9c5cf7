from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from calibration import (
    FULL_BUDGET,
    ExitPolicy,
    ExitReason,
    Fingerprint,
    Rollout,
    Traces,
    evaluate,
    replay,
)

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


def test_outcomes_by_hand(traces: Traces) -> None:
    eager = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.6, lambda_answer=0.5)
    outcomes = replay(traces, [eager, FULL_BUDGET])
    # Eager: p1 stops high at 32 tokens, right and wrong; p2 gives up at 32, and forces no answer.
    # An answer costs 3.
    assert outcomes.answered_PT.tolist() == [[1.0, 1.0], [0.0, 1.0]]
    assert outcomes.wrong_PT.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert outcomes.right_PT.tolist() == [[0.5, 0.5], [0.0, 0.0]]
    assert outcomes.tokens_PT.tolist() == [[35.0, (43 + 50) / 2], [32.0, 83.0]]


def test_abstaining_at_the_end_costs_only_what_the_model_wrote_itself(traces: Traces) -> None:
    outcomes = replay(traces, [ExitPolicy(lambda_answer=1.0)])
    # p1 ends naturally, its own answers cost 3 each; p2 reaches the budget, and none is forced.
    assert outcomes.answered_PT.tolist() == [[0.0], [0.0]]
    assert outcomes.tokens_PT.tolist() == [[(43 + 50) / 2], [80.0]]


def test_an_answer_that_cannot_be_read_is_not_given(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rollout = make_rollout(confidences=(0.95, 0.5), correct=(False, True), end=20)
    unread = replace(rollout.checkpoints[0], answer=None, answer_class=-1)
    traces = Traces.from_rollouts([replace(rollout, checkpoints=(unread,))], fingerprint)
    outcomes = replay(traces, [ExitPolicy(lambda_high=0.9)])
    assert outcomes.answered_PT.tolist() == [[0.0]]
    assert outcomes.wrong_PT.tolist() == [[0.0]]
    assert outcomes.tokens_PT.tolist() == [[19.0]]


def test_evaluation_by_hand(traces: Traces) -> None:
    result = evaluate(ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.6), traces)
    assert (result.n_problems, result.n_rollouts) == (2, 3)
    assert (result.n_answered, result.n_wrong) == (2, 1)
    assert result.risk == 0.5
    # Problems weigh the same: p1 answers both of its rollouts, p2 none of its one.
    assert result.share_answered == 0.5
    assert result.share_right == 0.25
    assert result.mean_tokens == 33.5
    assert result.full_budget_tokens == pytest.approx((46.5 + 83) / 2)
    assert result.exits == {
        ExitReason.HIGH: 2,
        ExitReason.LOW: 1,
        ExitReason.NATURAL: 0,
        ExitReason.BUDGET: 0,
    }


def test_evaluation_of_the_full_budget(traces: Traces) -> None:
    result = evaluate(FULL_BUDGET, traces)
    assert result.exits[ExitReason.NATURAL] == 2
    assert result.exits[ExitReason.BUDGET] == 1
    assert result.mean_tokens == result.full_budget_tokens


def test_nothing_answered_has_no_risk(traces: Traces) -> None:
    result = evaluate(ExitPolicy(lambda_answer=1.0), traces)
    assert result.risk is None
    assert result.share_answered == 0.0


def test_replay_matches_the_closed_form(world) -> None:
    traces = world.draw(np.random.default_rng(0), 40_000)
    for policy in (
        FULL_BUDGET,
        ExitPolicy(lambda_answer=0.8),
        ExitPolicy(lambda_high=0.9),
        ExitPolicy(lambda_high=0.95, lambda_answer=0.6),
    ):
        assert evaluate(policy, traces).risk == pytest.approx(world.risk(policy), abs=0.01)
