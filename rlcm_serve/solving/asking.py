"""Which profile a question is asked under, and what the model is given to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rlcm_serve.core import Message, Question, Role
from rlcm_serve.profiles.profile import DEFAULT_NAME, Profile, unknown_profile


class Asked(NamedTuple):
    """A question under a profile.

    Attributes:
        profile: the one that the question names, or whose system prompt it has, or the default.
        messages: the conversation, with the profile's system prompt and template.
        departures: why the conversation is not the profile's; empty if it is.
    """

    profile: Profile
    messages: tuple[Message, ...]
    departures: tuple[str, ...]


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
