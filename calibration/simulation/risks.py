"""The risks that may be bounded, each defined by the loss of one draw.

- `selective`: of the questions answered, the share answered wrong;
- `error`: of all questions, the share answered wrong;
- `regret`: of all questions, the share that the full budget answers correctly and the early exit
  does not.

Under the last two every exit gives an answer; after a low exit it is forced. No risk says anything
about a single question.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import ExitPolicy


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The outcome of each draw (D) of a procedure under each policy (T).

    Attributes:
        answered_DT: whether an answer is given: the rule answers, the answer can be read, and with
            several samples it holds the required share of the vote.
        correct_DT: whether an answer is given and is right.
        tokens_DT: reasoning and answer tokens of all samples, and the tokens that readings cost
            until the stop. Where the rule abstains no answer is forced; an answer that the model
            wrote by itself counts.
        confidence_DT: the raw confidence at the stop; with several samples, the winner's share of
            the vote, 0 if no sample has an answer.
        full_correct_D: whether the same draw is answered correctly at the full budget, whatever the
            winner's share.
        full_tokens_D: tokens of the same draw at the full budget, without the cost of readings.
    """

    answered_DT: NDArray[np.bool_]
    correct_DT: NDArray[np.bool_]
    tokens_DT: NDArray[np.int64]
    confidence_DT: NDArray[np.float64]
    full_correct_D: NDArray[np.bool_]
    full_tokens_D: NDArray[np.int64]


Loss: TypeAlias = NDArray[np.bool_] | NDArray[np.float64]
"""Draws x policies; boolean, or values in [0, 1]."""

UserLoss: TypeAlias = Callable[[Outcomes], NDArray[Any]]
"""A custom loss: values in [0, 1], draws x policies, each from its own draw and policy alone.

It is called on blocks of draws and policies, on several threads.
"""


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk: the mean loss or, for a ratio, the mean loss over the mean weight.

    Attributes:
        name: the name that selects it.
        answers_always: whether it counts every question, so that no exit may abstain.
        loss: the loss of every draw and policy, and its weight if the risk is a ratio; else None.
        binary: whether the loss of a draw is always 0 or 1.
    """

    name: str
    answers_always: bool
    loss: Callable[[Outcomes], tuple[Loss, Loss | None]]
    binary: bool = True

    @classmethod
    def custom(
        cls, name: str, loss: UserLoss, *, answers_always: bool = False, binary: bool = False
    ) -> Self:
        """The mean of a custom loss over all questions.

        Args:
            name: any name except those of the built-in risks.
            loss: see `UserLoss`.
            answers_always: whether every exit answers; after a low exit an answer is forced.
            binary: whether the loss is always 0 or 1. Then the exact binomial test may be used with
                one draw per unit.

        Raises:
            CalibrationError: the name is taken; or later, when the loss is computed, its shape is
                not draws x policies or a value is not a number in [0, 1].
        """
        if name in RISKS:
            raise CalibrationError(f"risk {name!r} is built in: give your loss another name")

        def checked(outcomes: Outcomes) -> tuple[Loss, None]:
            return _check_loss(name, loss(outcomes), outcomes.answered_DT.shape), None

        return cls(name, answers_always, checked, binary)

    def check_policies(self, policies: Sequence[ExitPolicy]) -> None:
        """Refuse a policy that may abstain if this risk counts every question.

        A policy that never exits low (lambda_low below 0, and constant) fits every risk.

        Raises:
            CalibrationError: a policy does not fit; the message names the field and the required
                value.
        """
        if not self.answers_always:
            return
        for number, policy in enumerate(policies):
            wanted = {"answer_on_low": policy.answer_on_low or not policy.exits_low}
            wanted |= {"lambda_answer": policy.lambda_answer == 0}
            wanted |= {"lambda_vote": policy.lambda_vote == 0}
            for field, fits in wanted.items():
                if not fits:
                    raise CalibrationError(
                        f"policy {number} has {field} = {getattr(policy, field)}, so it may "
                        f"abstain, and risk {self.name!r} counts every question: set answer_on_low "
                        "= True, lambda_answer = 0 and lambda_vote = 0"
                    )


def _selective(outcomes: Outcomes) -> tuple[Loss, Loss]:
    return outcomes.answered_DT & ~outcomes.correct_DT, outcomes.answered_DT


def _error(outcomes: Outcomes) -> tuple[Loss, None]:
    return ~outcomes.correct_DT, None


def _regret(outcomes: Outcomes) -> tuple[Loss, None]:
    return outcomes.full_correct_D[:, None] & ~outcomes.correct_DT, None


SELECTIVE = Risk("selective", answers_always=False, loss=_selective)
"""Of the questions answered, the share answered wrong; the others do not count."""

ERROR = Risk("error", answers_always=True, loss=_error)
"""Of all questions, the share answered wrong; no readable answer counts as wrong."""

REGRET = Risk("regret", answers_always=True, loss=_regret)
"""Of all questions, the share that only the full budget answers correctly."""

RISKS = {risk.name: risk for risk in (SELECTIVE, ERROR, REGRET)}
"""The built-in risks by name."""


def _declined(outcomes: Outcomes) -> tuple[Loss, None]:
    return ~outcomes.answered_DT, None


def _wrong(outcomes: Outcomes) -> tuple[Loss, None]:
    return outcomes.answered_DT & ~outcomes.correct_DT, None


SIDE_RISKS = {
    risk.name: risk
    for risk in (
        Risk("declined", answers_always=False, loss=_declined),
        Risk("wrong", answers_always=False, loss=_wrong),
        Risk("lost", answers_always=False, loss=_regret),
    )
}
"""Risks that can be bounded beside that of the levels, all as shares of all questions.

`declined`: no answer is given. `wrong`: a wrong answer is given. `lost`: the full budget gives the
right answer, and the policy gives none or a wrong one.
"""


def risk_named(name: str) -> Risk:
    """The built-in risk of that name.

    Raises:
        CalibrationError: the name is unknown; the message lists the known names.
    """
    if name not in RISKS:
        raise CalibrationError(f"risk {name!r} is unknown: give one of {', '.join(RISKS)}")
    return RISKS[name]


def _check_loss(name: str, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    loss_DT = np.asarray(values)
    if loss_DT.shape != shape:
        raise CalibrationError(
            f"loss {name!r} has the shape {loss_DT.shape}: give draws x policies, {shape}"
        )
    if loss_DT.dtype.kind not in "buif":
        raise CalibrationError(f"loss {name!r} is of type {loss_DT.dtype}: give numbers in [0, 1]")
    loss_DT = loss_DT.astype(np.float64)
    bad_DT = ~((loss_DT >= 0) & (loss_DT <= 1))
    if bad_DT.any():
        raise CalibrationError(
            f"loss {name!r} has the value {loss_DT[bad_DT][0]}: give numbers in [0, 1], "
            "scaled by the largest loss there can be"
        )
    return loss_DT
