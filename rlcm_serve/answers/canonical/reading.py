"""From the text of an answer to its canonical form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from rlcm_serve.answers.canonical import intervals, part
from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.fixed_point import Undefined
from rlcm_serve.answers.canonical.expressions.numerals import decimal
from rlcm_serve.answers.canonical.form import Form, equal, side_name
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.structure import AnswerReader
from rlcm_serve.answers.canonical.text import labels, words
from rlcm_serve.answers.canonical.text.cleaning import cleaned
from rlcm_serve.answers.canonical.text.dates import date_key
from rlcm_serve.answers.canonical.text.symbols import as_latex
from rlcm_serve.answers.canonical.text.tokens import (
    LONGEST,
    Unreadable,
    has_numbers_apart,
    is_balanced,
    tokenize,
)
from rlcm_serve.answers.canonical.text.word_keys import ALL_REALS, NO_SOLUTION, text_key

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?[0-9]{0,300}\.[0-9]{1,300}")
_FRACTION = re.compile(
    r"\\[dt]?frac\{(?P<top>-?[0-9]{1,300})\}\{(?P<bottom>[0-9]{1,300})\}|"
    r"(?P<over>-?[0-9]{1,300})/(?P<under>[0-9]{1,300})"
)
_LIST_OF_WORDS = re.compile(r"\s*(?:[,;]|\band\b|\bor\b)\s*")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_OPTIONS = re.compile(r"[A-H]{2,5}")
"""`ACD`, where several options are right."""
Forms = Mapping[str, Form | None]
"""Canonical forms of answers that have been read; None where there is none."""
UNREAD: Forms = {}
_ARTICLE = re.compile(r"an?\s+[a-z]{2}", re.IGNORECASE)
_SENTENCE = 3
"""Words from which on a text may be a sentence that states a number."""


def canonical(answer: str) -> Form | None:
    """The canonical form of an answer; None if it can only be compared with others one by one.

    Never raises an error, and takes time linear in the length of the answer.
    """
    text = answer.strip()
    if len(text) > LONGEST:  # not kept, so that long texts do not fill the cache
        return Form(f"text {text}", is_text=True)
    return _read(text)


@lru_cache(maxsize=2**14)
def _read(text: str) -> Form | None:
    if (number := _number(text)) is not None:
        return number
    written = as_latex(text)
    if len(written) > LONGEST:
        return Form(f"text {text}", is_text=True)
    text = cleaned(written)
    if (number := _number(text)) is not None:
        return number
    plain = words.unwrapped(text)
    if (rest := words.without_lead_in(plain)) != plain:
        text = plain = rest
    found = _several(plain) or _option(plain) or _without_tokens(plain) or _mathematics(text)
    if found is None:
        found = _with_remark(plain)
    if found is None and len(plain.split()) >= _SENTENCE and not _CHINESE.search(plain):
        found = _sentence(plain)
    if found is None and (not plain or words.has_words(plain) or _is_only_text(plain)):
        found = part.words(text_key(plain))
    try:
        return None if found is None else found.form()
    except (Unreadable, Undefined):
        return None


def equal_if_canonical(answer: str, other: str, forms: Forms = UNREAD) -> bool | None:
    """Whether two answers are equal; None if one of them has no canonical form.

    Words are never equal to mathematics that has none. `forms` are those known already.
    """
    if answer == other:
        return True
    one, two = form_of(answer, forms), form_of(other, forms)
    if one is not None and two is not None:
        return equal(one, two)
    left = one or two
    if left is None and "".join(latex(answer).split()) == "".join(latex(other).split()):
        return True
    return False if left is not None and left.is_text else None


def form_of(answer: str, forms: Forms) -> Form | None:
    """The canonical form of an answer, which is only read if it is not among `forms`."""
    return forms[answer] if answer in forms else canonical(answer)


def latex(answer: str) -> str:
    """The answer in plain LaTeX, without delimiters, for math-verify."""
    return cleaned(as_latex(answer.strip()))


def _number(text: str) -> Form | None:
    """An integer, a decimal or a fraction, which most answers are and which need no parser."""
    if _INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text):
        sign = -1 if text[0] == "-" else 1
        return Form(evaluation.number_key(sign * decimal(text.lstrip("+-"))))
    if found := _FRACTION.fullmatch(text):
        top, bottom = int(found["top"] or found["over"]), int(found["bottom"] or found["under"])
        return Form(evaluation.number_key(Fraction(top, bottom))) if bottom else None
    return None


def _option(plain: str) -> Part | None:
    """The part of an option's letter and text, `(B) 12`; the letter is another reading."""
    if (option := words.option_and_text(plain)) is None:
        return None
    letter, text = option
    found = _without_tokens(text) or _mathematics(text)
    if found is None:
        return None
    reading = part.value(_letter(letter.lower())).stated
    return replace(found, name=found.name or f"({letter})", reading=reading)


