"""What holds jointly with the levels: how delta is divided, what is bounded, what is verified."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibration import (
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    InfeasibleLevel,
    Outcomes,
    Promise,
    Risk,
    Traces,
    certify,
    certify_kinds,
    verify,
)
from calibration.certificate.wording import AT_EVERY_LEVEL, AT_ONE_LEVEL, EQUALLY
from calibration.simulation.groups import Groups
from calibration.testing.joint import Joint, NextQuestions, SideBound, next_most
from tests.calibration.recordings import in_groups, several_rollouts

ALPHAS, DELTA = (0.1, 0.2, 0.3), 0.1


@pytest.fixture(scope="module")
def traces(world) -> Traces:
    return world.draw(np.random.default_rng(2), 480)


def fitted(traces: Traces, **how: Any) -> Certificate:
    return certify(traces, **{"alphas": ALPHAS, "delta": DELTA, "method": "chains"} | how)


def test_delta_is_divided_beforehand(traces: Traces) -> None:
    made = fitted(traces, bounds={"declined": None}, next_questions=100)
    joint = made.joint
    assert joint is not None
    assert made.delta == pytest.approx(DELTA * 4 / 6)
    assert made.delta + 2 * joint.statement_delta == pytest.approx(DELTA)
    assert made.whole_delta == DELTA
    assert "With probability at least 90%" in made.covers
    plain = fitted(traces, delta=made.delta)
    assert made.levels == plain.levels
    assert "joint" not in plain.to_json()


def test_bounds_are_those_of_all_tested_policies_at_once(traces: Traces) -> None:
    """With one rollout per problem they are those of Clopper and Pearson."""
    made = fitted(traces, bounds={"declined": None, "wrong": None})
    joint = made.joint
    assert joint is not None
    declined, wrong = joint.bounds
    share = joint.statement_delta / len(made.tested.policies)
    for number, level in enumerate(made.levels):
        if not isinstance(level, CertifiedLevel):
            assert declined.bounds[number] is None
            continue
        n = made.n_units
        for bound, count in (
            (declined, n * (1 - level.share_answered)),
            (wrong, n * (level.share_answered - level.share_right)),
        ):
            upper = bound.bounds[number]
            assert upper is not None
            assert upper > count / n
            assert binom.cdf(round(count), n, upper) == pytest.approx(share, rel=1e-6)


def test_a_floor_on_the_share_answered_rules_out_policies(traces: Traces) -> None:
    free, floored = fitted(traces), fitted(traces, bounds={"declined": 0.25})
    certified = [level for level in floored.levels if isinstance(level, CertifiedLevel)]
    assert certified
    for level in certified:
        assert level.share_answered > 0.75
    assert floored.joint is not None
    (bound,) = floored.joint.bounds
    assert set(bound.bounds) - {None} == {0.25}
    assert sum(level.certified for level in free.levels) > len(certified)
    assert verify(floored, traces) == []


def test_a_level_that_fails_by_its_limit_says_so(traces: Traces) -> None:
    made = fitted(traces, alphas=(0.2,), bounds={"declined": 0.02})
    (level,) = made.levels
    assert isinstance(level, InfeasibleLevel)
    assert "policies are certified, but none of them provably keeps declined at most 0.02" in (
        level.reason
    )
    assert verify(made, traces) == []
    assert Certificate.from_json(made.to_json()) == made


@pytest.mark.parametrize("promise", Promise)
def test_the_next_questions_are_bounded_by_the_binomial_at_alpha(
    traces: Traces, promise: Promise
) -> None:
    made = fitted(traces, next_questions=100, promise=promise)
    assert made.joint is not None
    assert made.joint.next is not None
    levels = len(ALPHAS) if promise is Promise.SIMULTANEOUS else 1
    for level, most in zip(made.levels, made.joint.next.most, strict=True):
        if level.certified:
            assert most is not None
            assert binom.sf(most, 100, level.alpha) <= DELTA / 5 / levels
            assert binom.sf(most - 1, 100, level.alpha) > DELTA / 5 / levels
        else:
            assert most is None


@given(st.integers(1, 2000), st.floats(0.001, 0.999), st.floats(1e-6, 0.5))
def test_the_bound_is_the_smallest_that_holds(questions: int, alpha: float, delta: float) -> None:
    most = next_most(questions, alpha, delta)
    assert 0 <= most <= questions
    assert binom.sf(most, questions, alpha) <= delta
    assert most == 0 or binom.sf(most - 1, questions, alpha) > delta


def shapes(traces: Traces) -> dict[str, tuple[Traces, dict[str, Any]]]:
    return {
        "one": (traces, {}),
        "averaged": (several_rollouts(traces, 3), {}),
        "votes": (several_rollouts(traces, 4), {"samples": 2, "alphas": (0.4, 0.5)}),
        "groups": (in_groups(traces, 3), {"max_group_size": 4}),
        "error": (traces, {"risk": "error", "alphas": (0.5, 0.6)}),
        "regret": (traces, {"risk": "regret"}),
        "holm": (traces, {"method": "holm"}),
        "split": (traces, {"method": "split"}),
    }


@pytest.mark.parametrize(
    "shape", ["one", "averaged", "votes", "groups", "error", "regret", "holm", "split"]
)
def test_everything_is_recomputed(traces: Traces, shape: str, tmp_path: Path) -> None:
    recorded, how = shapes(traces)[shape]
    bounds = {"declined": None, "wrong": 0.5} | ({} if shape == "regret" else {"lost": None})
    made = fitted(recorded, bounds=bounds, next_questions=50, **how)
    assert made.joint is not None
    assert any(level.certified for level in made.levels)
    assert verify(made, recorded) == []
    made.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json") == made
    for number, bound in enumerate(made.joint.bounds):
        if bound.at_most is None:
            lower = tuple(one and 0.95 * one for one in bound.bounds)
            changed = list(made.joint.bounds)
            changed[number] = replace(bound, bounds=lower)
            forged = replace(made, joint=replace(made.joint, bounds=tuple(changed)))
            assert any(f"bound on {bound.risk}" in line for line in verify(forged, recorded))


def test_a_policy_that_breaks_the_limit_is_seen(traces: Traces) -> None:
    made = fitted(traces, bounds={"declined": 0.4})
    assert made.joint is not None
    strict = SideBound("declined", 0.05, tuple(one and 0.05 for one in made.joint.bounds[0].bounds))
    forged = replace(made, joint=replace(made.joint, bounds=(strict,)))
    assert any("its policy does not pass the tests" in line for line in verify(forged, traces))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"delta": 0.05}, "delta"),
        ({"next": NextQuestions(100, (1, 2, 3))}, "joint.next.most|one value for each level"),
        ({"next": NextQuestions(100, ())}, "one value for each level"),
        ({"bounds": (SideBound("declined", None, (0.0, 0.0, 0.0)),)}, "joint declined|each level"),
        ({"bounds": ()}, "delta"),
        ({"next": None}, "delta"),
    ],
)
def test_a_changed_statement_contradicts_the_certificate(
    traces: Traces, change: dict[str, Any], said: str
) -> None:
    made = fitted(traces, bounds={"declined": None}, next_questions=100)
    assert made.joint is not None
    forged = replace(made, joint=replace(made.joint, **change))
    with pytest.raises(CertificateError, match=said):
        Certificate.from_json(json.loads(json.dumps(forged.to_json())))


def test_kinds_divide_their_delta_further(traces: Traces) -> None:
    kinds = tuple("ab"[number % 2] for number in range(traces.n_problems))
    how: dict[str, Any] = {"alphas": (0.2, 0.3), "delta": 0.2, "method": "chains"}
    sorted_by_kind = replace(traces, kinds=kinds)
    for made in certify_kinds(sorted_by_kind, bounds={"declined": None}, **how):
        assert made.kind is not None
        assert made.joint is not None
        assert made.joint.delta == pytest.approx(made.kind.own_delta)
        assert made.delta == pytest.approx(0.8 * made.kind.own_delta)
        assert made.whole_delta == 0.2
        assert verify(made, sorted_by_kind) == []
        assert Certificate.from_json(made.to_json()) == made


def test_groups_bring_one_question_each(traces: Traces) -> None:
    made = fitted(in_groups(traces, 3), max_group_size=4, next_questions=10)
    assert made.groups == Groups(max_size=4)
    assert "of the next 10 answered questions, at most one from each group," in made.covers


def test_bounds_say_whether_every_group_counts_the_same(traces: Traces) -> None:
    made = fitted(in_groups(traces, 3), average="groups", bounds={"declined": None})
    assert f"{EQUALLY}the share of questions that are declined is at most" in made.covers
    assert Certificate.from_json(made.to_json()) == made
    earlier = replace(made, covers=made.covers.replace(EQUALLY, ""))
    assert Certificate.from_json(earlier.to_json()) == earlier
    assert EQUALLY not in fitted(in_groups(traces, 3), bounds={"declined": None}).covers


def test_separate_levels_promise_the_rest_at_one_of_them(traces: Traces) -> None:
    made = fitted(traces, bounds={"declined": None}, promise="pointwise")
    assert AT_ONE_LEVEL in made.covers
    assert Certificate.from_json(made.to_json()) == made
    earlier = replace(made, covers=made.covers.replace(AT_ONE_LEVEL, AT_EVERY_LEVEL))
    assert Certificate.from_json(earlier.to_json()) == earlier
    together = fitted(traces, bounds={"declined": None})
    assert AT_EVERY_LEVEL in together.covers
    claimed = replace(together, covers=together.covers.replace(AT_EVERY_LEVEL, AT_ONE_LEVEL))
    with pytest.raises(CertificateError, match="covers"):
        Certificate.from_json(claimed.to_json())


def half_wrong(outcomes: Outcomes) -> np.ndarray:
    return 0.5 * ~outcomes.correct_DT


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"bounds": {"error": None}}, "give one of declined, wrong, lost"),
        ({"bounds": {"declined": 1.5}}, "the bound on declined is 1.5: give a share"),
        ({"next_questions": 0}, "the next 0 questions"),
        ({"next_questions": 1.5}, "the next 1.5 questions: give a whole number from 1"),
        ({"next_questions": 10**19}, "from 1 to 1,000,000,000"),  # SciPy does not return
        ({"bounds": {"lost": 0.1}, "risk": "regret"}, "already bound lost answers"),
        ({"next_questions": 5, "risk": Risk.custom("half", half_wrong)}, "nobody can count"),
        ({"next_questions": 5, "average": "groups"}, "average is 'groups', so the risk says"),
    ],
)
def test_what_is_refused(traces: Traces, how: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrationError, match=said):
        fitted(traces, **how)
    with pytest.raises(CalibrationError, match="neither a bound nor next"):
        Joint(0.1)
