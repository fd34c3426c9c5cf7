"""The folder of a run: its settings, and the checkpoints from which it continues.

All processes of a run must see the same folder: on several nodes it lies on a shared file system.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from calibration.files import write_text
from training.errors import TrainingRefused
from training.folders import require_writable
from training.rl.arguments import CHECKPOINTS
from training.rl.settings import RunSettings

SETTINGS = "settings.json"
_PROBLEMS = "problems"
"""Name under which it holds the digest of the problems; earlier versions left it out."""
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def remember(settings: RunSettings, problems: str, out: Path, writes: bool = True) -> None:
    """Keeps the settings in the run's folder, atomically.

    Args:
        problems: digest of the problems.
        writes: whether this process writes them; of several processes one does.

    Raises:
        TrainingRefused: as `check_folder` and `check_problems`.
    """
    check_folder(settings, out)
    check_problems(problems, out)
    out.mkdir(parents=True, exist_ok=True)
    if writes:
        content = {_PROBLEMS: problems, **_as_json(settings)}
        write_text(out / SETTINGS, json.dumps(content, indent=1) + "\n")


def check_folder(settings: RunSettings, out: Path) -> None:
    """Checks that a run may use a folder; creates nothing.

    A run that continues must have the same settings as before. Only `steps` may rise: that extends
    the run, unless λ depends on the number of steps. Settings that an earlier version did not know
    had their defaults.

    Raises:
        TrainingRefused: the folder holds a run with other settings, or cannot be written.
    """
    require_writable(out)
    now = _as_json(settings)
    if (out / SETTINGS).exists():
        before = _as_json(remembered(out))
        changed = [name for name in now if now[name] != before.get(name)]
        if changed == ["steps"] and now["steps"] < before["steps"]:
            raise TrainingRefused(
                f"{out} holds a run of {before['steps']} steps, more than {now['steps']}: give as "
                "many or more, or another --out to start again"
            )
        if changed == ["steps"] and settings.chosen.ramp is not None:
            raise TrainingRefused(
                f"{out} holds a run of {before['steps']} steps, and λ of {settings.method} depends "
                "on their number: give as many, or another --out to start again"
            )
        if set(changed) - {"steps"}:
            raise TrainingRefused(
                f"{out} holds a run with other settings ({', '.join(changed)}): use the same to "
                "continue, or another --out to start again"
            )


def check_problems(problems: str, out: Path) -> None:
    """Checks that a run that continues has the problems that it began with.

    Args:
        problems: their digest.
        out: the run's folder.

    Raises:
        TrainingRefused: it has others.
    """
    before = _content(out).get(_PROBLEMS, problems) if (out / SETTINGS).exists() else problems
    if before != problems:
        raise TrainingRefused(
            f"{out} holds a run on other problems: the data have changed since it began; restore "
            "them to continue, or give another --out to start again"
        )


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
    content = _content(out)
    content.pop(_PROBLEMS, None)
    return RunSettings.from_json(content, str(path))


def _content(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / SETTINGS).read_text())
    return content


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint: a kill may leave a newer one half written."""
    found = checkpoints(folder)
    return found[max(found)] if found else None


def checkpoints(folder: Path) -> dict[int, Path]:
    """The complete checkpoints, by step."""
    return {
        int(match.group(1)): path
        for path in folder.glob("checkpoint-*")
        if (match := _CHECKPOINT.fullmatch(path.name)) and _state(path) is not None
    }


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
    """TRL's own state, which it writes last; None if it is missing or half written."""
    try:
        state: dict[str, Any] = json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return None
    return state
