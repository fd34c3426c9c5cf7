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
from training.folders import require_no_other_model, require_writable
from training.rl.arguments import CHECKPOINTS
from training.rl.settings import RunSettings

SETTINGS = "settings.json"
_PROBLEMS, _HELD_OUT = "problems", "held_out_problems"
"""Names under which it holds the digests of the problems; earlier versions left them out."""
_DIGESTS = (_PROBLEMS, _HELD_OUT)
_CHECKPOINT = re.compile(r"checkpoint-\d+")


def remember(
    settings: RunSettings,
    problems: str,
    out: Path,
    held_out: str | None = None,
    writes: bool = True,
) -> None:
    """Keeps the settings in the run's folder, atomically.

    Args:
        problems, held_out: as of `check_problems`.
        writes: whether this process writes them; of several processes one does.

    Raises:
        TrainingRefused: as `check_folder` and `check_problems`.
    """
    check_folder(settings, out)
    check_problems(problems, out, held_out)
    out.mkdir(parents=True, exist_ok=True)
    if writes:
        content = {_PROBLEMS: problems, _HELD_OUT: held_out, **_as_json(settings)}
        write_text(out / SETTINGS, json.dumps(content, indent=1) + "\n")


def check_folder(settings: RunSettings, out: Path) -> None:
    """Checks that a run may use a folder; creates nothing.

    A run that continues must have the same settings as before. Only `steps` may rise: that extends
    the run, unless λ depends on the number of steps. Settings that an earlier version did not know
    had their defaults.

    Raises:
        TrainingRefused: the folder holds a run with other settings, or a model that is of no run,
            or cannot be written.
    """
    require_writable(out)
    require_no_other_model(out, SETTINGS)
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


def check_problems(problems: str, out: Path, held_out: str | None = None) -> None:
    """Checks that a run that continues has the problems that it began with.

    Args:
        problems: their digest.
        out: the run's folder.
        held_out: the digest of the problems that it is evaluated on; None: not compared.

    Raises:
        TrainingRefused: it has others.
    """
    before = _content(out) if (out / SETTINGS).exists() else {}
    tables = (_PROBLEMS, problems, "data"), (_HELD_OUT, held_out, "evaluation")
    for name, now, table in tables:
        if None not in (now, before.get(name)) and before[name] != now:
            raise TrainingRefused(
                f"{out} holds a run on other problems: those of [{table}] have changed since it "
                "began; restore them to continue, or give another --out to start again"
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
    content = {name: own for name, own in _content(out).items() if name not in _DIGESTS}
    return RunSettings.from_json(content, str(path))


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