def _without_tokens(plain: str) -> Part | None:
    """The part of an answer that is a letter, words, a date or a number in words."""
    if (letter := words.option_letter(plain)) is not None:
        plain = letter
    if len(plain) == 1 and plain.isalpha():
        return part.value(_letter(plain.lower()))
    if (key := date_key(plain)) is not None:
        return Part(key)
    if (fraction := words.digit_fraction(plain)) is not None:
        return _mathematics(fraction)
    if not words.only_words(plain):
        return None
    if (number := words.number_in_words(plain)) is not None:
        return _mathematics(number)
    key = text_key(plain)
    if key == NO_SOLUTION:
        return part.real_set(())
    if key == ALL_REALS:
        return part.real_set(intervals.REALS)
    if key in ("infinity", "infty"):
        return None
    if (number := words.number_in_words(" ".join(plain.split()[:-1]))) is not None:
        return _mathematics(f"{number} {plain.split()[-1]}")
    members = [text_key(each) for each in _LIST_OF_WORDS.split(plain) if each.strip()]
    found = part.listed([part.words(member) for member in members or [key]])
    if _OPTIONS.fullmatch(plain) and sorted({*plain}) == [*plain]:
        letters = part.listed([part.value(ex.symbol(letter)) for letter in plain])
        return replace(found, reading=letters.stated)
    return found


def _letter(letter: str) -> ex.Node:
    return ("constant", letter) if letter in ("e", "i") else ex.symbol(letter)


def _mathematics(text: str) -> Part | None:
    """The part of a mathematical answer; None if it cannot be read."""
    try:
        tokens = tokenize(text)
        return AnswerReader(tokens).read(0, len(tokens)) if tokens else None
    except (Unreadable, Undefined, RecursionError):  # the last if the caller is deep already
        return None


def _several(plain: str) -> Part | None:
    """The part of answers behind labels, or of the cases of a function; None if it is neither."""
    if (members := labels.labelled(plain)) is not None:
        if len(members) == 1:
            [(label, answer)] = members
            found = _mathematics(answer)
            return None if found is None else replace(found, name=found.name or f"({label})")
        shown = (f"({label}) {_key(answer)}" for label, answer in members)
        return part.words("; ".join(shown))
    if (function := labels.cases(plain)) is None:
        return None
    name, pairs = function
    named = _mathematics(f"{name}=0") if name else None
    keys = sorted(f"{_key(value)} : {_key(condition)}" for value, condition in pairs)
    return replace(part.words(f"cases {'; '.join(keys)}"), name=named.name if named else "")


def _key(text: str) -> str:
    """The key of one of several answers."""
    found = _without_tokens(text) or _mathematics(text)
    return f"as {text_key(text)}" if found is None else found.embedded()


def _is_only_text(plain: str) -> bool:
    """Whether other programs would read as a sum or a product what is none."""
    if "cases}" in plain or "!!" in plain:
        return True
    try:
        tokens = tokenize(plain)
    except Unreadable:
        return False
    return has_numbers_apart(tokens) or not is_balanced(tokens)


def _with_remark(plain: str) -> Part | None:
    """The part of `5 (the answer)` or `north, because ...`; None if it is something else.

    Words in brackets are read as what the number counts; behind other answers they belong to it.
    """
    if (rest := words.without_reason(plain)) != plain:
        return _without_tokens(rest) or _mathematics(rest)
    rest, remark = words.split_remark(plain)
    if not remark:
        return None
    if words.OPTION.fullmatch(rest):
        return _without_tokens(rest) if _mathematics(f"1 \\text{{{remark}}}") else None
    found = _mathematics(rest)
    if found is None or found.node is None or ex.contains(found.node, "symbol"):
        return None
    return _mathematics(f"{rest} \\text{{{remark}}}")


def _sentence(plain: str) -> Part | None:
    """The number that a sentence states after its verb; None if it states none, or more.

    What it says before is like a direction: it may be left out, but another sentence differs.
    """
    if (split := words.split_sentence(plain)) is None:
        return None
    before, rest = split
    if _ARTICLE.match(rest):
        return None
    found = _mathematics(rest)
    if found is None or found.is_text:
        return None
    return replace(found, name=side_name({"said": text_key(before)}, found.name))
