"""Lays siege to a real service with keys on, on loopback: what it survives, in figures.

    python -m studies.serving.siege fuzz [--requests N] [--seed S]
    python -m studies.serving.siege fuzz --seed S --number N    # replays one request
    python -m studies.serving.siege kill [--rounds N]
    python -m studies.serving.siege crowd [--connections N ...] [--seconds S]
    python -m studies.serving.siege soak [--minutes M]
    python -m studies.serving.siege replicas [--rounds N] [--database URL] [--scripted]

Each part stores its figures in `studies/results` while it runs. An interrupted `fuzz` goes on where
it was. `--smoke` is a tiny run of the part.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from studies.serving.siege import crowd, fuzz, kill, replicas, soak
from studies.serving.siege.results import FOLDER, Results
from studies.smoke import study_parser

PARTS: dict[str, Callable[[Results, argparse.Namespace], bool]] = {
    "fuzz": lambda results, asked: fuzz.run(results, asked.requests, asked.seed),
    "kill": lambda results, asked: kill.run(results, asked.rounds),
    "replicas": lambda results, asked: replicas.run(
        results,
        replicas.Plan(asked.rounds, jobs=max(1, asked.rounds // 3)),
        asked.database,
        scripted=asked.scripted,
    ),
    "crowd": lambda results, asked: crowd.run(results, asked.connections, asked.seconds),
    "soak": lambda results, asked: soak.run(
        results, asked.minutes, asked.seed, warm_up=asked.warm_up, every=asked.every
    ),
}
SMOKE = {"requests": 200, "rounds": 2, "connections": [4], "seconds": 4.0}
SMOKE |= {"minutes": 0.1, "warm_up": 2.0, "every": 2.0}


def main() -> bool:
    """Runs the part; returns whether the service survived it."""
    parser = study_parser(__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--requests", type=int, default=100_000, help="of fuzz")
    parser.add_argument("--seed", type=int, default=1, help="of fuzz and soak")
    parser.add_argument("--number", type=int, help="send this request of fuzz alone")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the figures")
    parser.add_argument("--rounds", type=int, default=20, help="of kill and replicas")
    parser.add_argument("--scripted", action="store_true", help="replicas: a scripted engine")
    parser.add_argument("--database", help="of replicas: its URL; by default a new SQLite file")
    parser.add_argument("--connections", type=int, nargs="+", default=[64, 256, 1000])
    parser.add_argument("--seconds", type=float, default=60, help="of each crowd")
    parser.add_argument("--minutes", type=float, default=60, help="of soak")
    parser.add_argument("--warm-up", type=float, default=120, help="of soak, in seconds")
    parser.add_argument("--every", type=float, default=60, help="seconds between samples of soak")
    options = parser.parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):  # shells ignore the first in the background
        signal.signal(ending, signal.default_int_handler)  # so that the service ends as well
    if options.number is not None:
        fuzz.replay(options.seed, options.number)
        return True
    if not options.smoke:
        return PARTS[options.part](Results(options.out), options)
    vars(options).update(SMOKE)
    with tempfile.TemporaryDirectory() as folder:
        return PARTS[options.part](Results(Path(folder)), options)


if __name__ == "__main__":
    sys.exit(not main())
