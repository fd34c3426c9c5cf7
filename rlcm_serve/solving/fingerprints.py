"""Checks which procedure a certificate is for, and whether it was fitted on this engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple, Self

from calibration import Certificate
from calibration.canonical import canonical_json
from calibration.traces.fingerprint import Effect, Fingerprint
from rlcm_serve.answers.extraction.named import extractor_named
from rlcm_serve.answers.profile_graders import grader_name
from rlcm_serve.core import Question, RiskName, VoteRule
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.thinking import format_named
from rlcm_serve.engine.weights.adapters import Adapter
from rlcm_serve.errors import CertificateMismatch
from rlcm_serve.profiles.parts import PROBLEM
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.recording.problems import digest_text


class ServedProcedure(NamedTuple):
    """The part of a certificate that a caller selects: risk, samples, vote, token budget and kind.

    One active certificate serves each combination. `kind` None stands for questions of all kinds.
    """

    risk: str
    samples: int
    vote: str
    max_tokens: int
    kind: str | None = None

    @classmethod
    def of_question(cls, question: Question, default_max_tokens: int) -> Self:
        """The procedure that a question requests."""
        max_tokens = question.max_tokens or default_max_tokens
        return cls(question.risk, question.samples, _vote(question), max_tokens, question.kind)

    @classmethod
    def of_certificate(cls, certificate: Certificate) -> Self:
        """The procedure that was certified.

        Raises:
            CertificateMismatch: the certificate is not servable.
        """
        fitted = fitted_on(certificate)
        chosen = certificate.risk, fitted.samples, _vote(fitted), fitted.max_tokens
        return cls(*chosen, certificate.about)


def _vote(asked: Question | Fingerprint) -> str:
    # One sample wins any vote.
    return str(asked.vote) if asked.samples > 1 else VoteRule.CONFIDENCE.value


def fingerprint_of(
    identity: EngineIdentity,
    samples: int = 1,
    vote: str = "confidence",
    max_tokens: int | None = None,
) -> Fingerprint:
    """The fingerprint of this engine and profile with `samples` samples merged by `vote`.

    `max_tokens` None takes the budget of engine and profile.
    """
    asked = identity.profile
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
        samples=samples,
        vote=vote,
        thinking=identity.thinking,
        top_k=identity.sampling.top_k,
        min_p=identity.sampling.min_p,
        adapter=identity.adapter,
        ends=identity.ends,
        **_texts_of(asked),
        familiarity=identity.familiarity,
        familiarity_cutoff=identity.familiarity_cutoff,
        **asdict(identity.facts),
    )


def _texts_of(profile: Profile) -> dict[str, Any]:
    """The parts of a fingerprint that a profile alone decides."""
    return {
        "system_prompt": "" if profile.system is None else digest_text(profile.system),
        "user_template": "" if profile.template == PROBLEM else digest_text(profile.template),
        "template_variables": _json(profile.variables),
        "extractor": extractor_named(profile.extractor).name,
        "grader": grader_name(profile),
        "answer_schema": "" if profile.schema is None else digest_text(_json(profile.schema)),
    }


def require_profile(recorded: Fingerprint, profile: Profile) -> None:
    """Returns if traces with this fingerprint may have been recorded under this profile.

    Raises:
        CertificateMismatch: they were not; the message lists the differences.
        ModelRefused: the profile's thinking format is not known, or its adapter cannot be read.
    """
    said: dict[str, Any] = {
        "adapter": "" if profile.adapter is None else Adapter.read(profile.adapter).digest,
        "thinking": format_named(profile.thinking).name if profile.thinking else None,
        "temperature": profile.temperature,
        "top_p": profile.top_p,
        "top_k": profile.top_k or 0,
        "min_p": profile.min_p or 0.0,
        "max_tokens": profile.max_tokens,
        "answer_max_tokens": profile.answer_max_tokens,
    }
    known = {name: value for name, value in said.items() if value is not None}
    asked = replace(recorded, **_texts_of(profile), **known)
    if differences := recorded.differences(asked):
        raise CertificateMismatch(
            f"the traces were not recorded under the profile {profile.name!r} (traces here, "
            f"profile there): {'; '.join(differences)}. Record again with --profile, or "
            "give the profile that was used"
        )


def _json(values: Mapping[str, Any]) -> str:
    return canonical_json(values).decode() if values else ""


_OF_PROFILES = {
    *("system_prompt", "user_template", "template_variables", "thinking", "extractor"),
    *("answer_schema", "adapter", "temperature", "top_p", "top_k", "min_p", "answer_max_tokens"),
}
"""Parts of a fingerprint that a profile can change."""


def profiles_of(certificate: Certificate, identities: Sequence[EngineIdentity]) -> tuple[str, ...]:
    """The names of the profiles that a certificate is for: at least one.

    Raises:
        CertificateMismatch: it was fitted on another engine or with another profile. The message
            lists the differences from the nearest profile.
    """
    if certificate.risk not in {risk.value for risk in RiskName}:
        raise CertificateMismatch(
            f"certificate {certificate.id} is for the risk {certificate.risk!r}: this service "
            f"supports {', '.join(RiskName)}; fit a certificate for one of these"
        )
    fitted = fitted_on(certificate)
    differences = {
        identity.profile.name: fitted.differences(served_like(fitted, identity), (Effect.REFUSES,))
        for identity in identities
    }
    if fitting := tuple(name for name, found in differences.items() if not found):
        return fitting
    raise CertificateMismatch(_misfit(certificate, differences))


def departures_of(certificate: Certificate, identity: EngineIdentity, effect: Effect) -> list[str]:
    """How the engine's facts depart from the certified ones, where that has this effect."""
    fitted = fitted_on(certificate)
    here = served_like(fitted, identity)
    return [
        f"{name} is {_fact(here, name, 'not known')}, the certified value is "
        f"{_fact(fitted, name, 'not recorded')}"
        for name in fitted.differing(here, (effect,))
    ]


