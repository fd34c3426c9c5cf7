r"""Finds the letter of an option in an answer: `B`, `"(b)"`, `Answer: B. text`, `text (B)`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlcm_serve.answers.grading.choice.option_texts import without_style
from rlcm_serve.answers.grading.choice.other_words import (
    USUAL_LETTERS,
    is_denied,
    may_deny,
    names_another,
)

_CHINESE = (
    r"(?:(?:因此|所以|综上(?:所述)?|故|则)[,:]?\s*)?(?:[本此]题的?)?"
    r"(?:(?:最终|正确|最佳)?的?(?:答案|选项)(?:应?[是为选])?|应?选择?)\s*:?\s*"
)
_ENGLISH = (
    r"(?:(?:so|thus|hence|therefore|then)\b[,:]?\s*)?"
    r"(?:final\s*:\s*|####\s*|i(?:\s+would)?\s+(?:choose|pick|select)\b\s*|(?:it\s+is|it's|its)\b\s*)?"
    r"(?:(?:(?:the|my|our)\s+)?(?:(?:single|final|correct|right|best|most\s+likely)\s+)*"
    r"(?:answer|option|choice|ans)\b(?:\s+(?:option|choice|letter)\b)?\s*"
    r"(?:is\b|would\s+be\b|must\s+be\b|should\s+be\b|[:=.-])?\s*)?"
    r"(?:(?:the\s+)?(?:option|choice|letter)\b\s*)?:?\s*"
)
_LEAD = re.compile(rf"{_CHINESE}|{_ENGLISH}", re.IGNORECASE)
_BRACED_LEAD = re.compile(rf"(?:\{{\s*+(?>{_CHINESE}|{_ENGLISH})\}}\s*+:?\s*+)++", re.IGNORECASE)
"""As in `\\text{Option } B`, without its style."""
_OPENING, _CLOSING = r"[(\[{<\s\\]*", r"(?:[\s)\]}>]|\\(?![A-Za-z]))*"
_LETTER = re.compile(rf"{_OPENING}(?P<letter>[A-Za-z])(?![^\W_])(?P<closing>{_CLOSING})")
_MARK = re.compile(r"[.:;!。、]+\s*|\s*,(?:\s+|$|(?=[一-鿿]))|\s*[–—]+\s*|-+\s+")
_NOT_A_LETTER = re.compile(r"[-_^=+*/'’<>]")
"""What comes straight after a bracket that is part of a formula or a name, as in `(S)-serine`."""
_REASON = re.compile(
    r"\s+(?:because|since|rather\s+than|instead\s+of)\b"
    r"|\s+is\s+(?:the\s+)?(?:only\s+)?(?:correct|right|best|answer)(?:\s+(?:answer|option|choice|one))?"
    r"\s*(?:$|[.,;:]|because\b|since\b)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"(?:and|or|nor|as\s+well\s+as)\b|[/&+]|[(\[{]\s*(?:or|nor)\b", re.IGNORECASE)
_NO = re.compile(r"\s*[,–—-]\s*no\W*$")  # `No` may be the text of an option
_AFTER_TEXT = re.compile(
    r"(?P<rest>.*?\S)(?P<gap>\s*+[,:;–—-]?\s*+)(?:\((?:(?:option|choice|answer)\s+)?(?P<a>[A-Z])\)|"
    r"(?:option|choice|answer)\s+\(?(?P<b>[A-Z])\)?)",
    re.DOTALL,
)
_LINE = re.compile(
    r"(?:(?:answer|option|choice|final)\**\s*(?:is|:|=)|(?:答案|选项)\**(?:是|为|选|\s*[:：])[:：]?"
    r"|故选[:：]?)\s*(?P<said>.*)",
    re.IGNORECASE | re.MULTILINE,
)
_CHINESE_BRACKETS = str.maketrans("【】", "[]")
_BRACKETS = {"(": ")", "{": "}", "[": "]"}
_ENDS = " \t\r\n\"'“”‘’«»*_~\\"
_STOPS = ".:;,!。、"


@dataclass(frozen=True, slots=True)
class Stated:
    """A letter in an answer, and the text beside it.

    Attributes:
        letter: in upper case.
        rest: the text beside the letter; empty if there is none.
        is_marked: whether it is certainly a letter; in `A ribosome` it may be an article.
        is_one_of_several: whether another letter is stated too, as in `A, B` or `A (or B)`.
        is_denied: whether it is denied, as in `(A) is wrong`.
    """

    letter: str
    rest: str = ""
    is_marked: bool = True
    is_one_of_several: bool = False
    is_denied: bool = False

    @property
    def is_choice(self) -> bool:
        """Whether the letter alone is chosen, as far as the words beside it say."""
        return self.is_marked and not self.is_one_of_several and not self.is_denied


def letter_first(answer: str, letters: str = USUAL_LETTERS) -> Stated | None:
    """The letter with which the answer begins, after words such as `The answer is`.

    Args:
        answer: as the model wrote it.
        letters: of all options.
    """
    text = after_lead(answer)
    found = _LETTER.match(text)
    if found is None:
        return None
    letter, closing = found["letter"].upper(), found["closing"]
    rest = text[found.end() :]
    is_closed = bool(closing.strip())
    if not rest.strip(_ENDS + _STOPS):
        return Stated(letter)
    if not closing and _NOT_A_LETTER.match(rest) and not _MARK.match(rest):
        return None
    if is_closed and not closing[-1].isspace() and _NOT_A_LETTER.match(rest):
        return None
    mark = _MARK.match(rest)
    is_capital = found["letter"].isupper()
    is_marked = (
        is_closed
        or mark is not None
        or "\n" in closing
        or rest.startswith("(")
        or (is_capital and _REASON.match(f" {rest}") is not None)
    )
    after = rest[mark.end() :] if mark else rest
    joined = _JOINED.match(after) or _JOINED.match(rest)
    return Stated(
        letter,
        after.strip(_ENDS),
        is_marked,
        is_one_of_several=joined is not None or names_another(after, letter, letters),
        is_denied=is_denied(after.strip(_ENDS + "([")) or _NO.match(rest) is not None,
    )


def letter_last(answer: str) -> Stated | None:
    """The letter in brackets, or after the word `option`, at the answer's end.

    It is marked if it stands apart from the text, unlike that of `f(B)` or `avoid option B`.
    """
    found = _AFTER_TEXT.fullmatch(after_lead(answer).rstrip(_STOPS + _ENDS))
    if found is None:
        return None
    letter, rest = found["a"] or found["b"], found["rest"].strip(_ENDS)
    is_apart = bool(found["gap"].strip() or (found["a"] and found["gap"]))
    return Stated(
        letter, rest, is_apart and len(rest) > 1, names_another(rest, letter), may_deny(rest)
    )


def last_said(text: str) -> str | None:
    """What follows the last `answer is` or `answer:` that has a letter; None if there is none.

    It is the letter alone if no more is on the line.
    """
    for line in reversed(list(_LINE.finditer(text))):
        said = line["said"].strip(_ENDS)
        found = letter_first(said)
        if found and found.is_marked:
            return said if found.rest or found.is_one_of_several else found.letter
    return None


def after_lead(answer: str) -> str:
    """The answer without style, and without words such as `The answer is`."""
    text = _opened(without_style(answer).translate(_CHINESE_BRACKETS).strip(_ENDS))
    if braced := _BRACED_LEAD.match(text):
        text = text[braced.end() :]
    return text[found.end() :].strip(_ENDS) if (found := _LEAD.match(text)) else text


def _opened(text: str) -> str:
    """The text without brackets around all of it."""
    start, end, closing = 0, len(text), _closing(text) if text[:1] in _BRACKETS else {}
    while closing.get(start) == end - 1:
        start, end = start + 1, end - 1
        while start < end and text[start] in _ENDS:
            start += 1
        while start < end and text[end - 1] in _ENDS:
            end -= 1
    return text[start:end]


def _closing(text: str) -> dict[int, int]:
    """Where each bracket is closed; brackets of other kinds do not count."""
    found, opened = dict[int, int](), {opening: list[int]() for opening in _BRACKETS}
    opening_of = {closing: opening for opening, closing in _BRACKETS.items()}
    for place, character in enumerate(text):
        if character in opened:
            opened[character].append(place)
        elif character in opening_of and opened[opening_of[character]]:
            found[opened[opening_of[character]].pop()] = place
    return found
