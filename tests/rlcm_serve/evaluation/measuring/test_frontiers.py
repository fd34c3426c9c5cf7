"""Frontiers: tokens and errors as the replay has them, joined with votes and familiarity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace as changed

from calibration import ExitPolicy, ExitReason, Reading, Rollout, Traces
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import ERROR
from rlcm_serve.evaluation.measuring.equal_error import ALLOWED, crossings, tokens_at
from rlcm_serve.evaluation.measuring.frontiers import find_frontiers
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.sources import Source
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.evaluation.records import CUT_OFF, NATURAL
from tests.rlcm_serve.evaluation.test_graded import recorded as written
from tests.rlcm_serve.scripted_engine import IDENTITY

PROBLEMS, ROLLOUTS = 40, 4


def recorded(seed: int = 0, suffix: int | None = 7) -> Recorded:
    """A run with one online source, and rollouts of 2 to 5 readings, 16 tokens apart."""
    rng = np.random.default_rng(seed)
    rollouts = []
    for problem in range(PROBLEMS):
        chance = rng.beta(4, 1)
        for number in range(ROLLOUTS):
            right = rng.random(5) < chance
            readings = [
                Reading(16 * at, float(rng.beta(2 + 4 * ok, 2)), "7", int(not ok), 3, bool(ok))
                for at, ok in enumerate(right, start=1)
            ][: int(rng.integers(2, 6))]
            rollouts.append(
                Rollout(
                    f"p{problem:02d}", number, ExitReason.BUDGET, tuple(readings[:-1]), readings[-1]
                )
            )
    own = Traces.from_rollouts(rollouts, None)
    padded = own.tokens_RC * 0
    return Recorded(
        own=own,
        own_source=Source.PROBE,
        confidence_RC={Source.PROBE: own.confidence_RC},
        tokens_RC={Source.PROBE: padded},
        answer_tokens_RC=own.answer_tokens_RC,
        suffix_tokens_RC=None if suffix is None else padded + suffix,
    )


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_a_frontier_is_the_replay_of_its_thresholds(samples: int) -> None:
    run = recorded(suffix=None)
    found = next(each for each in find_frontiers(run) if each.samples == samples)
    policies = [ExitPolicy(lambda_high=value) for value in found.threshold]
    again = replay(run.own, policies, ERROR, Procedure(samples))
    single = replay(run.own, policies[:1], ERROR)
    assert found.error == pytest.approx(1 - again.right_T)
    assert found.tokens == pytest.approx(again.tokens_T / single.full_tokens)
    assert not found.counts_suffix


def test_every_figure_has_an_interval_around_it() -> None:
    for found in find_frontiers(recorded()):
        bounds = zip(found.error_low, found.error, found.error_high, strict=True)
        assert all(0 <= low <= error <= high <= 1 and low < high for low, error, high in bounds)
        assert len(found.at_error) == len(ALLOWED)
        for one in found.at_error:
            if one.value is not None:
                assert one.low is not None
                assert one.high is not None
                assert one.low < one.high


def test_a_single_sample_meets_its_own_levels() -> None:
    found = find_frontiers(recorded())[0]
    for more, one in zip(ALLOWED, found.at_error, strict=True):
        assert one.value == pytest.approx(tokens_at(found, found.error[0] + more))


def test_votes_take_no_more_samples_than_there_are_rollouts() -> None:
    found = find_frontiers(recorded())
    assert [each.samples for each in found] == [1, 2, 4]
    single, *votes = found
    assert single.tokens[0] == pytest.approx(1)
    assert [each.tokens[0] for each in votes] == pytest.approx([2, 4])


def test_unfamiliar_questions_are_thought_through() -> None:
    run = recorded()
    fingerprint = replace(fingerprint_of(IDENTITY), familiarity="a", familiarity_cutoff=0.5)
    p_values = np.linspace(0, 1, PROBLEMS)
    own = replace(run.own, fingerprint=fingerprint, familiarity_P=p_values)
    found = find_frontiers(replace(run, own=own))
    (gated,) = (each for each in found if each.only_familiar)
    plain = found[0]
    assert gated.error[0] == plain.error[0]
    assert gated.tokens[0] == plain.tokens[0]
    assert gated.tokens[-1] > plain.tokens[-1]
    familiar = own.select(p_values > 0.5)
    alone = replay(familiar, [ExitPolicy(lambda_high=gated.threshold[-1])], ERROR)
    full = replay(own.select(p_values <= 0.5), [ExitPolicy(lambda_high=1.01)], ERROR)
    share = np.mean(p_values > 0.5)
    expected = share * alone.right_T[0] + (1 - share) * full.right_T[0]
    assert 1 - gated.error[-1] == pytest.approx(expected)


def test_the_suffix_is_paid_where_an_answer_is_forced(tmp_path: Path) -> None:
    """20 tokens and 9 of an own answer, or 20 and 3 forced after a suffix of 5."""
    kept = [
        changed(record, readings=tuple(changed(one, suffix_tokens=5) for one in record.readings))
        for record in (NATURAL, CUT_OFF)
    ]
    run = written(tmp_path, *kept)
    assert run.suffix_tokens_RC is not None
    assert run.suffix_tokens_RC.tolist() == [[5, 0], [5, 5]]
    probe = run.with_suffix(Source.PROBE)
    assert probe.answer_tokens_RC.tolist() == [[8, 9], [8, 8]]
    brought = run.with_suffix(Source.ANSWER_PROBABILITY)
    before = run.traces(Source.ANSWER_PROBABILITY)
    assert (brought.answer_tokens_RC - before.answer_tokens_RC).tolist() == [[0, 0], [0, 5]]
    paid_RC = brought.confidence_tokens_RC - before.confidence_tokens_RC
    assert paid_RC.tolist() == [[5, 0], [5, 0]]


def test_an_older_run_says_that_it_does_not_know_the_suffix(tmp_path: Path) -> None:
    kept = changed(
        NATURAL, readings=tuple(changed(one, suffix_tokens=5) for one in NATURAL.readings)
    )
    run = written(tmp_path, kept, CUT_OFF)  # the second one is older
    assert run.suffix_tokens_RC is None
    assert run.with_suffix(Source.PROBE) is run.traces(Source.PROBE)


def test_crossings_of_several_frontiers() -> None:
    tokens_BT = np.tile([1.0, 0.8, 0.6, 0.4], (4, 1))
    error_BT = np.tile([0.3, 0.3, 0.4, 0.3], (4, 1))
    found = crossings(tokens_BT, error_BT, np.array([0.3, 0.35, 0.5, 0.29]))
    assert found[:3] == pytest.approx([0.8, 0.7, 0.4])
    assert np.isnan(found[3])
