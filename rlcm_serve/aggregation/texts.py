"""Reads many answers at once: which are equal by their keys, and which the grader must compare."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.answers.canonical.reading import Forms, canonical

_INTEGER = "^(0|-?[1-9][0-9]{0,299})$"
"""Integers as they are mostly written, which need no reading."""
_INTEGER_KEY = re.compile("-?[0-9a-f]{1,250}")

Read = Callable[[list[str]], Forms]
"""Reads texts: the canonical form of each, None where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The distinct texts (T) of a batch.

    Attributes:
        text_T: the texts as they were written.
        key_T: number of a text that represents all texts with the same key, which are equal.
        open_T: whether a text may equal texts with other keys, such as `x = 5` and `5`. Of the
            others, texts with different keys are different answers.
        forms: the forms of all texts but integers.
    """

    text_T: pa.LargeStringArray
    key_T: NDArray[np.int64]
    open_T: NDArray[np.bool_]
    forms: Forms

    @classmethod
    def read(cls, text_T: pa.LargeStringArray, read: Read) -> Texts:
        """Reads distinct texts; `read` is called for all but integers."""
        key_T = np.arange(len(text_T))
        open_T = np.zeros(len(text_T), dtype=np.bool_)
        integer_T = pc.match_substring_regex(text_T, _INTEGER)
        other = np.flatnonzero(~integer_T.to_numpy(zero_copy_only=False))
        if other.size == 0:
            return cls(text_T, key_T, open_T, {})
        number: dict[str, int] = {}
        if other.size < len(text_T):
            integers = text_T.filter(integer_T).to_pylist()
            number = dict(zip(integers, np.flatnonzero(integer_T).tolist(), strict=True))
        texts = text_T.take(other).to_pylist()
        forms = read(texts)
        for at, text in zip(other.tolist(), texts, strict=True):
            form = forms[text]
            open_T[at] = form is None or not form.is_rigid
            if form is not None:
                key_T[at] = number.setdefault(_name(form.key), at)
        return cls(text_T, key_T, open_T, forms)

    def take(self, texts: NDArray[np.int64]) -> list[str]:
        """The texts with these numbers."""
        taken: list[str] = self.text_T.take(texts).to_pylist()
        return taken

    def ranks(self) -> NDArray[np.int64]:
        """The alphabetical rank of each text (T)."""
        rank_T = np.empty(len(self.text_T), dtype=np.int64)
        rank_T[pc.array_sort_indices(self.text_T).to_numpy()] = np.arange(len(self.text_T))
        return rank_T


def _name(key: str) -> str:
    r"""The integer that has this key, as it is mostly written; for any other key, a longer text.

    So integers need no reading to be found equal to `7.0` or `\frac{14}{2}`.
    """
    if _INTEGER_KEY.fullmatch(key):
        text = str(int(key, 16))
        form = canonical(text)
        if form is not None and form.key == key:
            return text
    return f"key {key}"
