r"""Values with units: `5 cm`, `$18.90`, `30^\circ`, `2.5 million dollars`, `5 feet 3 inches`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from rlcm_serve.answers.canonical import part
from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.reader import Reader
from rlcm_serve.answers.canonical.text.tokens import NUMBERS, Token, Unreadable
from rlcm_serve.answers.canonical.text.vocabulary import spells_mathematics
from rlcm_serve.answers.canonical.units import (
    CURRENCIES,
    LETTERS,
    MULTIPLIERS,
    NONE,
    Unit,
    known,
    read_unit,
)

_MARKS = {"'": "foot", '"': "inch", "' '": "inch"}
_SIGNS = frozenset((*CURRENCIES, "'", '"'))
_MOST_QUANTITIES = 3
_PERCENT = ("percent", "percents", "pct")
_TEMPERATURE = {"C": "celsius", "F": "fahrenheit"}


def read_quantity(reader: Reader, at: int, end: int) -> Part:
    """The value of a range, with its unit if it has one.

    Raises:
        Unreadable: it is no value.
        Undefined: it has none.
    """
    found = _with_currency(reader, at, end)
    return _without_currency(reader, at, end, _MOST_QUANTITIES) if found is None else found


def _without_currency(reader: Reader, at: int, end: int, most: int) -> Part:
    """The sum of one quantity or more, as in `5 feet 3 inches`."""
    tokens = reader.tokens
    if most == 0:
        raise Unreadable("too many quantities")
    start = _unit_start(reader, at, end)
    if start == end:
        return part.value(reader.expression(at, end))
    following = next(
        (
            i
            for i in range(start + 1, end)
            if tokens[i][0] in NUMBERS
            and (tokens[i - 1][0] in ("word", "text") or tokens[i - 1][1] == "'")
        ),
        end,
    )
    node, unit = _measured(reader, at, start, following)
    if following == end:
        found = part.value(node, unit)
        if start == end - 1 and tokens[start][0] == "word" and tokens[start][1] in LETTERS:
            as_product = ex.product(node, ex.symbol(tokens[start][1]))
            return replace(found, relation=evaluation.key(as_product))
        return found
    rest = _without_currency(reader, following, end, most - 1)
    if rest.node is None or rest.unit.powers != unit.powers or not unit.powers:
        raise Unreadable("two quantities")
    ratio = ex.simplest(rest.unit.factor / unit.factor)
    return part.value(ex.total(node, ex.product(rest.node, ratio)), unit)


def _measured(reader: Reader, at: int, start: int, end: int) -> tuple[Node, Unit]:
    """The number and the unit that begins at `start`."""
    node = reader.expression(at, start)
    tokens = reader.tokens[start:end]
    if isinstance(node, tuple) and node[0] == "degrees":
        name = _TEMPERATURE.get(tokens[0][1])
        if name is None or len(tokens) > 1:
            raise Unreadable("two units")
        return node[1], Unit(Fraction(1), ((name, 1),))
    words = " ".join(text for _, text, _ in tokens)
    first, _, rest = words.partition(" ")
    if first.lower() in MULTIPLIERS:
        node, words = ex.product(node, MULTIPLIERS[first.lower()]), rest
    if (lower := words.lower()) in _PERCENT or lower == "per cent":
        return ex.quotient(node, 100), NONE
    if words in _MARKS:
        words = _MARKS[words]
    if words in CURRENCIES:
        words = CURRENCIES[words]
    return node, read_unit(words.replace("*", ".")) if words else NONE


def _with_currency(reader: Reader, at: int, end: int) -> Part | None:
    """`$5`, `-$5`, `USD 5`; None if no currency stands in front."""
    tokens = reader.tokens
    sign = 1
    if tokens[at][1] == "-" and at + 1 < end and tokens[at + 1][1] in CURRENCIES:
        at, sign = at + 1, -1
    kind, text, _ = tokens[at]
    name = CURRENCIES.get(text) or (text.lower() if text in ("USD", "EUR", "GBP", "Rs") else None)
    if name is None or at + 1 == end or (kind == "word" and tokens[at + 1][0] not in NUMBERS):
        return None
    found = _without_currency(reader, at + 1, end, most=1)
    if found.node is None:
        raise Unreadable("an amount of money")
    unit = read_unit(name)
    if found.unit.powers and found.unit.powers != unit.powers:
        unit = unit.times(found.unit)
    return part.value(ex.product(sign, found.node), unit)


def _unit_start(reader: Reader, at: int, end: int) -> int:
    """Where the unit begins; `end` if there is none."""
    tokens, where = reader.tokens, at
    while where < end:
        kind, text, _ = tokens[where]
        may_be_unit = kind in ("word", "text") or text in _SIGNS
        if may_be_unit and where > at and _begins_unit(tokens, where, at):
            return where
        where = reader.partner.get(where, where) + 1
    return end


def _begins_unit(tokens: list[Token], where: int, at: int) -> bool:
    kind, text, spaced = tokens[where]
    before = tokens[where - 1]
    if before[0] == "mark" and before[1] in ("+", "-", "*", "/", "^", "_"):
        return False
    if kind == "mark":
        return text in CURRENCIES or (text in _SIGNS and before[0] in NUMBERS)
    if kind == "text":
        return True
    if kind != "word":
        return False
    if text in _TEMPERATURE and "\\circ" in (before[1], tokens[max(where - 2, 0)][1]):
        return True
    if len(text) == 1:
        return text in LETTERS and spaced and before[0] in NUMBERS and where == at + 1
    if known(text) or text in _PERCENT:
        return True
    return not spells_mathematics(text) and (spaced or len(text) > 3)
