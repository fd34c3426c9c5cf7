"""Recordings for tests: small ones made by rule, and variants of others."""

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from calibration import ExitReason, Fingerprint, Reading, Rollout, Traces


def sure(
    fingerprint: Fingerprint | None,
    n: int,
    wrong: int = 0,
    *,
    name: str = "p",
    confidence: float = 1.0,
    rollouts: int = 1,
) -> Traces:
    """Problems that end at 8 tokens, before any checkpoint; the first `wrong` ones are wrong."""
    return Traces.from_rollouts(
        [
            Rollout(
                f"{name}{i:03d}",
                rollout,
                ExitReason.NATURAL,
                checkpoints=(),
                final=Reading(
                    8, confidence, "7" if i >= wrong else "8", int(i < wrong), 3, i >= wrong
                ),
            )
            for i in range(n)
            for rollout in range(rollouts)
        ],
        fingerprint,
    )


def several_rollouts(traces: Traces, rollouts: int) -> Traces:
    """Traces with one rollout per problem, regrouped: each `rollouts` of them form one problem."""
    n = traces.n_problems // rollouts
    kept = traces.select(np.arange(traces.n_problems) < n * rollouts)
    return replace(
        kept,
        problem_ids=kept.problem_ids[:n],
        groups=(None,) * n,
        problem_R=np.repeat(np.arange(n), rollouts),
        rollout_R=np.tile(np.arange(rollouts), n),
    )


def copies(traces: Traces, times: int, *, as_problems: bool = False) -> Traces:
    """Traces with one rollout per problem, each copied into rollouts or into a group."""
    n = traces.n_problems
    row_R = np.repeat(np.arange(n), times)
    copy_R = np.tile(np.arange(times), n)
    per_row = ("natural_R", "final_R", "tokens_RC", "confidence_RC")
    per_row += ("answer_class_RC", "answer_tokens_RC", "correct_RC")
    copied = {name: getattr(traces, name)[row_R] for name in per_row}
    if not as_problems:
        return replace(traces, problem_R=row_R, rollout_R=copy_R, **copied)
    return replace(
        traces,
        problem_ids=tuple(
            f"{traces.problem_ids[i]}-{k:03d}" for i in range(n) for k in range(times)
        ),
        groups=tuple(traces.problem_ids[i] for i in row_R),
        problem_R=np.arange(n * times),
        rollout_R=np.zeros(n * times, dtype=np.int64),
        **copied,
    )


def in_groups(traces: Traces, size: int) -> Traces:
    """The same problems in groups of `size`."""
    return replace(traces, groups=tuple(f"g{i // size:04d}" for i in range(traces.n_problems)))


def distorted(traces: Traces, slope: float, offset: float) -> Traces:
    """Calibrated confidences, replaced by c with logit P(right) = slope · logit c + offset."""
    return replace(traces, confidence_RC=expit((logit(traces.confidence_RC) - offset) / slope))


def all_correct(traces: Traces, correct: bool = True) -> Traces:
    """The same confidences with every answer right, or every answer wrong."""
    return replace(
        traces,
        correct_RC=np.full_like(traces.correct_RC, correct),
        answer_class_RC=np.full_like(traces.answer_class_RC, 0 if correct else 1),
    )


def constant_confidence(traces: Traces, confidence: float) -> Traces:
    """The same answers with a probe that is always equally confident."""
    return replace(traces, confidence_RC=np.full_like(traces.confidence_RC, confidence))
