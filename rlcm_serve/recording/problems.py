"""Problems with their reference answers, as they come in JSONL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Self

from rlcm_serve.errors import RequestRefused


@dataclass(frozen=True, slots=True)
class LabelledProblem:
    """A problem and its reference answer; `group` names a template or source it shares."""

    id: str
    problem: str
    answer: str
    group: str | None = None

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """The problem of one line; without an id, its text makes one.

        So the same problem has the same id in every file, and `rlcm fit` sees whether two share it.

        Raises:
            ValueError: there is no text for `problem` or `answer`, or a text is no Unicode.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        text = {key: "" if row.get(key) is None else str(row[key]) for key in ("problem", "answer")}
        if missing := [key for key, value in text.items() if not value.strip()]:
            raise ValueError(f"no {' and no '.join(missing)}")
        id_, group = row.get("id"), row.get("group")
        problem = cls(
            id=_digest(text["problem"]) if id_ is None else str(id_),
            group=None if group is None else str(group),
            **text,
        )
        for value in (problem.id, problem.group or "", *text.values()):
            _check_text(value)
        return problem


def read_problems(path: Path) -> list[LabelledProblem]:
    """Reads JSONL with `problem`, `answer` and, optionally, `id` and `group` in each line.

    Raises:
        RequestRefused: a line is malformed or an id comes twice; the message names the line.
    """
    with path.open("rb") as file:
        return parse_problems(file, str(path))


def parse_problems(lines: Iterable[bytes], source: str) -> list[LabelledProblem]:
    """The problems of these lines, blank ones passed over.

    Args:
        lines: bytes, for a text's U+2028 ends no line.
        source: what to call them in a message.

    Raises:
        RequestRefused: as `read_problems`.
    """
    problems: dict[str, LabelledProblem] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            problem = LabelledProblem.from_json(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise RequestRefused(
                "data",
                f"{source}, line {number}: {error}; each line is a JSON object with 'problem' "
                "and 'answer'",
            ) from error
        if problem.id in problems:
            raise RequestRefused(
                "data",
                f"{source}, line {number}: {problem.id!r} comes twice; each id, and without ids "
                "each problem, may come once",
            )
        problems[problem.id] = problem
    if not problems:
        raise RequestRefused("data", f"{source} holds no problem")
    return list(problems.values())


def digest_problems(problems: Iterable[LabelledProblem]) -> str:
    """SHA-256 of problems and answers, shortened to 16 hexadecimal digits."""
    return _digest(json.dumps([astuple(problem) for problem in problems]))


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("a text holds the character U+0000, which no database keeps")
    text.encode()  # half a surrogate pair cannot be written anywhere


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
