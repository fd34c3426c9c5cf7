"""The methods of RLCM §4 and further ones: their rewards, and their sources of confidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlcm_serve.evaluation.sources import Source
from training.errors import TrainingRefused
from training.rl.rewards import group_rewards, rewards
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
class GroupTerm:
    """A part of a reward that compares the rollouts of one problem; λ multiplies it.

    Attributes:
        name: in logs.
        of: the values for all rollouts of one problem, in their order.
    """

    name: str
    of: Callable[[Sequence[GradedRollout]], list[float]]

    def weight(self, strength: float) -> float:
        """Weight of the term when λ is `strength`."""
        return strength


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
        brings: settings that belong to the method, by table and name. They replace the file's.
        ramp: λ as a factor of itself, from the share of the steps that are done; None: constant.
    """

    name: str
    title: str
    terms: tuple[Term | GroupTerm, ...]
    strength: float = 0.1
    confidence: Source = Source.PROBE
    reads_probe: bool = False
    is_sequence_level: bool = False
    is_regularised: bool = False
    brings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ramp: Callable[[float], float] | None = None

    @property
    def asks_confidence(self) -> bool:
        """Whether the prompt asks the model to say how confident it is."""
        return self.confidence is Source.VERBALIZED

    @property
    def uses_strength(self) -> bool:
        """Whether λ changes anything: there is a weighted term or a regulariser."""
        return self.is_regularised or any(
            term.weight(1.0) != term.weight(2.0) for term in self.terms
        )

    @property
    def compares(self) -> bool:
        """Whether a term compares the rollouts of one problem."""
        return any(isinstance(term, GroupTerm) for term in self.terms)

    def terms_read(self, with_probe: bool = True) -> tuple[Term | GroupTerm, ...]:
        """The terms; without a probe, those alone that read none."""
        if with_probe or not self.reads_probe:
            return self.terms
        return tuple(own for own in self.terms if isinstance(own, Term) and not own.is_weighted)

    def weights(self, strength: float, done: float, with_probe: bool = True) -> list[float]:
        """Weights of `terms_read` when λ is `strength` and a share `done` of the steps is over."""
        factor = 1.0 if self.ramp is None else self.ramp(done)
        return [term.weight(strength * factor) for term in self.terms_read(with_probe)]

    def needs_probe(self, strength: float) -> bool:
        """Whether a reward depends on the probe. With λ = 0 no reward does."""
        return self.reads_probe and strength != 0

    def reward(self, rollout: GradedRollout, strength: float, with_probe: bool = True) -> float:
        """The weighted sum of the terms that read one rollout alone, when λ is `strength`.

        It is R(y) for methods that do not compare rollouts.

        Args:
            rollout: graded.
            strength: λ.
            with_probe: whether the terms that read the probe count.
        """
        terms = [own for own in self.terms_read(with_probe) if isinstance(own, Term)]
        return sum(own.weight(strength) * own.of(rollout) for own in terms)


_ANSWER = Term("answer", rewards.answer)


def _with_probe(name: str, title: str, term: Callable[[GradedRollout], float]) -> Method:
    """R(y) = R_ans(y) + λ · term(y), the term reading the jointly trained probe."""
    extra = Term(term.__name__, term, is_weighted=True)
    return Method(name, title, (_ANSWER, extra), reads_probe=True)


def _with_group(name: str, title: str, term: Callable[..., list[float]]) -> Method:
    """R(y) = R_ans(y) + λ · term(y), the term comparing the rollouts of the problem."""
    return Method(name, title, (_ANSWER, GroupTerm(term.__name__, term)), reads_probe=True)


def _rising(done: float) -> float:
    """The factor of λ: 2s / S in step s of S, counted from 0. Its mean is 1 - 1 / S."""
    return 2 * done


_AUTHORS: Mapping[str, Mapping[str, Any]] = {
    "budgets": {"fractions": (0.25, 0.5, 0.75)},
    "probe": {
        "width": None,
        "activation": "relu",
        "states": 4,
        "is_standardised": False,
        "learns_first": True,
        "updates": 16,
        "minibatch": 16,
        "learning_rate": 1e-3,
        "weight_decay": 0.01,
        "dropout": 0.1,
    },
}
"""Budgets and probe as the authors ran them (Melodramass/RLCM, c182b62, scripts/train/rlcm.sh)."""

METHODS = {
    method.name: method
    for method in (
        Method("grpo", "GRPO", (_ANSWER,), strength=0.0),
        _with_probe("rlcm", "RLCM", rewards.margin),
        Method(
            "rlcm-authors",
            "RLCM (authors' code)",
            (
                Term("correctness", rewards.correctness),
                Term("strict_margin", rewards.strict_margin, is_weighted=True),
            ),
            reads_probe=True,
            brings=_AUTHORS,
        ),
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
            "rlcr-authors",
            "RLCR (authors' code)",
            (
                Term("correctness", rewards.correctness),
                Term("stated_brier", rewards.stated_brier_or_half, is_weighted=True),
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
            # A mean over all tokens would weight each sequence by its length.
            brings={"policy": {"loss": "grpo"}},
        ),
        _with_group("rlcm-ranking", "RLCM, ranking", group_rewards.ranking),
        _with_group("rlcm-between", "RLCM, margin between", group_rewards.margin_between),
        _with_group("rlcm-variance", "RLCM, by variance", group_rewards.margin_by_variance),
        Method(
            "rlcm-rising",
            "RLCM, rising λ",
            (_ANSWER, Term("margin", rewards.margin, is_weighted=True)),
            reads_probe=True,
            ramp=_rising,
        ),
    )
}
"""RLCM, its ablation (§4.5) and the baselines (§4.1); then ideas for confidence within a question,
which are not the paper's. C²GSPG's regulariser is in `losses`.

`-authors` marks a method as the authors' code runs it, where that differs from the paper's text.
"""


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        TrainingRefused: there is no such method. The message lists all methods.
    """
    if name not in METHODS:
        raise TrainingRefused(f"{name!r} is not a method: choose one of {', '.join(METHODS)}")
    return METHODS[name]
