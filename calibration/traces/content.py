"""The content of traces without the names in it: what orders units and seeds random choices.

Names are free to choose. If an order depended on them, whoever names the problems could try names
until a test passes. What was recorded cannot be chosen. Verdicts have no say: a test is valid if
the order of its units does not depend on their losses, and problems that need a label can be found
only if labels change no draw. So names decide between units with equal recordings, and numbers
between equal rollouts of one problem, which a random permutation then mixes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from calibration.traces.traces import Traces


def contents_of(traces: Traces) -> list[bytes]:
    """The content of each rollout (R): a digest of its readings and of how it ended.

    Numbers of answer classes are names, and are left out.
    """
    columns = [
        traces.tokens_RC.astype("<i8"),
        traces.confidence_RC.astype("<f8"),
        traces.answer_tokens_RC.astype("<i8"),
    ]
    if traces.confidence_tokens_RC is not None:
        columns.append(traces.confidence_tokens_RC.astype("<i8"))
    ends = zip(traces.natural_R.tolist(), traces.final_R.tolist(), strict=True)
    return [
        _digest([bytes([natural]), *(column[r, : final + 1].tobytes() for column in columns)])
        for r, (natural, final) in enumerate(ends)
    ]


def joined(contents: Iterable[bytes], index_of: NDArray[np.intp]) -> list[bytes]:
    """One content for each index, of those that have it, in whatever order they come."""
    parts: list[list[bytes]] = [[] for _ in range(int(index_of.max()) + 1)]
    for content, index in zip(contents, index_of.tolist(), strict=True):
        parts[index].append(content)
    return [of_all(part) for part in parts]


def of_all(contents: Iterable[bytes]) -> bytes:
    """One content of many, in whatever order they come."""
    return _digest(sorted(contents))


def ranked(contents: Sequence[bytes]) -> NDArray[np.intp]:
    """The place of each content in their order; equal ones keep theirs."""
    rank = np.empty(len(contents), dtype=np.intp)
    rank[sorted(range(len(contents)), key=contents.__getitem__)] = np.arange(len(contents))
    return rank


def ranked_units(contents: Sequence[bytes], names: Sequence[str]) -> NDArray[np.intp]:
    """The place of each unit in the order of what was recorded.

    Between equal recordings a digest of the names decides.
    """
    digests = (hashlib.sha256(name.encode()).digest() for name in names)
    return ranked([own + digest for own, digest in zip(contents, digests, strict=True)])


def _digest(parts: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()[:16]
