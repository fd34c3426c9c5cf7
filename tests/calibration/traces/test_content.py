"""What orders units and seeds random choices is what was recorded, never a name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from calibration import Certificate, CertificateError, Traces, certify
from calibration.certificate.levels import CertifiedLevel
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.certificate.verify import verify
from calibration.simulation.procedure import Procedure, simulate
from calibration.testing.methods import Method
from calibration.traces.content import of_all, ranked, ranked_units
from tests.calibration.conftest import UniformWorld
from tests.calibration.recordings import in_groups, several_rollouts

N, ROLLOUTS = 120, 4


@pytest.fixture
def traces(world: UniformWorld) -> Traces:
    return several_rollouts(world.draw(np.random.default_rng(5), N * ROLLOUTS), ROLLOUTS)


def named(traces: Traces, order_P: NDArray[np.intp], order_K: NDArray[np.intp]) -> Traces:
    """The same recordings, whose problems are named in this order, and their rollouts in that."""
    rows_PK = np.arange(traces.n_rollouts).reshape(traces.n_problems, -1)
    rows_R = rows_PK[order_P][:, order_K].ravel()
    per_row = ("natural_R", "final_R", "tokens_RC", "confidence_RC")
    per_row += ("answer_class_RC", "answer_tokens_RC", "correct_RC")
    groups = np.array(traces.groups, dtype=object)[order_P].tolist()
    return replace(
        traces,
        problem_ids=tuple(f"z{i:04d}" for i in range(traces.n_problems)),
        groups=tuple(None if group is None else f"of {group}" for group in groups),
        **{name: getattr(traces, name)[rows_R] for name in per_row},
    )


def ended_at(world: UniformWorld, length: int, right_R: NDArray[np.bool_]) -> Traces:
    """One rollout per problem without a checkpoint, as long and as sure as all others."""
    n = len(right_R)
    return replace(
        world.draw(np.random.default_rng(0), n),
        final_R=np.zeros(n, dtype=np.intp),
        tokens_RC=np.full((n, 1), length),
        confidence_RC=np.full((n, 1), 0.5),
        answer_class_RC=np.where(right_R, 0, 1)[:, None],
        answer_tokens_RC=np.ones((n, 1), dtype=np.int64),
        correct_RC=right_R[:, None],
    )


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("samples", [1, 2, 4])
@pytest.mark.parametrize("method", [Method.CHAINS, Method.RESCALED_CHAINS])
def test_names_change_no_figure_of_a_certificate(
    traces: Traces, size: int, samples: int, method: Method
) -> None:
    recorded = traces if size == 1 else in_groups(traces, size)
    rng = np.random.default_rng(size)
    by_label_P = np.argsort(recorded.correct_RC[:, -1].reshape(N, -1).sum(axis=1), kind="stable")
    fitted = certify(recorded, alphas=(0.3, 0.5), samples=samples, method=method)
    for order_P in (by_label_P, rng.permutation(N)):
        renamed = named(recorded, order_P, rng.permutation(ROLLOUTS))
        again = certify(renamed, alphas=(0.3, 0.5), samples=samples, method=method)
        assert again.calibration_digest != fitted.calibration_digest
        assert again.levels == fitted.levels
        assert again.smallest_certifiable_alpha == fitted.smallest_certifiable_alpha


@pytest.mark.parametrize("size", [1, 4])
def test_names_change_no_figure_of_a_sequential_certificate(traces: Traces, size: int) -> None:
    recorded = traces if size == 1 else in_groups(traces, size)
    design = sequential_design(recorded, N // size, alphas=(0.3, 0.5), samples=2)
    fitted = certify_sequential(recorded, design)
    rng = np.random.default_rng(size)
    for _ in range(3):
        renamed = named(recorded, rng.permutation(N), rng.permutation(ROLLOUTS))
        assert certify_sequential(renamed, design).levels == fitted.levels


def test_verdicts_do_not_order_units_whose_recordings_are_equal(traces: Traces) -> None:
    constant = replace(traces, confidence_RC=np.where(np.isnan(traces.confidence_RC), np.nan, 0.5))
    flipped = replace(constant, correct_RC=~constant.correct_RC)
    assert flipped.unit_P.tolist() == constant.unit_P.tolist()


@pytest.mark.parametrize("length", [1002, 1004])
def test_a_guarantee_holds_where_all_recordings_are_equal(world: UniformWorld, length: int) -> None:
    """100 problems with 2 equal rollouts each; all are as long and as sure."""
    rng, alpha, delta, draws = np.random.default_rng(length), 0.1, 0.1, 100
    certified = 0
    for _ in range(draws):
        right_R = np.repeat(rng.random(100) > alpha, 2)
        made = several_rollouts(ended_at(world, length, right_R), 2)
        fitted = certify(made, risk="error", alphas=[alpha], delta=delta)
        certified += isinstance(fitted.levels[0], CertifiedLevel)
    # The risk is alpha, so every certificate is an error.
    assert certified <= binom.ppf(1 - 1e-4, draws, delta)


@pytest.mark.parametrize("samples", [2, 3])
def test_a_tie_of_equal_rollouts_goes_to_either(world: UniformWorld, samples: int) -> None:
    """Every problem has as many rollouts as samples, all as long and as sure, each right in 70%."""
    rng, n = np.random.default_rng(samples), 300
    right_R = rng.random(n * samples) < 0.7
    made = several_rollouts(ended_at(world, 1002, right_R), samples)
    draws = simulate(made, Procedure(samples))
    assert made.correct_RC[draws.rollout_DN[:, 0], 0].mean() == pytest.approx(0.7, abs=0.08)
    fitted = certify(made, risk="error", alphas=[0.2], samples=samples, vote="majority")
    assert not isinstance(fitted.levels[0], CertifiedLevel)


def test_what_was_recorded_decides_the_seed(traces: Traces) -> None:
    assert named(traces, np.arange(N)[::-1], np.arange(ROLLOUTS)).seed == traces.seed
    confidence_RC = traces.confidence_RC.copy()
    confidence_RC[7, 0] += 1e-9
    for other in (
        replace(traces, confidence_RC=confidence_RC),
        replace(traces, natural_R=~traces.natural_R),
        traces.select(np.arange(N) > 0),
    ):
        assert other.seed != traces.seed


def test_verdicts_decide_neither_the_seed_nor_the_order(traces: Traces) -> None:
    flipped = replace(traces, correct_RC=~traces.correct_RC)
    assert flipped.seed == traces.seed
    assert flipped.unit_P.tolist() == traces.unit_P.tolist()
    assert flipped.rank_R.tolist() == traces.rank_R.tolist()


def test_verdicts_do_not_draw_samples_where_rollouts_recorded_the_same(
    world: UniformWorld,
) -> None:
    """`rlcm labels` lists problems by their draws before their verdicts are known."""
    rng = np.random.default_rng(4)
    drawn = [
        simulate(several_rollouts(ended_at(world, 1002, right_R), 4), Procedure(2)).rollout_DN
        for right_R in rng.random((5, 400)) < 0.5
    ]
    assert len(np.unique(drawn, axis=0)) == 1


def test_units_with_the_same_content_still_have_places_of_their_own(traces: Traces) -> None:
    same = replace(
        traces,
        confidence_RC=np.full_like(traces.confidence_RC, 0.5),
        correct_RC=np.ones_like(traces.correct_RC),
    )
    assert sorted(same.unit_P.tolist()) == list(range(N))
    grouped = in_groups(traces, 3)
    assert np.bincount(grouped.unit_P).tolist() == [3] * (N // 3)


def test_a_certificate_made_in_the_order_of_names_loads_and_cannot_be_verified(
    traces: Traces,
) -> None:
    made = certify(traces, alphas=[0.5])
    assert verify(made, traces) == []
    earlier = Certificate.from_json(replace(made, ordered_by=None).to_json())
    assert "ordered_by" not in earlier.to_json()
    with pytest.raises(CertificateError, match=r"in the order of the problems' names.*: fit again"):
        verify(earlier, traces)


def test_an_unknown_order_is_refused(traces: Traces) -> None:
    odd = replace(certify(traces, alphas=[0.5]), ordered_by="names").to_json()
    with pytest.raises(CertificateError, match="ordered_by is 'names'"):
        Certificate.from_json(odd)


def test_a_digest_of_several_does_not_depend_on_their_order() -> None:
    assert of_all([b"a", b"b"]) == of_all([b"b", b"a"]) != of_all([b"a"])
    assert ranked([b"c", b"a", b"c", b"b"]).tolist() == [2, 0, 3, 1]
    assert sorted(ranked_units([b"r", b"r"], ["a", "b"]).tolist()) == [0, 1]
