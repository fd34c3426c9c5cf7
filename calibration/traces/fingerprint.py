"""What a calibration depends on: a change of any part makes its certificate invalid."""

from collections.abc import Container, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self, get_type_hints

from calibration.errors import CalibrationError

MOST_COUNTED = 2**40
"""Tokens, samples and rollouts up to here can be added up as whole numbers of 64 bits."""
VOTES = ("confidence", "majority")
"""How samples may be merged: weighted by the confidence at the stop, or one vote each."""


class Effect(StrEnum):
    """What a difference between a certificate's fingerprint and the engine's means."""

    REFUSES = "refuses"
    """Another setup: the certificate is refused."""
    VOIDS = "voids"
    """The same setup computes other numbers: answers have no guarantee."""
    WARNS = "warns"
    """The same numbers up to rounding: answers have the guarantee, and the service warns."""


EFFECTS = {
    "dtype": Effect.VOIDS,
    "quantization": Effect.VOIDS,
    "kv_cache_dtype": Effect.VOIDS,
    "overrides": Effect.VOIDS,
    "attention_backend": Effect.WARNS,
    "vllm": Effect.WARNS,
    "model_runner": Effect.WARNS,
    "device": Effect.WARNS,
    "speculation": Effect.WARNS,
    "lossy_speculation": Effect.VOIDS,
}
"""What a difference in each part does; for a part that is not named, `Effect.REFUSES`."""


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
        system_prompt: digest of the system prompt.
        user_template: digest of the text around the question.
        template_variables: the chat template's variables, as canonical JSON.
        thinking: the name of the thinking format, chosen or detected; "" if it was not recorded.
        top_k: tokens that sampling considers; 0 for all.
        min_p: lowest probability that sampling considers, relative to the likeliest token's.
        extractor: how the answer is found in the text.
        answer_schema: digest of the JSON schema of the answer.
        adapter: digest of the LoRA adapter.
        ends: ids of the tokens that end a text beside the tokenizer's own, by commas.
        familiarity: digest of the familiarity reading; "" without one.
        familiarity_cutoff: a question passes if its p-value is above it.
        dtype: data type of weights and computation, such as "bfloat16".
        quantization: of the weights, such as "fp8"; "" for none.
        kv_cache_dtype: data type of the KV cache.
        overrides: vLLM's settings that change the model, as canonical JSON; "" for none.
        attention_backend: vLLM's, such as "FLASH_ATTN"; several are joined by "+".
        vllm: minor version of vLLM, such as "0.31".
        model_runner: vLLM's, "v1" or "v2".
        device: kind of device, such as "cpu" or "cuda (NVIDIA H100 80GB HBM3)".
        speculation: how tokens are drafted, such as "draft_model, 3 tokens, standard"; "" for no
            drafts. The rollouts have the same distribution as without.
        lossy_speculation: the same where drafts change the distribution.

    The last ten are facts that the running vLLM reported; `EFFECTS` says what a difference in
    them does. A part with a default is left out of files where it has that value. So files that
    were written before there was such a part stay readable, and keep their digests.

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
    system_prompt: str = ""
    user_template: str = ""
    template_variables: str = ""
    thinking: str = ""
    top_k: int = 0
    min_p: float = 0.0
    extractor: str = "boxed"
    answer_schema: str = ""
    adapter: str = ""
    ends: str = ""
    familiarity: str = ""
    familiarity_cutoff: float = 0.0
    dtype: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""
    overrides: str = ""
    attention_backend: str = ""
    vllm: str = ""
    model_runner: str = ""
    device: str = ""
    speculation: str = ""
    lossy_speculation: str = ""

    def __post_init__(self) -> None:
        for name, expected in get_type_hints(type(self)).items():
            value = getattr(self, name)
            accepted = (int, float) if expected is float else expected
            if isinstance(value, bool) or not isinstance(value, accepted):
                raise CalibrationError(
                    f"fingerprint: {name} is {value!r}, not a {expected.__name__}"
                )
        for name in ("checkpoint_interval", "max_tokens", "answer_max_tokens", "samples"):
            if not 1 <= getattr(self, name) <= MOST_COUNTED:
                raise CalibrationError(
                    f"fingerprint: {name} is {getattr(self, name)}: give 1 or more, and at most "
                    f"{MOST_COUNTED}"
                )
        if self.vote not in VOTES:
            raise CalibrationError(f"fingerprint: vote is {self.vote!r}: give one of {VOTES}")

    @property
    def is_gated(self) -> bool:
        """Whether unfamiliar questions are told apart, and get no guarantee."""
        return self.familiarity != ""

    def differing(
        self, other: Self, effects: Container[Effect] = (Effect.REFUSES, Effect.VOIDS)
    ) -> tuple[str, ...]:
        """The names of the parts that differ, of those where a difference has these effects."""
        return tuple(
            field.name
            for field in fields(self)
            if EFFECTS.get(field.name, Effect.REFUSES) in effects
            and getattr(self, field.name) != getattr(other, field.name)
        )

    def differences(
        self, other: Self, effects: Container[Effect] = (Effect.REFUSES, Effect.VOIDS)
    ) -> list[str]:
        """One line per part that differs, with this fingerprint's value first; [] if none does.

        Of a digest it says only whether there is one: the digits tell people nothing.
        """
        return [
            f"{name}: "
            f"{_both(getattr(self, name), getattr(other, name), is_digest=name in _DIGESTS)}"
            for name in self.differing(other, effects)
        ]

    def to_json(self) -> dict[str, Any]:
        """The parts as plain strings and numbers, without those that have their default value."""
        parts = asdict(self)
        return {name: part for name, part in parts.items() if part != _DEFAULTS.get(name, MISSING)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The fingerprint from the values of `to_json`.

        Raises:
            CalibrationError: a part is missing, unknown or out of range.
        """
        names = {field.name for field in fields(cls)}
        if odd := sorted((names ^ set(values)) - (names & set(_DEFAULTS))):
            raise CalibrationError(f"fingerprint: missing or unknown fields {odd}")
        return cls(**values)


_DEFAULTS = {
    field.name: field.default for field in fields(Fingerprint) if field.default is not MISSING
}
_DIGESTS = ("system_prompt", "user_template", "answer_schema", "adapter")
"""Parts that most models do without, as digests."""


def _both(mine: Any, theirs: Any, *, is_digest: bool) -> str:
    if not is_digest:
        return f"{_shown(mine)} here, {_shown(theirs)} there"
    if mine and theirs:
        return "one here, another there"
    return "one here, none there" if mine else "none here, one there"


def _shown(value: Any) -> str:
    return "none" if value == "" else repr(value)
