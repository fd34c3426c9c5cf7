"""What one live answer says of a rehearsed certificate: its policies replayed on the readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibration import Certificate
from calibration.certificate.levels import CertifiedLevel
from rlcm_serve.core import CancelledSample, Reading, Sample, Solution
from rlcm_serve.evidence.live_replay import stop_of
from rlcm_serve.solving.asking import HowAsked
from rlcm_serve.solving.gate import is_familiar
from rlcm_serve.solving.solver import Prepared


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one level would have done with a question. Tokens are of reasoning.

    Attributes:
        certificate: digest of the certificate.
        alpha: of the level.
        tokens: that were generated.
        tokens_at_least: that it would have generated; exact unless it is undecided.
        undecided: whether it would have thought on where something else stopped a sample.
        answers: whether it answers; None if undecided, or with several samples.
        stop: tokens at which it stops the only sample; None if `answers` is.
        agrees: whether it gives the same answer; None if that is not known (yet).
    """

    certificate: str
    alpha: float
    tokens: int
    tokens_at_least: int
    undecided: bool
    answers: bool | None
    stop: int | None
    agrees: bool | None


def replayed(certificate: Certificate, prepared: Prepared, solution: Solution) -> list[Replayed]:
    """Each certified level on the readings of an answer.

    None if the question was not asked as the certificate demands, or is unfamiliar, or if no sample
    ran.
    """
    identity = prepared.reasoner.identity
    how = HowAsked.of(prepared.question, prepared.terms.asked, identity.budget.thinking)
    is_like_calibration = is_familiar(identity, solution.familiarity)
    if not (solution.samples and is_like_calibration) or how.departures_from(certificate):
        return []
    levels = certificate.certified_levels
    return [_level(certificate, level, solution.samples, solution) for level in levels]


def _level(
    certificate: Certificate,
    level: CertifiedLevel,
    samples: Sequence[Sample | CancelledSample],
    solution: Solution,
) -> Replayed:
    generated, at_least, undecided = 0, 0, False
    stop, answers = None, False
    for sample in samples:
        length, readings, ends = _course(sample)
        stop, answers = stop_of(level.policy, readings, length, ends=ends)
        generated += length
        at_least += length if stop is None else stop
        undecided = undecided or stop is None
    is_known = len(samples) == 1 and not undecided
    same_place = is_known and stop == generated and solution.answer is not None
    return Replayed(
        certificate=certificate.digest,
        alpha=level.alpha,
        tokens=generated,
        tokens_at_least=at_least,
        undecided=undecided,
        answers=answers if is_known else None,
        stop=stop if is_known else None,
        agrees=True if same_place and answers else None,
    )


def _course(sample: Sample | CancelledSample) -> tuple[int, list[tuple[int, float]], bool]:
    """Length in reasoning tokens, readings, and whether the sample ended by itself."""
    if isinstance(sample, Sample):
        rollout = sample.rollout
    elif sample.ended is not None:
        rollout = sample.ended
    else:  # cancelled while it thought
        return len(sample.ids), _pairs(sample.readings), False
    return len(rollout.tokens), _pairs(rollout.readings), rollout.exit.is_own_end


def _pairs(readings: Sequence[Reading]) -> list[tuple[int, float]]:
    return [(one.tokens, one.confidence) for one in readings]
