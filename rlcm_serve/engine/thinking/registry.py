"""The formats by name: those that ship, and those of other packages (entry points)."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from rlcm_serve.engine.thinking.base import NONE, ThinkingFormat
from rlcm_serve.engine.thinking.harmony import HarmonyFormat
from rlcm_serve.engine.thinking.tags import TagFormat
from rlcm_serve.errors import ModelRefused

ENTRY_POINTS = "rlcm.thinking_formats"
"""Group of entry points; each names a `ThinkingFormat`, or a class that makes it."""

_SHIPPED: tuple[ThinkingFormat, ...] = (
    TagFormat("deepseek_r1", "<think>", "</think>"),
    HarmonyFormat(),
    TagFormat("mistral", "[THINK]", "[/THINK]"),
    TagFormat("seed_oss", "<seed:think>", "</seed:think>"),
    TagFormat("gemma4", "<|channel>", "<channel|>", label="thought\n", instructions=("<|think|>",)),
    TagFormat(
        "cohere_command3",
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        before_answer="<|START_RESPONSE|>",
    ),
    TagFormat("minimax_m3", "<mm:think>", "</mm:think>"),
    NONE,
)
ALIASES = dict.fromkeys(
    (
        *("deepseek_v3", "qwen3", "glm45", "glm47", "nemotron_v3", "kimi_k2", "minimax_m2"),
        *("mimo", "holo2", "step3", "step3p5", "olmo3"),
    ),
    "deepseek_r1",
)
"""Names of vLLM's reasoning parsers that read `<think>` and `</think>`, as `deepseek_r1` does.

vLLM's parsers differ in who opens the thinking; here the rendered prompt says that.
"""


@cache
def available_formats() -> dict[str, ThinkingFormat]:
    """Every format by its own name; a shipped one is never replaced.

    Raises:
        ModelRefused: another package's format cannot be loaded, or is none.
    """
    formats = {one.name: one for one in _SHIPPED}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            loaded = point.load()
            found = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:  # whatever the other package raises
            raise ModelRefused(
                f"the thinking format {point.name!r} ({point.value}) cannot be loaded: {error}"
            ) from error
        if not isinstance(found, ThinkingFormat):
            raise ModelRefused(
                f"the thinking format {point.name!r} ({point.value}) is {found!r}: the entry point "
                "must name a rlcm_serve.engine.thinking.ThinkingFormat"
            )
        formats.setdefault(found.name, found)
    return formats


def format_named(name: str) -> ThinkingFormat:
    """The format with this name, or with this alias.

    Raises:
        ModelRefused: there is none.
    """
    formats = available_formats()
    found = formats.get(ALIASES.get(name, name))
    if found is None:
        raise ModelRefused(
            f"there is no thinking format {name!r}: give one of {', '.join([*formats, *ALIASES])}"
        )
    return found
