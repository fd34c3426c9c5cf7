"""What is said to be decided must be: every completion of the vote gives the same outcome."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import FULL_BUDGET, ExitReason
from calibration.policy.voting import NO_ANSWER, confidence_vote, is_answered
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Reading, Rollout, Sample, VoteRule
from rlcm_serve.solving.vote import VoteTally, is_decided

WEIGHTS = st.sampled_from([0.0, 2**-40, 0.25, 0.3, 0.5, 0.95, 1 - 2**-40, 1.0]) | st.floats(0, 1)
CLASSES = st.integers(NO_ANSWER, 3)
VOTES = st.lists(st.tuples(CLASSES, WEIGHTS), max_size=6)
SHARES = st.sampled_from([0.0, 0.5, 0.6, 0.75, 0.95, 1.0]) | st.floats(0, 1)


def outcome(ballots: list[tuple[int, float]], least: float) -> int | None:
    """The class that is answered when all have voted."""
    vote = confidence_vote([c for c, _ in ballots], [w for _, w in ballots])
    given_ = is_answered(len(ballots), vote.winner is not None, vote.share, least)
    return vote.winner if given_ else None


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    votes=st.lists(st.tuples(CLASSES, WEIGHTS), min_size=2, max_size=8),
    least=SHARES,
    data=st.data(),
)
def test_what_is_decided_no_later_vote_changes(
    votes: list[tuple[int, float]], least: float, data: st.DataObject
) -> None:
    """Samples end in any order; what counts in the end is their numbers."""
    arrival = data.draw(st.permutations(range(len(votes))))
    for ended in range(len(votes)):
        counted = [votes[number] for number in sorted(arrival[:ended])]
        vote = confidence_vote([c for c, _ in counted], [w for _, w in counted])
        if is_decided(vote, len(votes) - ended, least):
            won = is_answered(len(votes), vote.winner is not None, vote.share, least)
            assert outcome(votes, least) == (vote.winner if won else None)


@given(ended=VOTES, least=SHARES)
def test_a_complete_vote_is_decided(ended: list[tuple[int, float]], least: float) -> None:
    vote = confidence_vote([c for c, _ in ended], [w for _, w in ended])
    assert is_decided(vote, 0, least)


@pytest.mark.parametrize(
    ("ended", "missing", "least", "decided"),
    [
        ([(0, 1.0), (0, 1.0)], 1, 0.0, True),
        ([(0, 1.0)], 1, 0.0, False),  # a tie is still possible, and goes by number
        ([(0, 0.9), (0, 0.9), (1, 0.1)], 1, 0.0, True),
        ([(0, 0.9), (1, 0.9)], 1, 0.9, True),  # whoever wins holds too little
        ([(0, 0.9), (0, 0.9)], 1, 0.9, False),  # the last one may still spoil the share
        ([(NO_ANSWER, 1.0), (NO_ANSWER, 1.0)], 1, 0.5, True),
        ([(NO_ANSWER, 1.0)], 1, 0.0, False),
    ],
)
def test_when_a_vote_is_decided(
    ended: list[tuple[int, float]], missing: int, least: float, decided: bool
) -> None:
    vote = confidence_vote([c for c, _ in ended], [w for _, w in ended])
    assert is_decided(vote, missing, least) is decided


async def test_the_order_in_which_samples_end_does_not_matter() -> None:
    samples = [sample(r"\frac12", 0.25), sample("3", 0.5), sample("0.5", 0.25), sample(None, 0.1)]
    seen = set()
    with AnswerGrader() as grader:
        for order in itertools.permutations(range(4)):
            ballot = VoteTally(4, VoteRule.CONFIDENCE, FULL_BUDGET, grader)
            for number in order:
                await ballot.add(number, samples[number])
            seen.add((ballot.answer, ballot.confidence, tuple(ballot.tally.items())))
    # A tie, .5 against .5, goes to the answer of the first sample.
    assert len(seen) == 1
    assert {answer for answer, _, _ in seen} == {r"\frac12"}


def sample(answer: str | None, confidence: float) -> Sample:
    end = Reading(10, confidence, is_final=True)
    return Sample(Rollout((0,) * 10, "", ExitReason.NATURAL, (end,)), answer, 0)
