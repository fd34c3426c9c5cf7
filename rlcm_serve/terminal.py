"""What the command line shows of long work, and where it puts what vLLM says meanwhile."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeElapsedColumn, TimeRemainingColumn


def default_engine_log() -> Path:
    """Where vLLM's output goes unless it is asked for."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "rlcm-serve" / "engine.log"


@contextmanager
def engine_output_to(log: Path | None) -> Iterator[Console]:
    """Sends what this process and those it starts write to stdout and stderr into `log`.

    The processes that vLLM starts meanwhile keep writing there; this one gets its terminal back. The
    console that is yielded writes to the terminal all along. With `log` None nothing is redirected.
    """
    if log is None:
        yield Console(stderr=True)
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("w") as file, os.fdopen(os.dup(kept[1]), "w") as terminal:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield Console(file=terminal, force_terminal=os.isatty(kept[1]) or None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            for descriptor in kept:
                os.close(descriptor)
            logging.getLogger("vllm").setLevel(logging.ERROR)


def progress_bar(console: Console) -> Progress:
    """A bar with counts, elapsed time and time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
