"""Checks which procedure a certificate is for, and whether it was fitted on this engine."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Self

from calibration import Certificate
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.answers.grader import GRADER
from rlcm_serve.core import Question, RiskName, VoteRule
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import CertificateMismatch


class ServedProcedure(NamedTuple):
    """The part of a certificate that a caller selects: risk, samples, vote and token budget.

    One active certificate serves each combination.
    """

    risk: str
    samples: int
    vote: str
    max_tokens: int

    @classmethod
    def of_question(cls, question: Question, default_max_tokens: int) -> Self:
        """The procedure that a question requests."""
        max_tokens = question.max_tokens or default_max_tokens
        return cls(question.risk, question.samples, _vote(question), max_tokens)

    @classmethod
    def of_certificate(cls, certificate: Certificate) -> Self:
        """The procedure that was certified.

        Raises:
            CertificateMismatch: the certificate is not servable.
        """
        fitted = _fingerprint(certificate)
        return cls(certificate.risk, fitted.samples, _vote(fitted), fitted.max_tokens)


def _vote(asked: Question | Fingerprint) -> str:
    # One sample wins any vote.
    return str(asked.vote) if asked.samples > 1 else VoteRule.CONFIDENCE.value


def fingerprint_of(
    identity: EngineIdentity,
    samples: int = 1,
    vote: str = "confidence",
    max_tokens: int | None = None,
) -> Fingerprint:
    """The fingerprint of this engine with `samples` samples merged by `vote`.

    `max_tokens` None takes the engine's own budget.
    """
    return Fingerprint(
        model=identity.model,
        probe=identity.probe,
        tokenizer=identity.tokenizer,
        chat_template=identity.chat_template,
        temperature=identity.sampling.temperature,
        top_p=identity.sampling.top_p,
        checkpoint_interval=identity.checkpoint_interval,
        max_tokens=max_tokens or identity.budget.thinking,
        answer_max_tokens=identity.budget.answer,
        forced_suffix=identity.forced_suffix,
        grader=GRADER,
        samples=samples,
        vote=vote,
    )


def require_fit(certificate: Certificate, identity: EngineIdentity) -> None:
    """Checks that a certificate was fitted on this engine.

    Raises:
        CertificateMismatch: it was fitted on another engine; the message lists the differences.
    """
    if certificate.risk not in {risk.value for risk in RiskName}:
        raise CertificateMismatch(
            f"certificate {certificate.id} is for the risk {certificate.risk!r}: this service "
            f"supports {', '.join(RiskName)}; fit a certificate for one of these"
        )
    fitted = _fingerprint(certificate)
    # Callers choose these per question.
    served = fingerprint_of(identity, fitted.samples, fitted.vote, fitted.max_tokens)
    if differences := fitted.differences(served):
        raise CertificateMismatch(
            f"certificate {certificate.id} was not fitted on this engine (certificate here, engine "
            f"there): {'; '.join(differences)}. {_remedy(fitted, served)}, or start without this "
            "certificate"
        )


def _remedy(fitted: Fingerprint, served: Fingerprint) -> str:
    if replace(fitted, grader=served.grader) == served:
        return "Grade its traces again with `rlcm regrade`, which needs no model, and fit again"
    return "Serve the model and settings it was fitted on, or record and fit again"


def _fingerprint(certificate: Certificate) -> Fingerprint:
    if certificate.fingerprint is None:
        raise CertificateMismatch(
            f"certificate {certificate.id} is not servable: its traces have no fingerprint, so its "
            "engine is unknown; record with `rlcm collect` and fit again"
        )
    return certificate.fingerprint
