"""Which profile a question is asked under, and what it changes of what a certificate demands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from calibration import Certificate
from calibration.certificate.kinds import named
from rlcm_serve.core import Message, Question, Role
from rlcm_serve.profiles.profile import DEFAULT_NAME, Profile, unknown_profile
from rlcm_serve.solving.fingerprints import ServedProcedure, fitted_on


class Asked(NamedTuple):
    """A question under a profile.

    Attributes:
        profile: the one that the question names, or whose system prompt it has, or the default.
        messages: the conversation, with the profile's system prompt and template.
        departures: why its conversation or its schema is not the profile's; empty if both are.
    """

    profile: Profile
    messages: tuple[Message, ...]
    departures: tuple[str, ...]


class HowAsked(NamedTuple):
    """How a question was asked, as far as certificates demand anything of that.

    Attributes:
        procedure: risk, samples, vote, thinking budget and kind.
        temperature: that it names; None for the engine's.
        top_p: that it names; None for the engine's.
        seed: of its sampling; None without one.
        departures: why its conversation or its schema is not the profile's.
    """

    procedure: ServedProcedure
    temperature: float | None
    top_p: float | None
    seed: int | None
    departures: tuple[str, ...]

    @classmethod
    def of(cls, question: Question, asked: Asked, max_tokens: int) -> Self:
        """How a question is asked; `max_tokens` is its budget if it names none."""
        procedure = ServedProcedure.of_question(question, max_tokens)
        chosen = question.temperature, question.top_p, question.seed
        return cls(procedure, *chosen, asked.departures)

    def departures_from(
        self, certificate: Certificate, certified_samples: Sequence[int] = ()
    ) -> list[str]:
        """How this is not as a certificate demands it, with both values; empty if it is.

        Alpha and risk are left out. So is what only the model's reading of the prompt tells:
        whether the question is familiar (`rlcm_serve.solving.gate.is_familiar`).

        Args:
            certificate: the one that is nearest.
            certified_samples: each n for which the risk has a certificate, to be named.

        Raises:
            CertificateMismatch: the certificate is not servable.
        """
        fitted, certified = fitted_on(certificate), ServedProcedure.of_certificate(certificate)
        asked = self.procedure
        values = {
            "n": (asked.samples, certified.samples),
            "vote": (asked.vote, certified.vote),
            "max_tokens": (asked.max_tokens, certified.max_tokens),
            "temperature": (self.temperature, fitted.temperature),
            "top_p": (self.top_p, fitted.top_p),
        }
        if 1 in values["n"]:
            del values["vote"]
        found = [
            f"{name} is {_shown(value)}, the certified value is {_shown(wanted)}"
            for name, (value, wanted) in values.items()
            if value not in (None, wanted)
        ]
        if asked.samples != certified.samples and len(certified_samples) > 1:
            *others, most = map(str, sorted(certified_samples))
            several = f"{', '.join(others)} and {most}"
            found[0] = f"n is {asked.samples}, the certified values are {several}"
        if self.seed is not None:
            found.append(f"seed is {self.seed}; certificates assume unseeded sampling")
        return [*found, *_other_kind(certificate, asked.kind), *self.departures]


def ask_under(question: Question, profiles: Sequence[Profile]) -> Asked:
    """Finds the profile of a question; `profiles` has the default one.

    A question's own system prompt may be the profile's, and its text may be in the profile's
    template already. Then nothing is added twice.

    Raises:
        RequestRefused: the question names a profile that is not among these.
    """
    own = _own_system_prompt(question)
    profile, departure = _choose(question.profile, own, profiles)
    is_profiles = own is None or profile.has_system_prompt(own)
    before = question.context if own is None or not is_profiles else question.context[1:]
    turns = [message for message in before if message.role is not Role.SYSTEM]
    departures = [departure] if departure else []
    if len(before) - len(turns) > (not is_profiles):
        departures.append("there is a system prompt inside the conversation; put it first")
    if turns:
        departures.append("the conversation has several turns; certificates assume one question")
    if question.schema not in (None, profile.schema_text):
        departures.append(
            f"its response_format is not that of the profile {profile.name!r}, which has "
            f"{'none' if profile.schema is None else 'another schema'}"
        )
    *system, turn = profile.messages(question.text)
    messages = (*(system if is_profiles else ()), *before, turn)
    return Asked(profile, messages, tuple(departures))


def _own_system_prompt(question: Question) -> str | None:
    """The system prompt at the start of a question's conversation."""
    first = question.context[0] if question.context else None
    return first.content if first is not None and first.role is Role.SYSTEM else None


def _choose(
    name: str | None, own: str | None, profiles: Sequence[Profile]
) -> tuple[Profile, str | None]:
    """The profile of this name or system prompt, and why the system prompt is not its own."""
    by_name = {profile.name: profile for profile in profiles}
    if name is not None:
        if name not in by_name:
            raise unknown_profile(name, profiles)
        chosen = by_name[name]
        if own is None or chosen.has_system_prompt(own):
            return chosen, None
        return chosen, f"its system prompt is not that of the profile {name!r}: leave it out"
    default = by_name[DEFAULT_NAME]
    if own is None:
        return default, None
    match [profile for profile in profiles if profile.has_system_prompt(own)]:
        case [only]:
            return only, None
        case []:
            return default, (
                "no profile here has its system prompt; put it into a profile, and "
                "calibrate that one with `rlcm collect --profile FILE` and `rlcm fit`"
            )
        case several:
            names = " and ".join(repr(profile.name) for profile in several)
            return default, f"its system prompt is that of {names}: name one of them in `profile`"


def _other_kind(certificate: Certificate, kind: str | None) -> list[str]:
    """Why a question is not of the kind of a certificate, or of none among its calibration's."""
    if certificate.kind is None:
        return []
    if certificate.about not in (None, kind):
        asked = "not named" if kind is None else repr(kind)
        return [f"kind is {asked}, the certified value is {certificate.about!r}"]
    known = (*certificate.kind.certified, *certificate.kind.pooled)
    if kind is None or kind in known:
        return []
    return [f"kind is {kind!r}, and the calibration problems were of the kinds {named(known)}"]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
