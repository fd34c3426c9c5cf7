"""Reads many answers at once: which are plainly equal, and which need math-verify."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.answers.plain import Kind, plain, tidy

HARD = 3
"""Kind of a text that is not plain; the other kinds are in `Kind`."""
_CANONICAL = "^(0|-?[1-9][0-9]{0,299})$"
"""Integers in canonical form, which need no parsing."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The distinct texts (T) of a batch.

    Attributes:
        text_T: the texts as they were written.
        key_T: number of a text that represents all texts that are plainly equal to it.
        kind_T: a `Kind`, or HARD.
    """

    text_T: pa.LargeStringArray
    key_T: NDArray[np.int64]
    kind_T: NDArray[np.int8]

    @classmethod
    def read(cls, text_T: pa.LargeStringArray) -> Texts:
        """Reads distinct texts."""
        key_T = np.arange(len(text_T))
        kind_T = np.full(len(text_T), Kind.INTEGER, dtype=np.int8)
        canonical_T = pc.match_substring_regex(text_T, _CANONICAL)
        other = np.flatnonzero(~canonical_T.to_numpy(zero_copy_only=False))
        if other.size == 0:
            return cls(text_T, key_T, kind_T)
        number = {}
        if other.size < len(text_T):
            integer_T = text_T.filter(canonical_T).to_pylist()
            number = dict(zip(integer_T, np.flatnonzero(canonical_T).tolist(), strict=True))
        for at, text in zip(other.tolist(), text_T.take(other).to_pylist(), strict=True):
            form = tidy(text)
            seen = plain(form)
            kind_T[at] = HARD if seen is None else seen.kind
            key_T[at] = number.setdefault(form if seen is None else seen.key, at)
        return cls(text_T, key_T, kind_T)

    def take(self, texts: NDArray[np.int64]) -> list[str]:
        """The texts with these numbers."""
        taken: list[str] = self.text_T.take(texts).to_pylist()
        return taken

    def ranks(self) -> NDArray[np.int64]:
        """The alphabetical rank of each text (T)."""
        rank_T = np.empty(len(self.text_T), dtype=np.int64)
        rank_T[pc.array_sort_indices(self.text_T).to_numpy()] = np.arange(len(self.text_T))
        return rank_T
