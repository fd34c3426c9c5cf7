"""A page of prose with generated blocks. Only the blocks are replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlcm_serve.errors import RequestRefused

_MARK = re.compile(r"^<!-- (begin|end) ([a-z-]+) -->$", re.MULTILINE)


def skeleton(titles: Mapping[str, str], heading: str) -> str:
    """A page with only headings and empty blocks; `titles` are the headings by block name."""
    parts = [f"# {heading}"]
    for name, title in titles.items():
        parts.append(f"## {title}\n\n<!-- begin {name} -->\n<!-- end {name} -->")
    return "\n\n".join(parts) + "\n"


def replace_blocks(page: str, texts: Mapping[str, str]) -> str:
    """The page with new texts in its blocks; everything else stays the same.

    Args:
        page: Markdown, with `<!-- begin NAME -->` and `<!-- end NAME -->` on separate lines.
        texts: of every block, by name.

    Raises:
        RequestRefused: a block is unknown, missing, repeated, or does not end.
    """
    marks = list(_MARK.finditer(page))
    _check([(mark[1], mark[2]) for mark in marks], texts)
    parts, done = [], 0
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        parts += [page[done : begin.end()], "\n", texts[begin[2]], "\n"]
        done = end.start()
    return "".join([*parts, page[done:]])


def _check(marks: list[tuple[str, str]], texts: Mapping[str, str]) -> None:
    names = [name for kind, name in marks if kind == "begin"]
    for name in names:
        if name not in texts:
            raise _refused(f"has a block {name!r}, and there are only {', '.join(texts)}")
        if names.count(name) > 1:
            raise _refused(f"has the block {name!r} twice: keep one of them")
    for name in texts:
        if name not in names:
            raise _refused(
                f"has no block {name!r}: add <!-- begin {name} --> and <!-- end {name} -->, each "
                "in a line of its own"
            )
    paired = [(kind, name) for name in names for kind in ("begin", "end")]
    if marks != paired:
        expected = [*paired, ("", "")]
        kind, name = next(m for m, e in zip([*marks, ("", "")], expected, strict=False) if m != e)
        raise _refused(
            f"has <!-- {kind} {name} --> where another block begins or ends: every block ends "
            "before the next one begins"
            if kind
            else f"ends inside the block {names[-1]!r}: add <!-- end {names[-1]} -->"
        )


def _refused(problem: str) -> RequestRefused:
    return RequestRefused("page", f"the page {problem}")
