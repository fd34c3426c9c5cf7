"""Several answers behind labels, `(1) 5 (2) 6`, and the cases of a piecewise answer, as texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

_STYLED = re.compile(r"(?:\\text\s*)?\{\s*(\([A-Za-z0-9]{1,4}\))\s*\}")
_GROUP = re.compile(r"\{([^{}]*)\}")
_LABEL = re.compile(r"(?:^|(?<=[\s,;.:}~\\]))\(\s*([A-Za-z]{1,4}|\d{1,2})\s*\)(?=\s*\S)")
_DIGIT = re.compile(r"\s+\d")
_SEQUENCES = (
    [str(number) for number in range(1, 21)],
    [*"abcdefghij"],
    [*"ABCDEFGHIJ"],
    ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x"],
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"],
)
_START = re.compile(r"(?:\s|[,;:~]|\.(?!\d)|\\q?quad(?![A-Za-z])|\\[,;:!\\ ])+")
_END = re.compile(r"(?:\s|[,;:.~\\]|\\q?quad|(?<![A-Za-z])and)+$")
_CASES = re.compile(
    r"(?:(?P<name>[^=&{}]{1,40})=\s*)?"
    r"(?:\\begin\{[dr]?cases\}|\\\{\s*\\begin\{(?:array|aligned|matrix)\}(?:\{[lcr| ]*\})?)"
    r"(?P<rows>(?:[^\\]|\\(?!begin|end))*)\\end\{(?:[dr]?cases|array|aligned|matrix)\}"
)
_WHEN = re.compile(
    r"^(?:[\s,]|\\q?quad(?![A-Za-z])|\\[,;:! ]|"
    r"(?:(?:\\text\s*)?\{\s*)?(?:if|for|when|where)\b\s*\}?)+"
)
_ELSE = re.compile(r"(?:\\text\s*\{)?\s*(?:otherwise|else(?:where)?)\b[\s.,}]*")
ELSE = "otherwise"
"""The condition of the case that is left."""


def labelled(text: str) -> list[tuple[str, str]] | None:
    """Labels and answers of `(1) 5 (2) 6`; None if the text is something else.

    The labels begin the text and count up, and an answer follows each, so that `(1)(2)` and
    `(x+1)(x+2)` remain products. A single label in digits counts if a blank and a digit follow.
    """
    if "(" not in text[:8]:
        return None
    if "{" in text:
        whole = _GROUP.fullmatch(text)
        text = _STYLED.sub(r" \1 ", whole[1] if whole else text).strip()
    found = list(_LABEL.finditer(text))
    if not found or found[0].start():
        return None
    order = next((each for each in _SEQUENCES if each[0] == found[0][1]), None)
    labels = found[:1] if order is None else _counted(found, order)
    if len(labels) == 1 and not (labels[0][1].isdigit() and _DIGIT.match(text, labels[0].end())):
        return None
    ends = [label.start() for label in labels[1:]] + [len(text)]
    members = [
        (label[1], _bare(text[label.end() : end])) for label, end in zip(labels, ends, strict=True)
    ]
    return members if all(answer for _, answer in members) else None


def cases(text: str) -> tuple[str, list[tuple[str, str]]] | None:
    r"""The name before `\begin{cases}` and each value with its condition; None if it is no such.

    Rows without a condition are equations, and no cases.
    """
    found = _CASES.fullmatch(text) if "\\begin{" in text else None
    if found is None:
        return None
    pairs = []
    for row in found["rows"].split("\\\\"):
        if not row.strip():
            continue
        value, _, condition = row.partition("&")
        value, condition = _bare(value), _bare(condition)
        if not value or not condition or "&" in condition:
            return None
        shown = ELSE if _ELSE.fullmatch(condition) else _WHEN.sub("", condition)
        is_cut = shown.endswith("}") and shown.count("}") > shown.count("{")
        pairs.append((value, shown[:-1] if is_cut else shown))
    return (found["name"] or "").strip(), pairs


def _counted(found: Sequence[re.Match[str]], order: Sequence[str]) -> list[re.Match[str]]:
    """The labels that count up from the first; between them may be other brackets, as `(0, 1)`."""
    labels: list[re.Match[str]] = []
    for label in found:
        if len(labels) < len(order) and label[1] == order[len(labels)]:
            labels.append(label)
    return labels


def _bare(answer: str) -> str:
    """The answer without layout and separators at its ends."""
    start = _START.match(answer)
    answer = answer[start.end() :] if start else answer
    end = _END.search(answer)
    return answer[: end.start()] if end else answer
