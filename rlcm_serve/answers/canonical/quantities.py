r"""Values with units: `5 cm`, `$18.90`, `30^\circ`, `2.5 million dollars`, `5 feet 3 inches`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from rlcm_serve.answers.canonical import part
from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.fixed_point import Undefined
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.form import side_name
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.reader import Reader
from rlcm_serve.answers.canonical.sides import sides
from rlcm_serve.answers.canonical.text.tokens import NUMBERS, Token, Unreadable
from rlcm_serve.answers.canonical.text.vocabulary import spells_mathematics
from rlcm_serve.answers.canonical.text.words import PARTS
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
_POWER_OF_TEN = frozenset("-*^{}")
_MOST_QUANTITIES = 3
_PERCENT = ("percent", "percents", "pct")
_COINS = frozenset(("quarter", "quarters"))
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
            and (
                tokens[i - 1][1] == "'"
                or (tokens[i - 1][0] in ("word", "text") and not _is_power(tokens[i]))
            )
        ),
        end,
    )
    node, unit = _measured(reader, at, start, following)
    if following == end:
        words = " ".join(token[1] for token in tokens[start:end])
        found = replace(part.value(node, unit), name=side_name(sides(words)))
        is_letter = tokens[start][0] == "word" and tokens[start][1] in LETTERS
        if is_letter and all(token[1] != "/" for token in tokens[start:end]):
            return replace(found, relation=_product_key(reader, at, end))
        return found
    whole = _sum(part.value(node, unit), _without_currency(reader, following, end, most - 1))
    if whole is None:
        raise Unreadable("two quantities")
    return whole


def joined(parts: Sequence[Part]) -> Part | None:
    """`2 hours and 30 minutes` as one quantity; None if the parts are several answers."""
    found: Part | None = parts[0]
    for each in parts[1:]:
        found = None if found is None or each.name else _sum(found, each)
    return found


def _sum(one: Part, rest: Part) -> Part | None:
    """The sum of two quantities, the second in a smaller unit; None if they are none."""
    if one.node is None or rest.node is None or not one.unit.powers:
        return None
    if rest.unit.powers != one.unit.powers or rest.unit.factor >= one.unit.factor:
        return None
    ratio = ex.simplest(rest.unit.factor / one.unit.factor)
    found = part.value(ex.total(one.node, ex.product(rest.node, ratio)), one.unit)
    return replace(found, name=one.name)


def _is_power(token: Token) -> bool:
    """Whether it is the exponent of a unit, as in `cm2`."""
    return token[1] in ("2", "3") and not token[2]


def _product_key(reader: Reader, at: int, end: int) -> str:
    """The key of `6 m` as a product; empty if it cannot be one."""
    try:
        return evaluation.key(reader.expression(at, end))
    except (Unreadable, Undefined):
        return ""


def _measured(reader: Reader, at: int, start: int, end: int) -> tuple[Node, Unit]:
    """The number and the unit that begins at `start`."""
    node = reader.expression(at, start)
    inner = reader.partner.get(start) == end - 1  # `7 (cm)`
    tokens = reader.tokens[start + 1 : end - 1] if inner else reader.tokens[start:end]
    if isinstance(node, tuple) and node[0] == "degrees":
        name = _TEMPERATURE.get(tokens[0][1])
        if name is None or len(tokens) > 1:
            raise Unreadable("two units")
        return node[1], Unit(Fraction(1), ((name, 1),))
    words = "".join(each[1] if _is_power(each) else f" {each[1]}" for each in tokens).strip()
    first, _, rest = words.partition(" ")
    if size := _size(first.lower(), node):
        node, words = ex.product(node, size), rest
    if (lower := words.lower()) in _PERCENT or lower == "per cent":
        return ex.quotient(node, 100), NONE
    if words in _MARKS:
        words = _MARKS[words]
    if words in CURRENCIES:
        words = CURRENCIES[words]
    return node, read_unit(words.replace("*", ".")) if words else NONE


def _size(word: str, node: Node) -> Node:
    """The factor that a word such as `million` or `hundredths` means; 0 if it means none.

    Raises:
        Unreadable: it is an ordinal number, as in `5 hundredth`.
    """
    if (size := MULTIPLIERS.get(word) or MULTIPLIERS.get(word.removesuffix("s"))) is not None:
        return size
    if word not in PARTS or word in _COINS:
        return 0
    if not word.endswith("s") and node != 1:
        raise Unreadable("an ordinal number")
    return Fraction(1, PARTS[word])


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
        if may_be_unit and where > at and _begins_unit(tokens, where, at, end):
            return where
        if text == "/" and at < where < end - 1 and tokens[where - 1][0] in NUMBERS:
            kind, unit, _ = tokens[where + 1]
            if kind == "text" or (kind == "word" and len(unit) > 2 and known(unit)):
                return where  # `$5/hour`
        if text == "(" and at < where and reader.partner.get(where) == end - 1:
            kind, text, _ = tokens[where + 1]
            is_unit = kind == "word" and len(text) > 1 and known(text)
            if kind == "text" or (is_unit and tokens[where - 1][0] in NUMBERS):
                return where
        where = reader.partner.get(where, where) + 1
    return end


def _begins_unit(tokens: list[Token], where: int, at: int, end: int) -> bool:
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
    if not text.isascii():  # Chinese counts in front of nothing: `12种`
        return True
    if text in _TEMPERATURE and "\\circ" in (before[1], tokens[max(where - 2, 0)][1]):
        return True
    if len(text) == 1:
        is_after_number = spaced and all(
            token[0] in NUMBERS or token[1] in _POWER_OF_TEN for token in tokens[at:where]
        )
        return is_after_number and text in LETTERS and _are_units(tokens[where:end])
    if known(text) or text in _PERCENT:
        return True
    if len(text) == 2 and text.isupper() and where == end - 1:  # `2 AB`
        return False
    return not spells_mathematics(text) and (spaced or len(text) > 3)


def _are_units(tokens: list[Token]) -> bool:
    """Whether a letter and what follows it are units, and not variables as in `8 m n + n^2`."""
    before = ""
    is_product = all(text != "-" for _, text, _ in tokens)  # `m s` is one, `m s^{-1}` a unit
    for kind, text, spaced in tokens:
        if kind in ("word", "text"):
            follows_letter = is_product and len(before) == 1 and before.islower()
            if len(text) == 1 and (text not in LETTERS or follows_letter):
                return False
        elif text == "-" or text.isdigit():
            is_power = before.isalpha() and _is_power((kind, text, spaced))
            if before not in ("^", "{", "-") and not is_power:
                return False
        elif text not in ("^", "{", "}", "/", "*", "."):
            return False
        before = text
    return True
