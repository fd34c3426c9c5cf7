import numpy as np
import pytest

from rlcm_serve.familiarity.score import PROBLEMS_PER_DIRECTION, Floats, StateScore


def states(n: int, size: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    mixing = np.diag(np.linspace(1, 3, size))
    return (rng.normal(size=(n, size)) @ mixing + 3).astype(np.float32)


def test_with_enough_problems_it_is_the_mahalanobis_distance() -> None:
    reference, new = states(1000, 8), states(20, 8, seed=1)
    inverse = np.linalg.inv(np.cov(reference, rowvar=False))
    centred = new - reference.mean(0)
    expected = np.einsum("nh,hk,nk->n", centred, inverse, centred)
    # Every variance has a thousandth of their mean added.
    assert StateScore.fit(reference).of(new) == pytest.approx(expected, rel=0.01)


def test_few_problems_for_a_large_state_still_tell_what_lies_outside_their_span() -> None:
    rng = np.random.default_rng(0)
    size, n = 400, 200
    spread = np.concatenate([np.ones(10), np.full(size - 10, 0.05)])
    reference = (rng.normal(size=(n, size)) * spread).astype(np.float32)
    score = StateScore.fit(reference)
    assert score.directions_HD.shape == (size, n // PROBLEMS_PER_DIRECTION)
    inside = (rng.normal(size=(50, size)) * spread).astype(np.float32)
    outside = inside.copy()
    outside[:, 300] += 2  # a direction in which the reference hardly varies
    assert score.of(outside).min() > score.of(inside).max()


def test_states_that_never_vary_give_finite_scores() -> None:
    constant = np.ones((100, 4), np.float32)
    assert np.isfinite(StateScore.fit(constant).of(constant)).all()
    assert StateScore.fit(constant).of(constant + 1).min() > 1e6


def test_the_score_survives_its_tensors() -> None:
    score = StateScore.fit(states(300, 40))
    again = StateScore.of_tensors(score.tensors())
    assert again.of(states(5, 40, seed=2)).tolist() == score.of(states(5, 40, seed=2)).tolist()
