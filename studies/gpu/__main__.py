"""Measures what only a GPU can tell: `python -m studies.gpu [--out DIR] [--minutes M]`.

    python -m studies.gpu [--part NAME] [--minutes 9] [--tiny] [--smoke]

Runs every part that is not done yet, each in a process of its own and for at most nine minutes, and
writes `report.json` and `report.md` after each. A run that was cut off continues where it stopped.
With `--minutes`, a further part begins only if it fits; run the command again for the rest.
`--tiny` tries the same on a CPU, and says on the page that its figures mean nothing. The exit
status is 0 once all parts are done.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from studies.gpu.machine import Machine
from studies.gpu.page import page
from studies.gpu.parts import PARTS, TINY_PARTS, Part
from studies.gpu.report import Outcome, Report, State, run
from studies.smoke import study_parser

Run = Callable[[Part, Path], Outcome]


def main() -> int:
    """Prints what came of each part, and what is missing."""
    parser = study_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/gpu-report"))
    parser.add_argument("--part", action="append", help="only this part; may be repeated")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for this run")
    parser.add_argument("--tiny", action="store_true", help="try the report itself, on a CPU")
    options = parser.parse_args()
    is_rehearsal = options.tiny or options.smoke
    parts = TINY_PARTS if is_rehearsal else PARTS
    chosen = [part for part in parts if not options.part or part.name in options.part]
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            return measure(Path(folder), chosen[:1], chosen[:1], is_rehearsal=True)
    return measure(options.out, parts, chosen, is_rehearsal, 60 * options.minutes)


def measure(
    folder: Path,
    parts: Sequence[Part],
    chosen: Sequence[Part],
    is_rehearsal: bool,
    seconds: float = float("inf"),
    run_part: Run = run,
) -> int:
    """Runs the chosen parts that are not done; 0 once all parts are done.

    Args:
        folder: of the report.
        parts: of the whole report.
        chosen: those to run now.
        is_rehearsal: whether inputs are tiny.
        seconds: for this run.
        run_part: runs one part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    report = Report.resumed(folder, Machine.of_this(), is_rehearsal)
    begun = 0
    for part in report.missing(chosen):
        why = report.cannot_run(part)
        if not why and begun and time.monotonic() - began + part.seconds > seconds:
            break
        begun += not why
        outcome = Outcome(State.NOT_RUN, why) if why else run_part(part, folder)
        report.outcomes[part.name] = replace(outcome, commit=report.machine.commit)
        _write(report, folder, parts)
        print(f"{part.name}: {outcome.state} {outcome.why}".rstrip(), flush=True)
    _write(report, folder, parts)
    missing = report.missing(parts)
    print(f"{folder / 'report.md'}: {len(parts) - len(missing)} of {len(parts)} parts are done")
    for part in missing:
        print(f"missing: {part.name}")
    return int(bool(missing))


def _write(report: Report, folder: Path, parts: Sequence[Part]) -> None:
    report.write(folder)
    (folder / "report.md").write_text(page(report, parts))


if __name__ == "__main__":
    sys.exit(main())