RESTORE = "start the engine with the certified values, or record and fit again"


def voided_by(certificate: Certificate, identity: EngineIdentity) -> str | None:
    """Why no answer of this engine has the certificate's guarantee; None if answers may have it."""
    voids = departures_of(certificate, identity, Effect.VOIDS)
    return "; ".join([*voids, RESTORE]) if voids else None


def _fact(recorded: Fingerprint, name: str, unknown: str) -> str:
    """The fact in words; where the others were recorded, an empty one means none."""
    return getattr(recorded, name) or ("none" if recorded.dtype else unknown)


def served_like(fitted: Fingerprint, identity: EngineIdentity) -> Fingerprint:
    """What the engine serves to questions that choose what was fitted: samples, vote, budget."""
    return fingerprint_of(identity, fitted.samples, fitted.vote, fitted.max_tokens)


def nearest_identity(fitted: Fingerprint, identities: Sequence[EngineIdentity]) -> EngineIdentity:
    """The identity with the fewest differences."""
    return min(identities, key=lambda one: len(fitted.differences(served_like(fitted, one))))


def _misfit(certificate: Certificate, differences: Mapping[str, list[str]]) -> str:
    name = min(differences, key=lambda one: len(differences[one]))
    under = f" under the profile {name!r}, the nearest" if len(differences) > 1 else ""
    parts = {line.partition(":")[0] for line in differences[name]}
    return (
        f"certificate {certificate.id} was not fitted on this engine{under} (certificate here, "
        f"engine there): {'; '.join(differences[name])}. {_remedy(parts)}, or start without this "
        "certificate"
    )


def _remedy(different: set[str]) -> str:
    """What to do about parts of a fingerprint that differ."""
    if different == {"grader"}:
        return "Grade its traces again with `rlcm regrade`, which needs no model, and fit again"
    if different <= _OF_PROFILES:
        return "Serve the profile it was fitted with (--profile FILE), or record and fit again"
    return "Serve the model and settings it was fitted on, or record and fit again"


def fitted_on(certificate: Certificate) -> Fingerprint:
    """The fingerprint of what a certificate was fitted on.

    Raises:
        CertificateMismatch: it has none, so it is not servable.
    """
    if certificate.fingerprint is None:
        raise CertificateMismatch(
            f"certificate {certificate.id} is not servable: its traces have no fingerprint, so its "
            "engine is unknown; record with `rlcm collect` and fit again"
        )
    return certificate.fingerprint
