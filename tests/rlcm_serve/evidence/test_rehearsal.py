"""A rehearsed certificate replayed on the readings of one live answer."""

from __future__ import annotations

from dataclasses import replace

from calibration import ExitPolicy, ExitReason
from rlcm_serve.core import CancelledSample, Question, Reading, Sample
from rlcm_serve.evidence.rehearsal import Replayed, replayed
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.evidence.test_live_replay import SURE, answered, sample
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate


def of_samples(policy: ExitPolicy, *samples: Sample | CancelledSample) -> Replayed:
    """What a level for as many samples would have done with an answer."""
    fitted = replace(fingerprint_of(IDENTITY), samples=len(samples))
    question = Question("?", 0.1, samples=len(samples))
    solution = replace(answered(sample(ExitReason.NATURAL, 0.5)).solution, samples=samples)
    (level,) = replayed(certificate({0.1: policy}, fingerprint=fitted), question, solution)
    return level


def test_a_sample_that_was_cancelled_while_it_answered_has_ended() -> None:
    """Its five tokens of an answer are no reasoning, and its last reading is no checkpoint."""
    one = sample(ExitReason.NATURAL, 0.3, 0.95)
    ended = one.rollout
    cancelled = CancelledSample(37, ended.readings, ended.tokens, ended)
    found = of_samples(SURE, one, cancelled)
    assert (found.tokens, found.tokens_at_least, found.undecided) == (64, 64, False)


def test_a_sample_that_was_cancelled_while_it_thought_is_as_long_as_its_reasoning() -> None:
    one = sample(ExitReason.NATURAL, 0.3, 0.95)
    cancelled = CancelledSample(21, (Reading(16, 0.3),), (1,) * 20)
    found = of_samples(SURE, one, cancelled)
    assert (found.tokens, found.tokens_at_least, found.undecided) == (52, 52, True)
