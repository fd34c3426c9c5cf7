"""Wire types of `/aggregate`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from rlcm_serve.aggregation.rules import MAX_SEED, Rule, VoteOptions
from rlcm_serve.api.wire.base import Wire


class AggregateOptions(Wire):
    """Options of a vote."""

    model_config = ConfigDict(strict=False, extra="forbid")  # a URL holds nothing but text

    # FastAPI shows the descriptions of query parameters as they are: these are on one line.
    vote: Literal["majority", "confidence", "filtered"] = Field(
        default="confidence",
        description="How rollouts are weighted. `majority`: each rollout counts 1. `confidence`: "
        "each counts its confidence. `filtered`: as `confidence`, but only a problem's most "
        "confident rollouts count.",
        examples=["confidence"],
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=MAX_SEED,
        description="Seed for breaking ties, uniformly at random. The result of a tie depends only "
        "on the seed, the `problem_id` and the tied answers.",
        examples=[0],
    )
    top_p: float | None = Field(default=None, gt=0, le=1, examples=[0.1])
    """For `vote=filtered`: share of a problem's answered rollouts to keep. The default is 0.1."""
    grouped: bool = Field(
        default=False,
        description="States that the rows of each problem are adjacent, so that its result can be "
        "sent as soon as they end. The service checks this.",
        examples=[False],
    )
    ignore_extra: bool = Field(default=False, examples=[False])
    """Ignore unknown fields of rollouts instead of refusing the request."""

    def to_options(self) -> VoteOptions:
        """The options in the service's own terms.

        Raises:
            RequestRefused: the options contradict each other.
        """
        return VoteOptions(Rule(self.vote), self.seed, self.top_p, self.grouped)


class RolloutBody(Wire):
    """One rollout of a problem and its answer."""

    problem_id: str = Field(min_length=1, examples=["p1"])
    """Id of the problem."""
    answer: str | None = Field(examples=[r"\frac12"])
    """Answer of the rollout; null or blank if it has none."""
    confidence: float | None = Field(default=None, ge=0, le=1, examples=[0.9])
    """Probability that the answer is correct. It may be left out for `vote=majority`."""
    reference: str | None = Field(default=None, examples=["0.5"])
    """The correct answer, if known. One row of a problem is enough."""


ROLLOUTS_EXAMPLE = [
    RolloutBody.example(),
    RolloutBody.example(answer="0.5", confidence=0.6),
    RolloutBody.example(answer="2", confidence=0.3),
]


class AggregateRequest(AggregateOptions):
    """Rollouts to vote on, with options. Options in the body override those in the URL."""

    rollouts: list[RolloutBody] = Field(max_length=1_000_000, examples=[ROLLOUTS_EXAMPLE])
    """The rollouts, in any order unless `grouped` is true."""


class ResultBody(Wire):
    """Result of the vote on one problem."""

    problem_id: str = Field(examples=["p1"])
    """Id of the problem."""
    answer: str | None = Field(examples=["0.5"])
    """The winning answer, in its most frequent spelling; null if no counted rollout has an answer.
    """
    confidence: float = Field(examples=[0.8333333333332491])
    """The winning answer's share of the total weight, including rollouts without an answer."""
    tally: dict[str, float] = Field(examples=[{"0.5": 1.5, "2": 0.3000000000001819}])
    """Total weight of each distinct answer, in descending order."""
    classes: int = Field(examples=[2])
    """Number of distinct answers."""
    rollouts: int = Field(examples=[3])
    """Number of rollouts of the problem."""
    kept: int = Field(examples=[3])
    """Number of rollouts that took part in the vote."""
    tied: bool = Field(examples=[False])
    """Whether the winner was chosen at random among tied answers."""
    correct: bool | None = Field(examples=[True])
    """Whether the winning answer equals the reference; null without a reference."""
    pass_at_1: float | None = Field(examples=[0.6666666666666666])
    """Share of the problem's rollouts that are correct; null without a reference."""
    oracle: bool | None = Field(examples=[True])
    """Whether at least one rollout is correct; null without a reference."""
    compared: bool = Field(examples=[True])
    """Whether all answers were compared in time. Otherwise, answers that were not count as
    different, unless their texts are identical.
    """


class SummaryBody(Wire):
    """Totals over all problems. Rates cover problems with a reference, else they are null."""

    problems: int = Field(examples=[1])
    """Number of problems."""
    rollouts: int = Field(examples=[3])
    """Number of rollouts of all problems."""
    answered: int = Field(examples=[1])
    """Number of problems with an answer."""
    ties: int = Field(examples=[0])
    """Number of problems whose winner was chosen at random among tied answers."""
    graded: int = Field(examples=[1])
    """Number of problems with a reference."""
    uncompared: int = Field(examples=[0])
    """Number of problems with answers that were not compared in time."""
    pass_at_1: float | None = Field(examples=[0.6666666666666666])
    """Expected accuracy of a single rollout."""
    accuracy: float | None = Field(examples=[1.0])
    """Accuracy of the vote."""
    oracle: float | None = Field(examples=[1.0])
    """Share of problems with at least one correct rollout."""


class AggregateResponse(Wire):
    """The result of each problem, in the order in which problems first appear, and a summary."""

    results: list[ResultBody] = Field(examples=[[ResultBody.example()]])
    """One result for each problem."""
    summary: SummaryBody = Field(examples=[SummaryBody.example()])
    """Totals over all problems."""
