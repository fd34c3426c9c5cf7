"""What goes over the wire about votes on rollouts that were produced anywhere."""

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
    """How rollouts are voted on."""

    model_config = ConfigDict(strict=False, extra="forbid")  # a URL holds nothing but text

    vote: Annotated[
        Literal["majority", "confidence", "filtered"],
        Field(
            description="majority: each rollout counts one. confidence: it counts its confidence. "
            "filtered: likewise, among each problem's most confident rollouts.",
            examples=["confidence"],
        ),
    ] = "confidence"
    seed: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_SEED,
            description="Breaks ties, uniformly at random; a problem's tie depends on this, its "
            "problem_id and the tied answers alone.",
            examples=[0],
        ),
    ] = 0
    top_p: Annotated[
        float | None,
        Field(
            gt=0,
            le=1,
            description="For vote filtered: share of a problem's answered rollouts to keep; 0.1 if "
            "left out.",
            examples=[0.1],
        ),
    ] = None
    grouped: Annotated[
        bool,
        Field(
            description="The rows of a problem follow each other, so that its result can be sent "
            "once they end. It is checked.",
            examples=[False],
        ),
    ] = False
    ignore_extra: Annotated[
        bool,
        Field(
            description="Pass over fields of rollouts that are not known here, rather than refuse.",
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
    """What one rollout of a problem came to."""

    problem_id: Annotated[str, Field(min_length=1, description="Its problem.", examples=["p1"])]
    answer: Annotated[
        str | None,
        Field(description="Its answer; null, or blank, if there is none.", examples=[r"\frac12"]),
    ]
    confidence: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="Probability that the answer is right; may be left out for vote majority.",
            examples=[0.9],
        ),
    ] = None
    reference: Annotated[
        str | None,
        Field(
            description="The true answer, if it is known; one row of a problem may stand for all.",
            examples=["0.5"],
        ),
    ] = None


class AggregateRequest(AggregateOptions):
    """Rollouts, and how they are voted on; options given here count before those of the URL."""

    rollouts: Annotated[
        list[RolloutBody],
        Field(
            max_length=1_000_000,
            description="In any order, unless `grouped` says otherwise.",
            examples=[ROLLOUTS_EXAMPLE],
        ),
    ]


class ResultBody(Wire):
    """The outcome of the vote on one problem."""

    problem_id: Annotated[str, Field(description="Which.", examples=["p1"])]
    answer: Annotated[
        str | None,
        Field(
            description="The text most often used among the equal answers that won; null if no "
            "rollout that was kept has an answer.",
            examples=["0.5"],
        ),
    ]
    confidence: Annotated[
        float,
        Field(
            description="The winner's share of the weight of all votes, those without an answer "
            "included.",
            examples=[RESULT_EXAMPLE["confidence"]],
        ),
    ]
    tally: Annotated[
        dict[str, float],
        Field(
            description="Weight of each answer, equal ones together, the heaviest first.",
            examples=[RESULT_EXAMPLE["tally"]],
        ),
    ]
    classes: Annotated[int, Field(description="How many different answers.", examples=[2])]
    rollouts: Annotated[int, Field(description="How many there are.", examples=[3])]
    kept: Annotated[int, Field(description="How many took part in the vote.", examples=[3])]
    tied: Annotated[bool, Field(description="Whether the winner was drawn.", examples=[False])]
    correct: Annotated[
        bool | None,
        Field(
            description="Whether the answer equals the reference; null if that is not known, as "
            "are the two below.",
            examples=[True],
        ),
    ]
    pass_at_1: Annotated[
        float | None,
        Field(description="Share of the rollouts that are right.", examples=[0.6666666666666666]),
    ]
    oracle: Annotated[
        bool | None, Field(description="Whether any rollout is right.", examples=[True])
    ]


class SummaryBody(Wire):
    """All problems together; the rates are over those with a reference, null if there is none."""

    problems: Annotated[int, Field(description="How many.", examples=[1])]
    rollouts: Annotated[int, Field(description="Of all problems.", examples=[3])]
    answered: Annotated[int, Field(description="Problems with an answer.", examples=[1])]
    ties: Annotated[int, Field(description="Problems whose winner was drawn.", examples=[0])]
    graded: Annotated[int, Field(description="Problems with a reference.", examples=[1])]
    pass_at_1: Annotated[
        float | None,
        Field(
            description="Expected accuracy of a single rollout.",
            examples=[SUMMARY_EXAMPLE["pass_at_1"]],
        ),
    ]
    accuracy: Annotated[float | None, Field(description="Of the vote.", examples=[1.0])]
    oracle: Annotated[
        float | None,
        Field(description="Share of problems of which some rollout is right.", examples=[1.0]),
    ]


class AggregateResponse(Wire):
    """A result for each problem, in the order in which problems first appear."""

    results: Annotated[
        list[ResultBody],
        Field(description="One for each problem.", examples=[[RESULT_EXAMPLE]]),
    ]
    summary: Annotated[
        SummaryBody, Field(description="All of them together.", examples=[SUMMARY_EXAMPLE])
    ]
