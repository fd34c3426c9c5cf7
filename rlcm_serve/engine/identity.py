"""The identity of an engine, as certificates record it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlcm_serve.answers.extraction import extractor_named
from rlcm_serve.core import Budget, Sampling, Signal
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import ModelFiles, chat_template_digest
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.worker.signals import definition
from rlcm_serve.errors import ModelRefused
from rlcm_serve.profiles.profile import Profile

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_THINKING_TOKENS = 8192  # RLCM App. B
_ANSWER_TOKENS = 256
_INTERVAL = 500  # RLCM App. B


_CHANGES_PROMPT = {"system", "template", "variables", "thinking"}
"""Parts of a profile with which another prompt is read."""


def default_text(
    settings: EngineSettings, files: ModelFiles, tokenizer: PreTrainedTokenizerBase
) -> ModelText:
    """The text of the default profile.

    If its thinking format cannot be told, it is the one that the other profiles name.

    Raises:
        ModelRefused: as `ModelText`.
    """
    try:
        return ModelText(files, tokenizer, thinking=settings.thinking)
    except ModelRefused:
        named = {one.thinking for one in settings.profiles} - {None}
        if settings.thinking or len(named) != 1:
            raise
        return ModelText(files, tokenizer, thinking=named.pop())


def identify(settings: EngineSettings, files: ModelFiles, text: ModelText) -> EngineIdentity:
    """Each value comes from the settings, else from the model's files, else from the defaults."""
    own = files.generation
    of_probe = files.probe.checkpoint_interval if files.probe else None
    interval = _first(settings.interval, of_probe, _INTERVAL)
    return EngineIdentity(
        model=files.model_digest(),
        probe=files.probe_digest()
        if settings.confidence == Signal.PROBE
        else definition(Signal(settings.confidence), interval),
        tokenizer=files.tokenizer_digest(),
        chat_template=chat_template_digest(text.tokenizer),
        checkpoint_interval=interval,
        sampling=Sampling(
            temperature=_first(settings.temperature, own.get("temperature"), 1.0),
            top_p=_first(settings.top_p, own.get("top_p"), 1.0),
        ),
        budget=Budget(
            thinking=_first(settings.max_tokens, own.get("max_new_tokens"), _THINKING_TOKENS),
            answer=_first(settings.answer_max_tokens, own.get("answer_max_tokens"), _ANSWER_TOKENS),
        ),
        forced_suffix=text.suffix_text,
        thinking=text.format.name,
        ends=",".join(map(str, text.other_ends)),
        familiarity=files.familiarity_digest(),
        familiarity_cutoff=files.familiarity.cutoff if files.familiarity else 0.0,
    )


def identify_under(
    profile: Profile, default: EngineIdentity, text: ModelText, answer_max_tokens: int | None = None
) -> EngineIdentity:
    """The identity under a profile: what the profile does not say is as `default` has it.

    The familiarity reading was fitted to the prompts of the default profile. A profile with other
    prompts has none. If neither the profile nor the settings limit answers, an extractor whose
    answers need more tokens than the default gets them.

    Args:
        profile: how questions are asked.
        default: the identity under the default profile.
        text: the model's, under the profile.
        answer_max_tokens: as in the engine's settings.

    Raises:
        ProfileRefused: there is no such extractor.
    """
    sampling, budget = default.sampling, default.budget
    needed = extractor_named(profile.extractor).answer_tokens or 0
    reads = not (set(profile.to_json()) & _CHANGES_PROMPT or profile.adapter)
    return replace(
        default,
        profile=profile,
        thinking=text.format.name,
        familiarity=default.familiarity if reads else "",
        familiarity_cutoff=default.familiarity_cutoff if reads else 0.0,
        forced_suffix=text.suffix_text,
        sampling=Sampling(
            temperature=_first(profile.temperature, sampling.temperature),
            top_p=_first(profile.top_p, sampling.top_p),
            top_k=_first(profile.top_k, sampling.top_k),
            min_p=_first(profile.min_p, sampling.min_p),
        ),
        budget=Budget(
            thinking=_first(profile.max_tokens, budget.thinking),
            answer=_first(profile.answer_max_tokens, answer_max_tokens, max(needed, budget.answer)),
        ),
    )


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
