"""Results of the primary comparison that no run made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.paper.primary.design import POSTHOC
from studies.paper.primary.measures import Measured
from studies.paper.primary.result import PrimaryResult
from studies.paper.result import Stage

PROBLEMS = tuple(f"{family}-5-{at}" for family in ("dial", "tale") for at in range(120))
ROLLOUTS = 8


def made(
    method: str,
    seed: int,
    tells: float,
    tokens: float = 400.0,
    probes: Sequence[str] = (POSTHOC,),
    problems: tuple[str, ...] = PROBLEMS,
    skill: float = 0.0,
) -> PrimaryResult:
    """A result whose confidence tells right from wrong by `tells` standard deviations.

    Every further probe tells one standard deviation more than the one before. The more skill, the
    more rollouts are right; with -9, none is.
    """
    hard_P = np.random.default_rng(7).normal(size=(len(problems), 1))
    draw = np.random.default_rng([seed, len(method), method.encode()[-1]])
    right = skill + hard_P + draw.normal(size=(len(problems), ROLLOUTS)) > 0
    noise = draw.normal(size=right.shape)
    confidence = {
        name: tuple(map(tuple, (1 / (1 + np.exp(-(tells + more) * right - noise))).tolist()))
        for more, name in enumerate(probes)
    }
    tokens_P = tuple((tokens + draw.normal(0, 20, len(problems))).tolist())
    measured = Measured(
        problems,
        tuple(map(tuple, right.astype(int).tolist())),
        confidence,
        tokens_P,
        tuple(500.0 for _ in problems),
    )
    stage = Stage("rlcm", None, 100.0)
    return PrimaryResult(
        f"{method}-{seed}", method, seed, "a1b2c3", 301.5, stage, stage, stage, {}, (0.5,), measured
    )
