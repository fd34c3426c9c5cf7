"""Questions in a file, read one by one, so that a file may be larger than the memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rlcm_serve.core import Question
from rlcm_serve.recording.json_lines import parse_lines, parse_rows
from rlcm_serve.recording.problems import digest_text

_REMEDY = "each line is a JSON object with 'problem' and, if it is known, 'answer'"


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """One line of the file: a problem and, if it is known, the reference answer."""

    id: str
    problem: str
    answer: str | None = None
    kind: str | None = None

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """The question of one line. Without an id, the id is a digest of the problem.

        Raises:
            ValueError: `problem` is not a text, or is empty.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        problem = row.get("problem")
        if not isinstance(problem, str) or not problem.strip():
            raise ValueError(f"'problem' is {problem!r}: give it a text")
        id_, answer, kind = row.get("id"), row.get("answer"), row.get("kind")
        return cls(
            id=digest_text(problem) if id_ is None else str(id_),
            problem=problem,
            answer=None if answer is None else str(answer),
            kind=None if kind is None else str(kind),
        )

    def under(self, settings: Question) -> Question:
        """The question with these settings; its own kind replaces that of the settings."""
        return replace(settings, text=self.problem, kind=self.kind or settings.kind)


class QuestionFile:
    """JSON Lines with `problem` and, optionally, `id`, `answer` and `kind` in each line.

    It is read once to check every line, and again whenever it is iterated. Only the ids are held in
    memory, and only for the check.

    Attributes:
        count: its questions, at least one.
        digest: SHA-256 of ids, problems, answers and kinds, shortened to 16 hexadecimal digits.

    Raises:
        RequestRefused: a line is malformed, or an id comes twice; the message names the line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0
        content = hashlib.sha256(b"[")
        with path.open("rb") as file:
            for one in parse_rows(file, str(path), "file", FileQuestion.from_json, _REMEDY):
                kind = [] if one.kind is None else [one.kind]
                values = json.dumps([one.id, one.problem, one.answer, *kind])
                content.update(f"{', ' if self.count else ''}{values}".encode())
                self.count += 1
        content.update(b"]")
        self.digest = content.hexdigest()[:16]

    def __iter__(self) -> Iterator[FileQuestion]:
        with self._path.open("rb") as file:
            for _, question in parse_lines(file, FileQuestion.from_json):
                yield question
