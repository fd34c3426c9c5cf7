"""What a calibration depends on: a change of any part makes its certificate invalid."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, get_type_hints

from calibration.errors import CalibrationError

VOTES = ("confidence", "majority")
"""How samples may be merged: weighted by the confidence at the stop, or one vote each."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The model, probe, sampling and grading under which reasoning was recorded.

    Attributes:
        model: digest of the weights and the configuration.
        probe: digest of the probe's folder.
        tokenizer: digest of the tokenizer's files.
        chat_template: digest of the chat template.
        temperature: sampling temperature.
        top_p: nucleus sampling mass.
        checkpoint_interval: N, tokens between two readings of the confidence.
        max_tokens: the reasoning budget, tokens.
        answer_max_tokens: the largest length of a forced answer, tokens.
        forced_suffix: the text that forces an answer.
        grader: name and version, e.g. "math-verify 0.9.0".
        samples: samples per question.
        vote: how samples are merged, "confidence" or "majority".

    Raises:
        CalibrationError: a value has the wrong type or is out of range.
    """

    model: str
    probe: str
    tokenizer: str
    chat_template: str
    temperature: float
    top_p: float
    checkpoint_interval: int
    max_tokens: int
    answer_max_tokens: int
    forced_suffix: str
    grader: str
    samples: int
    vote: str

    def __post_init__(self) -> None:
        for name, expected in get_type_hints(type(self)).items():
            value = getattr(self, name)
            accepted = (int, float) if expected is float else expected
            if isinstance(value, bool) or not isinstance(value, accepted):
                raise CalibrationError(
                    f"fingerprint: {name} is {value!r}, not a {expected.__name__}"
                )
        for name in ("checkpoint_interval", "max_tokens", "answer_max_tokens", "samples"):
            if getattr(self, name) < 1:
                raise CalibrationError(
                    f"fingerprint: {name} is {getattr(self, name)}: give 1 or more"
                )
        if self.vote not in VOTES:
            raise CalibrationError(f"fingerprint: vote is {self.vote!r}: give one of {VOTES}")

    def differences(self, other: Self) -> list[str]:
        """One line per field that differs, with this fingerprint's value first; [] if equal."""
        mine, theirs = asdict(self), asdict(other)
        return [
            f"{name}: {mine[name]!r} here, {theirs[name]!r} there"
            for name in mine
            if mine[name] != theirs[name]
        ]

    def to_json(self) -> dict[str, Any]:
        """The fields as plain strings and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The fingerprint from the values of `to_json`.

        Raises:
            CalibrationError: a field is missing, unknown or out of range.
        """
        names = {field.name for field in fields(cls)}
        if odd := sorted(names ^ set(values)):
            raise CalibrationError(f"fingerprint: missing or unknown fields {odd}")
        return cls(**values)
