"""Wire types of `/aggregate`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rlcm_serve.aggregation.rules import MAX_SEED, Rule, VoteOptions
from rlcm_serve.api.wire.base import Wire

ROLLOUT_EXAMPLE = {"problem_id": "p1", "answer": r"\frac12", "confidence": 0.9, "reference": "0.5"}
ROLLOUTS_EXAMPLE = [
    ROLLOUT_EXAMPLE,
    {"problem_id": "p1", "answer": "0.5", "confidence": 0.6, "reference": "0.5"},
    {"problem_id": "p1", "answer": "2", "confidence": 0.3, "reference": "0.5"},
]
RESULT_EXAMPLE = {
    "problem_id": "p1",
    "answer": "0.5",
    "confidence": 0.8333333333332491,
    "tally": {"0.5": 1.5, "2": 0.3000000000001819},
    "classes": 2,
    "rollouts": 3,
    "kept": 3,
    "tied": False,
    "correct": True,
    "pass_at_1": 0.6666666666666666,
    "oracle": True,
}
SUMMARY_EXAMPLE = {
    "problems": 1,
    "rollouts": 3,
    "answered": 1,
    "ties": 0,
    "graded": 1,
    "pass_at_1": 0.6666666666666666,
    "accuracy": 1.0,
    "oracle": 1.0,
}


class AggregateOptions(Wire):
    """Options of a vote."""

    model_config = ConfigDict(strict=False, extra="forbid")  # a URL holds nothing but text

    vote: Annotated[
        Literal["majority", "confidence", "filtered"],
        Field(
            description="How rollouts are weighted. `majority`: each rollout counts 1. "
            "`confidence`: each counts its confidence. `filtered`: as `confidence`,"
            " but only a problem's most confident rollouts count.",
            examples=["confidence"],
        ),
    ] = "confidence"
    seed: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_SEED,
            description="Seed for breaking ties, uniformly at random. The result of a tie "
            "depends only on the seed, the `problem_id` and the tied answers.",
            examples=[0],
        ),
    ] = 0
    top_p: Annotated[
        float | None,
        Field(
            gt=0,
            le=1,
            description="For `vote=filtered`: share of a problem's answered rollouts to keep. "
            "The default is 0.1.",
            examples=[0.1],
        ),
    ] = None
    grouped: Annotated[
        bool,
        Field(
            description="States that the rows of each problem are adjacent, so that its result "
            "can be sent as soon as they end. The service checks this.",
            examples=[False],
        ),
    ] = False
    ignore_extra: Annotated[
        bool,
        Field(
            description="Ignore unknown fields of rollouts instead of refusing the request.",
            examples=[False],
        ),
    ] = False

    def to_options(self) -> VoteOptions:
        """The options in the service's own terms.

        Raises:
            RequestRefused: they do not go together.
        """
        return VoteOptions(Rule(self.vote), self.seed, self.top_p, self.grouped)


class RolloutBody(Wire):
    """One rollout of a problem and its answer."""

    problem_id: Annotated[
        str, Field(min_length=1, description="Id of the problem.", examples=["p1"])
    ]
    answer: Annotated[
        str | None,
        Field(
            description="Answer of the rollout; null or blank if it has none.",
            examples=[r"\frac12"],
        ),
    ]
    confidence: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="Probability that the answer is correct. It may be left out for "
            "`vote=majority`.",
            examples=[0.9],
        ),
    ] = None
    reference: Annotated[
        str | None,
        Field(
            description="The correct answer, if known. One row of a problem is enough.",
            examples=["0.5"],
        ),
    ] = None


class AggregateRequest(AggregateOptions):
    """Rollouts to vote on, with options. Options in the body override those in the URL."""

    rollouts: Annotated[
        list[RolloutBody],
        Field(
            max_length=1_000_000,
            description="The rollouts, in any order unless `grouped` is true.",
            examples=[ROLLOUTS_EXAMPLE],
        ),
    ]


class ResultBody(Wire):
    """Result of the vote on one problem."""

    problem_id: Annotated[str, Field(description="Id of the problem.", examples=["p1"])]
    answer: Annotated[
        str | None,
        Field(
            description="The winning answer, in its most frequent spelling; null if no counted "
            "rollout has an answer.",
            examples=["0.5"],
        ),
    ]
    confidence: Annotated[
        float,
        Field(
            description="The winning answer's share of the total weight, including rollouts "
            "without an answer.",
            examples=[RESULT_EXAMPLE["confidence"]],
        ),
    ]
    tally: Annotated[
        dict[str, float],
        Field(
            description="Total weight of each distinct answer, in descending order.",
            examples=[RESULT_EXAMPLE["tally"]],
        ),
    ]
    classes: Annotated[int, Field(description="Number of distinct answers.", examples=[2])]
    rollouts: Annotated[int, Field(description="Number of rollouts of the problem.", examples=[3])]
    kept: Annotated[
        int, Field(description="Number of rollouts that took part in the vote.", examples=[3])
    ]
    tied: Annotated[
        bool,
        Field(
            description="Whether the winner was chosen at random among tied answers.",
            examples=[False],
        ),
    ]
    correct: Annotated[
        bool | None,
        Field(
            description="Whether the winning answer equals the reference; null without a "
            "reference.",
            examples=[True],
        ),
    ]
    pass_at_1: Annotated[
        float | None,
        Field(
            description="Share of the problem's rollouts that are correct; null without a "
            "reference.",
            examples=[0.6666666666666666],
        ),
    ]
    oracle: Annotated[
        bool | None,
        Field(
            description="Whether at least one rollout is correct; null without a reference.",
            examples=[True],
        ),
    ]


class SummaryBody(Wire):
    """Totals over all problems. Rates cover problems with a reference, else they are null."""

    problems: Annotated[int, Field(description="Number of problems.", examples=[1])]
    rollouts: Annotated[int, Field(description="Number of rollouts of all problems.", examples=[3])]
    answered: Annotated[int, Field(description="Number of problems with an answer.", examples=[1])]
    ties: Annotated[
        int,
        Field(
            description="Number of problems whose winner was chosen at random among tied answers.",
            examples=[0],
        ),
    ]
    graded: Annotated[int, Field(description="Number of problems with a reference.", examples=[1])]
    pass_at_1: Annotated[
        float | None,
        Field(
            description="Expected accuracy of a single rollout.",
            examples=[SUMMARY_EXAMPLE["pass_at_1"]],
        ),
    ]
    accuracy: Annotated[float | None, Field(description="Accuracy of the vote.", examples=[1.0])]
    oracle: Annotated[
        float | None,
        Field(description="Share of problems with at least one correct rollout.", examples=[1.0]),
    ]


class AggregateResponse(Wire):
    """The result of each problem, in the order in which problems first appear, and a summary."""

    results: Annotated[
        list[ResultBody],
        Field(description="One result for each problem.", examples=[[RESULT_EXAMPLE]]),
    ]
    summary: Annotated[
        SummaryBody, Field(description="Totals over all problems.", examples=[SUMMARY_EXAMPLE])
    ]
