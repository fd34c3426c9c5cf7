"""Questions in a file, read one by one, so that a file may be larger than the memory.

Every row of the file has a number, and a row that is no question has the reason. So whatever is
done with the rows, each ends in exactly one row of answers.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from rlcm_serve.core import Question
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import NO_LABEL, digest_text, require_spelt, text_of

PARQUET = ".parquet"
"""Suffix of Parquet files; every other file is JSON Lines."""
LONGEST_LINE = 16 * 2**20
"""Bytes of a line; a longer one is not read into memory."""
_COLUMNS = ("problem", "id", "answer", "kind", "alpha")
_REMEDY = "each row needs `problem`, and may have `id`, `kind` and the correct `answer`"
_AT_ONCE = 1024
"""Rows of Parquet that are in memory at once."""


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """A problem and, if it is known, the reference answer."""

    id: str
    problem: str
    answer: str | None = None
    kind: str | None = None

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """The question of one row. Without an id, the id is a digest of the problem.

        Raises:
            ValueError: `problem` is not a text, or is empty, or a text has half a surrogate pair.
            ValueError: the row has an `alpha`, which would be passed over, or a misspelt `kind`, or
                a list or an object for `id`, `answer` or `kind`.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        problem = row.get("problem")
        if not isinstance(problem, str) or not problem.strip():
            raise ValueError(f"'problem' is {problem!r}: give it a text")
        alpha = row.get("alpha")
        if alpha is not None and alpha == alpha:  # NaN as in a data frame
            raise ValueError(
                f"'alpha' is {alpha!r}, but one accepted risk is for the whole file: give --alpha, "
                "and a file for each alpha"
            )
        require_spelt(row, ("kind",))
        id_, answer, kind = (text_of(row, name) for name in ("id", "answer", "kind"))
        for text in (problem, id_, answer, kind):
            _require_whole_characters(text or "")
        return cls(
            id=id_ or digest_text(problem),
            problem=problem,
            answer=None if (answer or "").strip() in ("", NO_LABEL) else answer,
            kind=kind,
        )

    def under(self, settings: Question) -> Question:
        """The question with these settings; its own kind replaces that of the settings."""
        return replace(settings, text=self.problem, kind=self.kind or settings.kind)


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One row of a file.

    Attributes:
        number: of the row, from 0; blank lines do not count.
        question: None if the row is no question.
        error: why it is none.
    """

    number: int
    question: FileQuestion | None
    error: str | None = None

    @classmethod
    def parse(cls, number: int, row: Any) -> Self:
        """The row with this value: what is in a line of JSON, or in the columns of Parquet."""
        try:
            return cls(number, FileQuestion.from_json(row))
        except ValueError as error:
            return cls(number, None, f"row {number} is not a question: {error}; {_REMEDY}")

    @classmethod
    def parse_line(cls, number: int, line: bytes) -> Self:
        """The row of a line of JSON Lines."""
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"the line has over {LONGEST_LINE} bytes")
            return cls.parse(number, json.loads(line))
        except (ValueError, RecursionError) as error:
            return cls(number, None, f"row {number} is not JSON: {error}; {_REMEDY}")


class QuestionFile:
    """JSON Lines, or Parquet (`.parquet`), with `problem` and maybe `id`, `answer` and `kind`.

    The file is read once for its digest, and again whenever it is iterated. Of Parquet, one row
    group at most is in memory.

    Attributes:
        count: its rows, at least one.
        digest: SHA-256 of the file, shortened to 16 hexadecimal digits.

    Raises:
        RequestRefused: there is no row, or the file is Parquet without a column `problem`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_parquet = path.suffix == PARQUET
        with path.open("rb") as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        if self._is_parquet:
            with _parquet(path) as table:
                self.count = table.metadata.num_rows
        else:
            self.count = sum(1 for _ in self._lines())
        if not self.count:
            raise RequestRefused("file", f"{path} holds no question: {_REMEDY}")

    def __iter__(self) -> Iterator[QuestionRow]:
        if self._is_parquet:
            return map(QuestionRow.parse, itertools.count(), self._rows_of_parquet())
        return map(QuestionRow.parse_line, itertools.count(), self._lines())

    def _rows_of_parquet(self) -> Iterator[dict[str, Any]]:
        with _parquet(self._path) as file:
            columns = [name for name in file.schema_arrow.names if name in _COLUMNS]
            for batch in file.iter_batches(_AT_ONCE, columns=columns):
                yield from batch.to_pylist()

    def _lines(self) -> Iterator[bytes]:
        """The lines that are not blank; of one that is too long, a part that is still too long."""
        with self._path.open("rb") as file:
            while line := file.readline(LONGEST_LINE + 1):
                rest = line
                while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
                    rest = file.readline(LONGEST_LINE + 1)
                if line.strip():
                    yield line


def _require_whole_characters(text: str) -> None:
    """Raises `ValueError` for half a surrogate pair, which no tokenizer and no Parquet takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{text[error.start : error.end]!r} is half a surrogate pair: give whole characters"
        ) from error


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise RequestRefused("file", f"{path} is not Parquet: {error}") from error
    names = file.schema_arrow.names
    try:
        if "problem" not in names:
            raise ValueError(f"there is no column 'problem'; {_REMEDY}")
        require_spelt(names, ("kind",))
    except ValueError as error:
        file.close()
        raise RequestRefused("file", f"{path} holds no questions: {error}") from error
    return file
