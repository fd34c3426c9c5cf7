"""Lanes: every test is in exactly one, so that each command runs the tests its name suggests.

A test without a mark is `fast`. One that takes seconds is marked `slow`, or with the name of its
suite, which makes it slow as well. Without `-m` and without paths, pytest runs the fast tests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

SUITES = (
    *("attack", "charts", "docs", "engine", "gpu", "load", "page", "ray", "statistical", "studies"),
    *("training", "verl", "v2"),
)
LANES = ("fast", "slow", *SUITES)


def lane_of(marks: Iterable[str]) -> str:
    """The lane of a test with these marks.

    Raises:
        ValueError: the marks name more than one suite, or a suite and `fast`.
    """
    named = {*marks} & {*LANES}
    lanes = named - {"slow"} or named or {"fast"}
    if len(lanes) > 1 or named == {"fast", "slow"}:
        raise ValueError(f"marked {', '.join(sorted(named))}: a test belongs to one lane")
    return lanes.pop()


def names_paths(arguments: Sequence[str], folder: Path, root: Path) -> bool:
    """Whether the command line names tests: a file, a single test, or a folder within `root`.

    Args:
        arguments: of pytest, without options.
        folder: where pytest was started.
        root: the folder of all tests.
    """
    paths = [(folder / argument.partition("::")[0]).resolve() for argument in arguments]
    return not any(root.is_relative_to(path) for path in paths)


class Collected(Protocol):
    """A collected test, as far as sampling reads it."""

    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Collected)


def sample(tests: Sequence[tuple[str, T]], fraction: float, seed: str) -> tuple[list[T], list[T]]:
    """A share of every lane, at least one test of each: the same for the same seed and tests.

    Args:
        tests: every test with its lane.
        fraction: the share, in (0, 1].
        seed: any text; it and a test's id decide that test's rank.

    Returns:
        The tests of the sample, and the others, both in their order.
    """
    by_lane: dict[str, list[str]] = defaultdict(list)
    for lane, test in tests:
        by_lane[lane].append(test.nodeid)
    kept: set[str] = set()
    for ids in by_lane.values():
        ranked = sorted(ids, key=lambda test_id: sha256(f"{seed} {test_id}".encode()).digest())
        kept.update(ranked[: math.ceil(fraction * len(ranked))])
    chosen = [test for _, test in tests if test.nodeid in kept]
    return chosen, [test for _, test in tests if test.nodeid not in kept]
