"""The identity of an engine, as certificates record it."""

from __future__ import annotations

from typing import Any

from rlcm_serve.core import Budget, Sampling, Signal
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import ModelFiles, chat_template_digest
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.worker.signals import definition

_THINKING_TOKENS = 8192  # RLCM App. B
_ANSWER_TOKENS = 256
_INTERVAL = 500  # RLCM App. B


def identify(settings: EngineSettings, files: ModelFiles, text: ModelText) -> EngineIdentity:
    """Each value comes from the settings, else from the model's files, else from the defaults."""
    own = files.generation
    trained_at = files.probe.checkpoint_interval if files.probe else None
    interval = _first(settings.interval, trained_at, _INTERVAL)
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
    )


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
