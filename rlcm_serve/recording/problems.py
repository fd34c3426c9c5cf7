"""Problems with reference answers, read from JSON Lines."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from calibration.traces.traces import unit_of
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.json_lines import parse_rows

NO_LABEL = "?"
"""The reference answer of a problem whose right answer nobody has given."""

BOXED = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."
BOXED_LETTER = (
    "\n\nPlease reason step by step, and put the letter of the right option within \\boxed{}."
)
"""What benchmarks add to a problem, so that its answer can be found."""


@dataclass(frozen=True, slots=True)
class LabelledProblem:
    """A problem and its reference answer, or `NO_LABEL`.

    Problems of one template or source share a `group`. `kind` says what kind of question it is, for
    certificates of single kinds.
    """

    id: str
    problem: str
    answer: str
    group: str | None = None
    kind: str | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether somebody has given the right answer."""
        return self.answer.strip() != NO_LABEL

    @classmethod
    def from_json(cls, row: Any) -> Self:
        """The problem of one line. Without an id, the id is a digest of the text.

        So the same problem has the same id in every file, and `rlcm fit` finds shared problems.

        Raises:
            ValueError: `problem` or `answer` is empty, or a value is neither a text nor a number,
                or a text is not valid Unicode, or `group` or `kind` is misspelt: without them a
                certificate would promise something else.
        """
        if not isinstance(row, dict):
            raise ValueError("not a JSON object")
        text = {key: text_of(row, key) or "" for key in ("problem", "answer")}
        if missing := [key for key, value in text.items() if not value.strip()]:
            raise ValueError(f"no {' and no '.join(missing)}")
        require_spelt(row, ("group", "kind"))
        problem = cls(
            id=text_of(row, "id") or digest_text(text["problem"]),
            group=text_of(row, "group"),
            kind=text_of(row, "kind"),
            **text,
        )
        for value in (problem.id, problem.group or "", problem.kind or "", *text.values()):
            _check_text(value)
        return problem


def read_problems(path: Path) -> list[LabelledProblem]:
    """Reads JSON Lines, each with `problem` and `answer` and, optionally, `id`, `group` and `kind`.

    Raises:
        RequestRefused: there is no such file, a line is malformed or an id comes twice; the
            message names the file or the line.
    """
    try:
        with path.open("rb") as file:
            return parse_problems(file, str(path))
    except FileNotFoundError as error:
        raise RequestRefused("data", f"there is no file {path}: give an existing one") from error


def parse_problems(lines: Iterable[bytes], source: str) -> list[LabelledProblem]:
    """The problems of these lines; `source` names them in messages.

    Raises:
        RequestRefused: as `read_problems`.
    """
    remedy = "each line is a JSON object with 'problem' and 'answer'"
    return list(parse_rows(lines, source, "data", LabelledProblem.from_json, remedy))


def require_labels(problems: Iterable[LabelledProblem], remedy: str) -> None:
    """Returns if every problem has a label.

    Args:
        problems: any.
        remedy: what to do about those without one, as a clause.

    Raises:
        RequestRefused: one has none; the message names it.
    """
    if unlabelled := [one.id for one in problems if not one.is_labelled]:
        raise RequestRefused(
            "data",
            f"{len(unlabelled)} problems have the answer {NO_LABEL!r}, so no label, "
            f"{unlabelled[0]!r} among them: {remedy}",
        )


def digest_problems(problems: Iterable[LabelledProblem]) -> str:
    """SHA-256 of problems and answers, shortened to 16 hexadecimal digits."""
    return digest_text(json.dumps([_digested(problem) for problem in problems]))


def _digested(problem: LabelledProblem) -> tuple[str | None, ...]:
    """Its fields; without a kind, those that a problem had before there were kinds."""
    values = astuple(problem)
    return values if problem.kind is not None else values[:-1]


def repeated(problems: Iterable[LabelledProblem]) -> list[str]:
    """Ids of problems whose text, as it is recognised, came before in another unit.

    A unit is a group, or a problem without one. Units count as independent, and no split keeps two
    of them together.
    """
    first_of: dict[str, str] = {}
    found = []
    for one in problems:
        unit = unit_of(one.id, one.group)
        if first_of.setdefault(digest_text(bare_text(one.problem)), unit) != unit:
            found.append(one.id)
    return found


def require_spelt(row: Collection[str], fields: Collection[str]) -> None:
    """Returns if no name in a row is a misspelt one of these fields, which a guarantee depends on.

    Raises:
        ValueError: one is, and the field itself is missing.
    """
    for key in row:
        if len(key) > 7:  # a longer name is not near, and may be a megabyte
            continue
        near = get_close_matches(key.lower(), fields, n=1, cutoff=0.8)
        if near and near[0] not in row:
            raise ValueError(f"{key!r} is unknown: call it {near[0]!r}, or leave it out")


def text_of(row: Mapping[str, Any], key: str) -> str | None:
    """A value of a row as text; None if it is missing, null, empty, or NaN as in a data frame.

    Raises:
        ValueError: it is a list or an object.
    """
    value = row.get(key)
    if value is None or value != value:
        return None
    if isinstance(value, str | int | float):
        return str(value) or None
    kind = "a list" if isinstance(value, list) else "an object"
    raise ValueError(f"{key} is {kind}: give a text or a number")


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("a text holds the character U+0000, which databases refuse: remove it")
    text.encode()  # fails for half a surrogate pair, which no file can hold


def digest_text(text: str) -> str:
    """SHA-256, shortened to 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain_text(text: str) -> str:
    """The text by which a question or a problem is recognised.

    Unicode is composed (NFC), white space at the ends is dropped, and elsewhere it is one space.
    Everything else stays: `x` and `X` may differ in mathematics, and so do `3²` and `32`.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def bare_text(text: str) -> str:
    """The text by which a problem is recognised whether or not a benchmark added its request."""
    plain = plain_text(text)
    for request in (BOXED, BOXED_LETTER):
        plain = plain.removesuffix(plain_text(request)).rstrip()
    return plain
