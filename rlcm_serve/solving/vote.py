"""The vote of one question, counted as its samples end, and the point where it is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibration import ExitPolicy
from calibration.policy.vote_stop import ends_vote
from calibration.policy.voting import Vote, confidence_vote, is_answered, majority_vote
from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import Sample, VoteRule


class VoteTally:
    """The vote among the samples that have ended so far.

    Samples are counted in the order of their numbers, not of their ends, so that ties always have
    the same winner. A class of equal answers is named by the text of its first sample.

    Args:
        samples: number of samples of the question.
        rule: majority or confidence vote.
        policy: says which share the winner needs to become the answer, and which lead stops the
            vote.
        grader: decides which answers are equal.
    """

    def __init__(self, samples: int, rule: VoteRule, policy: ExitPolicy, grader: Verdicts) -> None:
        self.samples = samples
        self.least_share = policy.lambda_vote
        self._stop_lead = policy.lambda_stop
        self._rule = rule
        self._grader = grader
        self._ended: dict[int, Sample] = {}
        self._answer_of: dict[int, str] = {}
        self.vote = majority_vote([])

    async def add(self, number: int, sample: Sample) -> None:
        """Counts sample `number`, which has ended."""
        self._ended[number] = sample
        ended = self.counted
        classes = await self._grader.classes_async([sample.answer for sample in ended])
        self.vote = _vote(self._rule, classes, ended)
        self._answer_of = {}
        for number_of_class, sample in zip(classes, ended, strict=True):
            if sample.answer is not None:
                self._answer_of.setdefault(number_of_class, sample.answer)

    @property
    def counted(self) -> list[Sample]:
        """The samples that have ended, by their numbers."""
        return [self._ended[number] for number in sorted(self._ended)]

    @property
    def tally(self) -> dict[str, float]:
        """The weight of each answer."""
        return {self._answer_of[number]: weight for number, weight in self.vote.tally.items()}

    @property
    def leader(self) -> str | None:
        """The answer with the most weight."""
        return None if self.vote.winner is None else self._answer_of[self.vote.winner]

    @property
    def answer(self) -> str | None:
        """The leader, if its share of the vote is large enough."""
        won = self.vote.winner is not None
        answered = is_answered(self.samples, won, self.vote.share, self.least_share)
        return self.leader if answered else None

    @property
    def confidence(self) -> float:
        """The confidence of a single sample; of several samples, the leader's share of the vote."""
        return self.counted[0].rollout.confidence if self.samples == 1 else self.vote.share

    @property
    def may_stop(self) -> bool:
        """Whether samples must be counted by their depth (`calibration.policy.vote_stop`)."""
        return self.samples > 1 and self._stop_lead <= 1

    @property
    def stopped(self) -> bool:
        """Whether the leader is so far ahead that the policy ends the other samples."""
        return ends_vote(self.vote, self.samples, self._stop_lead)

    @property
    def decided(self) -> bool:
        """Whether no missing sample can change `answer`."""
        return self.stopped or is_decided(
            self.vote, self.samples - len(self._ended), self.least_share
        )


def is_decided(vote: Vote, missing: int, least_share: float) -> bool:
    r"""Whether the outcome of a vote of several samples is certain before all have ended.

    Let t(c) be the weight of class c so far, T the weight of all samples that have ended,
    including those without an answer, and m the number `missing`. A missing sample adds some
    weight in [0, 1] to T, and the same weight to one class, possibly a new one (t = 0), or to
    none; 0 if the vote stops before it ends. So at the end

        t(c) <= t'(c) <= t(c) + m   and   share'(c) = t'(c) / T'
        with  t(c) / (T + m) <= share'(c) <= (t(c) + m) / (T + m),

    because (t + x) / (T + y) with 0 <= x <= y <= m and t <= T is smallest at x = 0, y = m and
    largest at x = y = m. Therefore the vote is decided

    - for its leader w, if t(w) > t(c) + m for every other class and t(w) > m, so that none can
      reach it, not even for a tie, and t(w) / (T + m) >= least_share: then w wins and is the
      answer;
    - for an abstention, if (t(c) + m) / (T + m) < least_share for every class, including new
      ones: then no winner becomes the answer.

    This also holds in floating point: weights are multiples of 2**-40, sums of up to 4096 of them
    are exact (calibration.policy.voting), and rounded division is monotone in both arguments.

    Covers votes in which equality of answers is an equivalence relation. It does not cover a
    missing answer that equals two answers which differ from each other (`50\%` equals `50` and
    `0.5`), and so would merge two classes.

    Args:
        vote: the vote among the samples that have ended.
        missing: number of samples that have not ended.
        least_share: `ExitPolicy.lambda_vote`.
    """
    if missing == 0:
        return True
    weights = sorted(vote.tally.values(), reverse=True)
    first, second = ([*weights, 0.0, 0.0])[:2]
    most, everything = first + missing, vote.total + missing
    if most / everything < least_share:
        return True
    return first > second + missing and first / everything >= least_share


def _vote(rule: VoteRule, classes: Sequence[int], samples: Sequence[Sample]) -> Vote:
    if rule is VoteRule.MAJORITY:
        return majority_vote(classes)
    return confidence_vote(classes, [_confidence(sample) for sample in samples])


def _confidence(sample: Sample) -> float:
    # A sample whose reading failed never gives an answer, and has no weight.
    confidence = sample.rollout.confidence
    return 0.0 if math.isnan(confidence) else confidence
