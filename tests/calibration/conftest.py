"""Small recordings made by hand, and a world in which the risk of a policy has a closed form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from calibration import ExitPolicy, ExitReason, Fingerprint, Reading, Rollout, Traces

INTERVAL = 16
BUDGET = 80
CHECKPOINTS = np.arange(INTERVAL, BUDGET, INTERVAL)


@pytest.fixture(scope="session")
def fingerprint() -> Fingerprint:
    return Fingerprint(
        model="m0",
        probe="p0",
        tokenizer="t0",
        chat_template="c0",
        temperature=0.8,
        top_p=1.0,
        checkpoint_interval=INTERVAL,
        max_tokens=BUDGET,
        answer_max_tokens=8,
        forced_suffix="\n</think>\n",
        grader="exact 1",
        samples=1,
        vote="confidence",
    )


@pytest.fixture(scope="session")
def make_rollout() -> Callable[..., Rollout]:
    """A rollout from its confidences and verdicts; the last ones are those of the final reading."""

    def make(
        problem_id: str = "p1",
        confidences: Sequence[float] = (0.2, 0.6, 0.9),
        correct: Sequence[bool] = (False, True, True),
        end: int = 40,
        rollout: int = 0,
        group: str | None = None,
        answer_tokens: int = 3,
        natural: bool = True,
    ) -> Rollout:
        tokens = [*(INTERVAL * (i + 1) for i in range(len(confidences) - 1)), end]
        readings = tuple(
            Reading(t, c, "7" if right else "8", int(not right), answer_tokens, right)
            for t, c, right in zip(tokens, confidences, correct, strict=True)
        )
        reason = ExitReason.NATURAL if natural else ExitReason.BUDGET
        return Rollout(problem_id, rollout, reason, readings[:-1], readings[-1], group)

    return make


@dataclass(frozen=True)
class UniformWorld:
    """Readings are Uniform(0, 1); each answer is right with exactly this probability."""

    fingerprint: Fingerprint

    def draw(self, rng: np.random.Generator, n_problems: int, prefix: str = "p") -> Traces:
        shape = (n_problems, len(CHECKPOINTS) + 1)
        confidence_RC = rng.random(shape)
        correct_RC = rng.random(shape) < confidence_RC
        return Traces(
            fingerprint=self.fingerprint,
            problem_ids=tuple(f"{prefix}{i:05d}" for i in range(n_problems)),
            groups=(None,) * n_problems,
            problem_R=np.arange(n_problems),
            rollout_R=np.zeros(n_problems, dtype=np.int64),
            natural_R=np.zeros(n_problems, dtype=np.bool_),
            final_R=np.full(n_problems, len(CHECKPOINTS)),
            tokens_RC=np.tile(np.append(CHECKPOINTS, BUDGET), (n_problems, 1)),
            confidence_RC=confidence_RC,
            answer_class_RC=np.where(correct_RC, 0, 1),
            answer_tokens_RC=np.full(shape, 3),
            correct_RC=correct_RC,
        )

    @staticmethod
    def risk(policy: ExitPolicy) -> float:
        """The selective risk of a policy without low exits: wrong answers over answers."""
        assert policy.lambda_low < 0
        high, end = min(policy.lambda_high, 1.0), min(policy.lambda_answer, 1.0)
        never_high = high ** len(CHECKPOINTS)
        answered = (1 - never_high) + never_high * (1 - end)
        # An answer given at c >= x is wrong with probability E[1 - c | c >= x] = (1 - x) / 2.
        wrong = (1 - never_high) * (1 - high) / 2 + never_high * (1 - end) ** 2 / 2
        return wrong / answered


@pytest.fixture(scope="session")
def world(fingerprint: Fingerprint) -> UniformWorld:
    return UniformWorld(fingerprint)
