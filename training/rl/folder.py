"""The folder of a run: its settings, and the checkpoints from which it continues.

All processes of a run must see the same folder: on several nodes it lies on a shared file system.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calibration.files import write_text
from training.errors import TrainingRefused
from training.folders import require_no_other_model, require_writable
from training.provenance import Session
from training.rl.arguments import CHECKPOINTS
from training.rl.settings import RunSettings

SETTINGS = "settings.json"
FACTS = "training.json"
"""The file that says that the folder holds a whole policy, and how it was trained."""
_SESSION = "session"
_INPUTS = {
    "problems": "on other problems: those of [data]",
    "held_out_problems": "on other problems: those of [evaluation]",
    "base_model": "from another base model: its files",
}
"""Digests that it holds beside the settings, and what has changed if one differs."""
_BESIDE = {*_INPUTS, _SESSION}
_FREE = {"report_to", "engine.server", "engine.memory", "engine.sleeps", "budgets.at_once"}
"""Settings of the machine and of the logs, which change nothing of what is trained."""
_CHECKPOINT = re.compile(r"checkpoint-\d+")
_CHECKPOINTS = ("*checkpoints/checkpoint-*", "*checkpoints/global_step_*")
"""Those of TRL and of veRL; logs may lie beside them."""

Digests = Mapping[str, str | None]
"""Digests of what a run reads, by their names in its folder; None: not known."""


def remember(settings: RunSettings, digests: Digests, out: Path) -> None:
    """Keeps in the run's folder, atomically, what a later session must not change, and who ran."""
    content = {**digests, _SESSION: asdict(Session.now()), **_as_json(settings)}
    write_text(out / SETTINGS, json.dumps(content, indent=1) + "\n")


def check_folder(settings: RunSettings, out: Path) -> None:
    """Checks that a run may use a folder; creates nothing.

    A run that continues must have the same settings as before, except for those of the machine.
    Only `steps` may rise: that extends the run, unless λ depends on the number of steps. Settings
    that an earlier version did not know had their defaults.

    Raises:
        TrainingRefused: the folder holds a run with other settings, or a model that is of no run,
            or cannot be written.
    """
    require_writable(out)
    require_no_other_model(out, SETTINGS)
    if not _has_begun(out):
        return
    before = remembered(out)
    changed = {
        name: values
        for name, values in _differences(_as_json(before), _as_json(settings))
        if name not in _FREE
    }
    if changed.keys() == {"steps"} and settings.steps < before.steps:
        raise TrainingRefused(
            f"{out} holds a run of {before.steps} steps, more than {settings.steps}: give as "
            "many or more, or another --out to start again"
        )
    if changed.keys() == {"steps"} and settings.chosen.ramp is not None:
        raise TrainingRefused(
            f"{out} holds a run of {before.steps} steps, and λ of {settings.method} depends "
            "on their number: give as many, or another --out to start again"
        )
    if changed.keys() - {"steps"}:
        said = ", ".join(
            f"{name} was {was!r} and is {now!r}" for name, (was, now) in changed.items()
        )
        raise TrainingRefused(
            f"{out} holds a run with other settings ({said}): use the same to continue, or another "
            "--out to start again"
        )


def check_inputs(digests: Digests, out: Path) -> None:
    """Checks that a run that continues reads what it began with.

    Args:
        digests: of what it reads now. One that is not known, now or then, is not compared.
        out: the run's folder.

    Raises:
        TrainingRefused: it reads something else.
    """
    before = _content(out) if _has_begun(out) else {}
    for name, now in digests.items():
        if None not in (now, before.get(name)) and before[name] != now:
            raise TrainingRefused(
                f"{out} holds a run {_INPUTS[name]} have changed since it began; restore them to "
                "continue, or give another --out to start again"
            )


def _has_begun(out: Path) -> bool:
    """Whether a run has left a checkpoint: until then, its settings may change."""
    is_run = (out / SETTINGS).exists()
    return is_run and ((out / FACTS).exists() or any(map(any, map(out.glob, _CHECKPOINTS))))


def steps_of_policy(out: Path) -> int | None:
    """The steps that the policy in the folder was trained for; None without a whole policy."""
    try:
        settings = json.loads((out / FACTS).read_text())["settings"]
        return int(settings["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], table: str = ""
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The settings that differ, as `table.name`, with both values."""
    for name in {**before, **now}:
        was, own = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(own, dict):
            yield from _differences(was, own, f"{table}{name}.")
        elif was != own:
            yield f"{table}{name}", (was, own)


def _as_json(settings: RunSettings) -> dict[str, Any]:
    """All settings, as they read after a way through JSON."""
    table: dict[str, Any] = json.loads(json.dumps(settings.to_json(), default=list))
    return table


def remembered(out: Path) -> RunSettings:
    """The settings of a run that was started.

    Raises:
        TrainingRefused: the folder holds no run.
    """
    path = out / SETTINGS
    if not path.exists():
        raise TrainingRefused(f"{out} holds no run: give the --out of an `rlcm train rl`")
    content = {name: own for name, own in _content(out).items() if name not in _BESIDE}
    return RunSettings.from_json(content, str(path))


def last_session(out: Path) -> Session:
    """The code that ran the training last; this process's if the folder does not say."""
    told = _content(out).get(_SESSION) if (out / SETTINGS).exists() else None
    return Session.now() if told is None else Session(**told)


def _content(out: Path) -> dict[str, Any]:
    path = out / SETTINGS
    try:
        content = json.loads(path.read_text())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise TrainingRefused(
            f"{path} is damaged: give another --out to start again, or restore the file to continue"
        )
    return content


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint: a kill may leave a newer one half written."""
    found = checkpoints(folder)
    return found[max(found)] if found else None


def has_ended(settings: RunSettings, last: Path | None) -> bool:
    """Whether the run has taken all its steps at its last checkpoint.

    A trainer that goes on from there would take one more: it looks at the number after each step.
    """
    return last is not None and _step(last) >= settings.steps


def checkpoints(folder: Path) -> dict[int, Path]:
    """The complete checkpoints, by step."""
    return {
        _step(path): path
        for path in folder.glob("checkpoint-*")
        if _CHECKPOINT.fullmatch(path.name) and _state(path) is not None
    }


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def chosen_checkpoint(out: Path, step: str) -> tuple[Path, dict[str, Any]]:
    """A checkpoint of a run, and TRL's state at it.

    Args:
        step: a number of steps, `last`, or `best`: the highest accuracy on held-out problems.

    Raises:
        TrainingRefused: there is no such checkpoint; the message lists those there are.
    """
    found = checkpoints(out / CHECKPOINTS)
    at: int | None = int(step) if step.isdecimal() else None
    if found and step == "last":
        at = max(found)
    elif found and step == "best":
        at = (_state(found[max(found)]) or {}).get("best_global_step")
        if at is None:
            evaluation = remembered(out).evaluation
            why = (
                "was trained without [evaluation]"
                if evaluation is None
                else f"has not been evaluated yet (first at step {evaluation.every})"
            )
            raise TrainingRefused(
                f"{out} {why}, so no checkpoint is known to be best: give --step last, or a number "
                "of steps"
            )
    if at not in found:
        names = ", ".join(str(number) for number in sorted(found)) or "none"
        raise TrainingRefused(
            f"{out} holds no complete checkpoint {step}: its steps are {names}; give one of them"
        )
    return found[at], _state(found[at]) or {}


def _state(checkpoint: Path) -> dict[str, Any] | None:
    """TRL's own state, which it writes last; None if it is missing, half written or damaged."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and "global_step" in state else None
