"""Where the figures of a siege go."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "studies" / "results"


@dataclass(frozen=True)
class Results:
    """Files `siege-NAME.json` in a folder."""

    folder: Path

    def load(self, name: str) -> dict[str, Any] | None:
        """The stored figures; None if there are none."""
        path = self._path(name)
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def save(self, name: str, figures: dict[str, Any]) -> None:
        """Stores figures in place of earlier ones."""
        path = self._path(name)
        part = path.with_suffix(".part")
        # A logged traceback has paths; those of this checkout are the same for everybody.
        text = json.dumps(figures, indent=1).replace(f"{ROOT}/", "")
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(f"{text}\n")
        part.replace(path)

    def show(self, lines: Iterable[str]) -> None:
        """Prints a table."""
        sys.stdout.write("\n".join(lines) + "\n")

    def _path(self, name: str) -> Path:
        return self.folder / f"siege-{name}.json"
