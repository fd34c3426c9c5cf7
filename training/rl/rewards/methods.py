"""The methods of RLCM §4: their rewards, and their sources of confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlcm_serve.evaluation.sources import Source
from training.errors import TrainingRefused
from training.rl.rewards import rewards
from training.rl.rewards.rewards import GradedRollout


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a reward.

    Attributes:
        name: in logs.
        of: the value for one rollout.
        is_weighted: whether λ multiplies it; else its weight is 1.
    """

    name: str
    of: Callable[[GradedRollout], float]
    is_weighted: bool = False

    def weight(self, strength: float) -> float:
        """Weight of the term when λ is `strength`."""
        return strength if self.is_weighted else 1.0


@dataclass(frozen=True, slots=True)
class Method:
    """One way to train a policy.

    Attributes:
        name: identifier, as in `--method`.
        title: display name, as in the paper.
        terms: R(y) is their weighted sum, before it is normalised within its group. TRL adds them
            up, and logs each one.
        strength: default λ. It multiplies the weighted terms and the regulariser.
        confidence: source of confidence at evaluation.
        reads_probe: whether a weighted term reads the probe.
        is_sequence_level: whether the sequence, not the token, is the unit of the policy gradient.
        is_regularised: whether the loss pulls sequence probabilities towards correctness.
    """

    name: str
    title: str
    terms: tuple[Term, ...]
    strength: float = 0.1
    confidence: Source = Source.PROBE
    reads_probe: bool = False
    is_sequence_level: bool = False
    is_regularised: bool = False

    @property
    def asks_confidence(self) -> bool:
        """Whether the prompt asks the model to say how confident it is."""
        return self.confidence is Source.VERBALIZED

    def needs_probe(self, strength: float) -> bool:
        """Whether a reward depends on the probe. With λ = 0 no reward does."""
        return self.reads_probe and strength != 0


_ANSWER = Term("answer", rewards.answer)


def _with_probe(name: str, title: str, term: Callable[[GradedRollout], float]) -> Method:
    """R(y) = R_ans(y) + λ · term(y), the term reading the jointly trained probe."""
    extra = Term(term.__name__, term, is_weighted=True)
    return Method(name, title, (_ANSWER, extra), reads_probe=True)


METHODS = {
    method.name: method
    for method in (
        Method("grpo", "GRPO", (_ANSWER,), strength=0.0),
        _with_probe("rlcm", "RLCM", rewards.margin),
        _with_probe("final-brier", "Final-Brier", rewards.final_brier),
        _with_probe("final-margin", "Final-Margin", rewards.final_margin),
        _with_probe("process-brier", "Process-Brier", rewards.process_brier),
        Method(
            "rlcr",
            "RLCR",
            (
                Term("correctness", rewards.correctness),
                Term("formatted", rewards.formatted),
                Term("stated_brier", rewards.stated_brier, is_weighted=True),
            ),
            strength=1.0,
            confidence=Source.VERBALIZED,
        ),
        Method(
            "c2gspg",
            "C²GSPG",
            (_ANSWER,),
            strength=0.01,
            confidence=Source.SEQUENCE_PROBABILITY,
            is_sequence_level=True,
            is_regularised=True,
        ),
    )
}
"""RLCM, its ablation (§4.5) and the baselines (§4.1). C²GSPG's regulariser is in `losses`."""


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        TrainingRefused: there is no such method. The message lists all methods.
    """
    if name not in METHODS:
        raise TrainingRefused(f"{name!r} is not a method: choose one of {', '.join(METHODS)}")
    return METHODS[name]
