"""What a model's files say, before vLLM is asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlcm_serve.core import Budget, Message, Role, Signal
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.diagnosis.findings import Findings, Refused
from rlcm_serve.engine.identity import default_text, identify
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import ModelFiles, load_tokenizer, resolve_model, spare_ids
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.thinking.base import NONE
from rlcm_serve.engine.weights.adapters import Adapter, require_match
from rlcm_serve.profiles.profile_file import find_profiles, load_profiles

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NO_PROBE = (
    "train one with `rlcm train probe --model DIR --data problems.jsonl`, or take confidence from "
    "the tokens alone with `--confidence sequence-probability`"
)
_SHOWN = 160
"""Characters of a prompt that are shown."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was read of a model whose files can be served.

    Its settings have the profiles in the model's folder, too.
    """

    settings: EngineSettings
    files: ModelFiles
    text: ModelText
    identity: EngineIdentity
    adapters: tuple[Adapter, ...]


def examine_model(settings: EngineSettings, findings: Findings) -> Examined:
    """Reads the model's files as the service does, and notes what it finds.

    Raises:
        Refused: vLLM need not be asked; the reason is noted.
    """
    with findings.refusing("model", "give the folder of a model that transformers can load"):
        folder = resolve_model(settings.model)
        files = ModelFiles.read(folder)
        findings.fine(
            "model",
            f"{files.architecture} in {folder}: states of {files.hidden_size}, vocabulary of "
            f"{files.vocabulary} ids, context of {files.context or 'unknown'} tokens",
        )
    if settings.probe is not None:
        remedy = "give a folder that `rlcm train probe` wrote for this model, or leave --probe out"
        with findings.refusing("probe", remedy):
            files = ModelFiles.read(folder, settings.probe)
    settings = _with_own_profiles(settings, folder, findings)
    tokenizer = _tokenizer(files, findings)
    with findings.refusing("stop ids", "enlarge the embedding by two rows"):
        high, low = spare_ids(tokenizer, files.vocabulary)
        findings.fine("stop ids", f"{high} and {low} stand for nothing and signal exits")
    with findings.refusing("thinking format", "name the format with `--thinking FORMAT`"):
        text = default_text(settings, files, tokenizer)
    _note_text(text, findings)
    _note_probe(settings, files, findings)
    _note_familiarity(files, findings)
    identity = identify(settings, files, text)
    _note_budget(identity, files, text, findings)
    return Examined(settings, files, text, identity, _adapters(settings, files, text, findings))


def _with_own_profiles(
    settings: EngineSettings, folder: Path, findings: Findings
) -> EngineSettings:
    """The settings with the profiles in the model's folder; a given one stands for its namesake."""
    with findings.refusing("profiles", "change the file, or move it away"):
        own = load_profiles(find_profiles(folder))
    given = {profile.name for profile in settings.profiles}
    others = (profile for profile in own if profile.name not in given)
    return replace(settings, profiles=(*others, *settings.profiles))


def _tokenizer(files: ModelFiles, findings: Findings) -> PreTrainedTokenizerBase:
    with findings.refusing("tokenizer", "copy the tokenizer's files there"):
        tokenizer = load_tokenizer(files.folder)
    if not tokenizer.chat_template:
        findings.refuse(
            "chat template",
            "the tokenizer has none",
            "add chat_template.jinja to the folder, or serve a model that was trained for "
            "conversations",
        )
        raise Refused
    return tokenizer


def _note_text(text: ModelText, findings: Findings) -> None:
    prompt = text.prompt([Message(Role.USER, "QUESTION")])
    shown = repr(text.tokenizer.decode(prompt))
    findings.fine("chat template", shown if len(shown) <= _SHOWN else f"...{shown[-_SHOWN:]}")
    how = "named" if text.named else "detected"
    if text.format is NONE:
        findings.note(
            "thinking format",
            f"none ({how}): the whole completion is read, and a forced answer closes no thinking",
            "if the model marks its thinking, name the format with `--thinking FORMAT`",
        )
    else:
        findings.fine(
            "thinking format", f"{text.format.name} ({how}): {text.format.end!r} ends the thinking"
        )
    ends = ", ".join(repr(text.tokenizer.decode([id_])) for id_ in sorted(text.end_ids))
    findings.fine("ends of text", ends)


def _note_probe(settings: EngineSettings, files: ModelFiles, findings: Findings) -> None:
    if settings.confidence != Signal.PROBE:
        findings.fine("confidence", f"{settings.confidence}, from the probabilities of the tokens")
        return
    if files.probe is None:
        findings.refuse("probe", f"{files.folder} holds no probe", _NO_PROBE)
        return
    inputs = " and ".join(files.probe.inputs)
    findings.fine(
        "probe",
        f"{files.probe_folder} reads {inputs}, by default every "
        f"{files.probe.checkpoint_interval} tokens{_auroc(files)}",
    )


def _auroc(files: ModelFiles) -> str:
    """The AUROC on problems that the probe's fit did not use, where its card has it."""
    card = files.probe_folder / "metrics.json"
    try:
        found = json.loads(card.read_text("utf-8"))["validation"]["auroc"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"; AUROC {found:.3f} on validation problems" if isinstance(found, float) else ""


def _note_familiarity(files: ModelFiles, findings: Findings) -> None:
    if files.familiarity is None:
        findings.note(
            "familiarity",
            "no reading: questions unlike the calibration's are not recognised",
            "fit one with `rlcm train familiarity` before traces are recorded",
        )
    else:
        findings.fine(
            "familiarity",
            f"questions with a p-value of at most {files.familiarity.cutoff:.3g} are unfamiliar",
        )


def _note_budget(
    identity: EngineIdentity, files: ModelFiles, text: ModelText, findings: Findings
) -> None:
    budget, sampling = identity.budget, identity.sampling
    findings.fine(
        "generation",
        f"a reading every {identity.checkpoint_interval} tokens, thinking of at most "
        f"{budget.thinking}, answers of at most {budget.answer}; temperature "
        f"{sampling.temperature:g}, top-p {sampling.top_p:g}",
    )
    if files.context is not None:
        note_context("context", files.context, identity.budget, text, findings)


def note_context(
    topic: str, context: int, budget: Budget, text: ModelText, findings: Findings
) -> None:
    """Notes whether a question fits into a context (tokens) at full budget."""
    room = context - budget.thinking - budget.answer - text.suffix_tokens - 2
    shortest = len(text.prompt([Message(Role.USER, "1")]))
    if room < shortest:
        findings.refuse(
            topic,
            f"thinking ({budget.thinking}) and answer ({budget.answer}) do not fit into {context} "
            f"tokens together with a prompt, which has {shortest} or more",
            "lower the budget with `--max-tokens`",
        )
    else:
        findings.fine(topic, f"leaves {room} tokens for the prompt at full budget")


def _adapters(
    settings: EngineSettings, files: ModelFiles, text: ModelText, findings: Findings
) -> tuple[Adapter, ...]:
    found = {}
    for profile in settings.profiles:
        topic = f"profile {profile.name}"
        with findings.refusing(topic, "change the profile, or leave it out"):
            text.under_profile(profile)
            if profile.adapter is not None:
                adapter = Adapter.read(profile.adapter)
                require_match(adapter, files.folder)
                found[adapter.digest] = adapter
            lora = f", with the LoRA adapter {profile.adapter}" if profile.adapter else ""
            findings.fine(topic, f"fits the chat template{lora}")
    return tuple(found.values())
