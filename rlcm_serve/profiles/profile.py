"""A prompt profile: system prompt, user template, template variables, sampling and budgets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from calibration.canonical import canonical_json
from rlcm_serve.core import Message, Role
from rlcm_serve.errors import ProfileRefused, RequestRefused
from rlcm_serve.profiles.parts import ACCEPTED, PROBLEM

DEFAULT_NAME = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Profile:
    """How a model is asked. None means what the settings and the model's files say.

    A certificate is for one profile: another prompt, template or sampling is another procedure.

    Attributes:
        name: by which requests choose it. It changes no number, so certificates do not name it.
        system: the system prompt, byte for byte.
        template: the user's message, with `{problem}` in the place of the question.
        variables: of the model's chat template, such as `enable_thinking`.
        thinking: the thinking format; None detects it.
        temperature: sampling temperature; 0 is greedy.
        top_p: nucleus sampling mass.
        top_k: tokens that sampling considers; 0 and None consider all.
        min_p: lowest probability that sampling considers, relative to the likeliest token's;
            None means 0.
        max_tokens: thinking budget of one sample, tokens.
        answer_max_tokens: most tokens of a forced answer; the model's own may also use what is left
            of the thinking budget.
        extractor: how the answer is found in the text: `boxed`, `answer-line`, `text`, `code`,
            `regex:PATTERN`, `json:FIELD` or `module:object`.
        grader: which answers are equal: `math`, `choice`, `exact` or `module:object`.
        schema: JSON schema that the text of the answer follows.
        adapter: folder of a LoRA adapter.

    Raises:
        ProfileRefused: a value has a wrong type or is out of range.
    """

    name: str = DEFAULT_NAME
    system: str | None = None
    template: str = PROBLEM
    variables: Mapping[str, Any] = field(default_factory=dict, hash=False)
    thinking: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    answer_max_tokens: int | None = None
    extractor: str = "boxed"
    grader: str = "math"
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    adapter: Path | None = None

    def __post_init__(self) -> None:
        for name in PARTS:
            value, (accepts, expected) = getattr(self, name), ACCEPTED[name]
            is_left_out = value is None and _DEFAULTS[name] is None
            if not is_left_out and not accepts(value):
                self._refuse(f"{name} is {_shown(value)}: give {expected}")
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):
            self._refuse(
                f"its name is {_shown(self.name)}: give 1 to 64 letters, digits, '.', '_' and '-', "
                "a letter or a digit first"
            )
        if (found := self.template.count(PROBLEM)) != 1:
            self._refuse(
                f"template is {_shown(self.template)}, with {PROBLEM} {found} times: write "
                f"{PROBLEM} once, where the question goes"
            )

    def _refuse(self, why: str) -> NoReturn:
        raise ProfileRefused(f"profile {self.name!r}: {why}")

    @property
    def digest(self) -> str:
        """SHA-256 of the parts that differ from the default profile's, cut to 16 digits.

        Neither the name nor the adapter's path is among them: both may differ from machine to
        machine. The adapter's weights have a digest of their own.
        """
        return hashlib.sha256(canonical_json(self.to_json())).hexdigest()[:16]

    @property
    def schema_text(self) -> str | None:
        """The schema as canonical JSON; None without one."""
        return None if self.schema is None else canonical_json(dict(self.schema)).decode()

    def to_json(self) -> dict[str, Any]:
        """The parts that differ from the default profile's, as plain values, without the adapter.

        Equal profiles give equal values, also if one says 1 where the other says 1.0.
        """
        parts = {name: _plain(name, getattr(self, name)) for name in PARTS if name != "adapter"}
        return {name: part for name, part in parts.items() if part != _plain(name, _DEFAULTS[name])}

    def fill(self, question: str) -> str:
        """The user's message for a question. One that is in the template already stays in it.

        Space around the template does not count then: the model gets the profile's.
        """
        before, after = self.template.split(PROBLEM)
        inside = _between(before, question, after)
        if inside is None and self.template.strip() != PROBLEM:
            inside = _between(before.lstrip(), question.strip(), after.rstrip())
        return f"{before}{question if inside is None else inside}{after}"

    def messages(self, question: str) -> tuple[Message, ...]:
        """The conversation that asks a question: the system prompt, if any, and the user's turn."""
        turn = Message(Role.USER, self.fill(question))
        return (turn,) if self.system is None else (Message(Role.SYSTEM, self.system), turn)

    def has_system_prompt(self, prompt: str) -> bool:
        """Whether a conversation's own system prompt is this profile's.

        Space around it does not count: the model gets the profile's text.
        """
        return self.system is not None and prompt.strip() == self.system.strip()


def _between(before: str, text: str, after: str) -> str | None:
    """What is between two texts; None if there is nothing, or a text without them."""
    is_within = len(text) > len(before) + len(after)
    if is_within and text.startswith(before) and text.endswith(after):
        return text[len(before) : len(text) - len(after)]
    return None


def unknown_profile(name: str, known: Iterable[Profile]) -> RequestRefused:
    """The refusal of a request that names none of the `known` profiles."""
    names = [profile.name for profile in known]
    remedy = f"give one of {', '.join(names)}"
    if names == [DEFAULT_NAME]:
        remedy = "leave it out, because the service has no profiles"
    return RequestRefused(
        "profile", f"profile is {name[:80]!r}, which is not served here: {remedy}"
    )


PARTS = tuple(ACCEPTED)
"""Everything but the name: what changes the numbers of a certificate."""
_DEFAULTS: dict[str, Any] = {
    one.name: {} if one.name == "variables" else one.default for one in fields(Profile)
}
DEFAULT_PROFILE = Profile()
"""The model as its files have it: no system prompt, the question alone as the user's message."""


def _plain(name: str, value: Any) -> Any:
    """A part as JSON has it. 0.0 is added because -0.0 is another text."""
    if value is not None and name in ("temperature", "top_p", "min_p"):
        return float(value) + 0.0
    return dict(value) if isinstance(value, Mapping) else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
