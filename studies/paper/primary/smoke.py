"""A primary comparison small enough to try."""

from __future__ import annotations

import re
from pathlib import Path

from studies.paper.primary.design import CONFIG
from studies.paper.primary.problems import write_problems
from studies.paper.primary.running import PrimaryStudy


def smoke_study(folder: Path) -> PrimaryStudy:
    """A study of one step, and of the first problems of each file, in a temporary folder."""
    write_problems(folder / "problems")
    for path in (folder / "problems").iterdir():
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    config = folder / "smoke.toml"
    config.write_text(_with(_with(CONFIG.read_text(), "steps", 1), "max_tokens", 64))
    return PrimaryStudy(config, folder / "problems", folder / "out", folder / "results", rollouts=2)


def _with(toml: str, key: str, value: int) -> str:
    """The same settings but for one number, which stands once."""
    text, count = re.subn(rf"^{key} = \d+", f"{key} = {value}", toml, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{key} stands {count} times in the settings: expected once")
    return text
