"""Parts of an answer: one value, or several combined into a list, a set or a tuple."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from rlcm_serve.answers.canonical import intervals
from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.form import Form
from rlcm_serve.answers.canonical.intervals import RealSet
from rlcm_serve.answers.canonical.text.tokens import Unreadable
from rlcm_serve.answers.canonical.units import DEGREES, NONE, Unit

_INDEX = re.compile(r"_?\{?\d\}?$")
_RADIAN = Unit(Fraction(1), (("radian", 1),))


def _none() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """A value with the name and the unit that stand beside it.

    Attributes:
        stated: the key of the value.
        name: the name that an equation gives to it.
        unit: its unit.
        node: its expression; None if the value is not an expression.
        relation: the key of the equation.
        reading: the key of another value that may be meant, as in `Form`.
        numbers: computes the value as a set of real numbers, which few answers need; None if it is
            none.
        is_condition: whether an inequality wrote it, so that `and` means both.
        members: the members of a list; empty for other values.
        is_text: whether it is words.
    """

    stated: str
    name: str = ""
    unit: Unit = NONE
    node: Node | None = None
    relation: str = ""
    numbers: Callable[[], RealSet | None] = _none
    is_condition: bool = False
    members: tuple[Part, ...] = ()
    is_text: bool = False
    reading: str = ""

    @property
    def is_relation(self) -> bool:
        """Whether it is an equation or an inequality that gives no value to a name."""
        return self.stated.startswith(("equation ", "relation "))

    def form(self) -> Form:
        """The canonical form of an answer that consists of this part."""
        return Form(
            stated=self.stated,
            name=self.name,
            unit=self.unit.key,
            quantity=self.quantity(),
            relation=self.relation,
            is_text=self.is_text,
            reading=self.reading,
        )

    def quantity(self) -> str:
        """Value and unit in base units; empty for a plain number."""
        if not self.unit.powers:
            return ""
        if self.node is None:
            return f"{self.stated} {self.unit.factor} {self.unit.key}"
        node, unit = ex.product(self.node, ex.simplest(self.unit.factor)), self.unit.key
        if self.unit == _RADIAN:
            node = ex.product(node, 180, ("^", ("constant", "pi"), -1))
            unit = "degree1"
        return f"{evaluation.key(node)} {unit}"

    def embedded(self) -> str:
        """The key as a member of something whose other members have other names or units."""
        return f"{self.name}={self.quantity() or self.stated}" if self.name else self.bare()

    def bare(self) -> str:
        """The key with the unit, without the name."""
        return self.quantity() or self.stated


def value(node: Node, unit: Unit = NONE) -> Part:
    """The part of an expression; of two values if it has a plus-minus sign.

    Raises:
        Undefined: it has no value.
    """
    if isinstance(node, tuple) and node[0] == "degrees" and not unit.powers:
        return value(node[1], DEGREES)
    if ex.contains(node, "plus-minus", "minus-plus"):
        return listed([value(branch, unit) for branch in _branches(node)])
    reading = evaluation.key(ex.product(node, ex.DEGREE)) if unit == DEGREES else ""
    return Part(
        evaluation.key(node), unit=unit, node=node, reading=reading, numbers=partial(_point, node)
    )


def words(key: str) -> Part:
    """The part of a text."""
    return Part(f"text {key}", is_text=True)


def real_set(numbers: RealSet, name: str = "", is_condition: bool = False) -> Part:
    """The part of a set of real numbers."""
    key = intervals.key(numbers)
    return Part(key, name, numbers=lambda: numbers, is_condition=is_condition)


def listed(parts: Sequence[Part], is_set: bool = False) -> Part:
    """The members of a list, in which order has no meaning; in a set repetitions have none."""
    members = _opened(parts)
    names = {part.name for part in members}
    if len(members) > 1 and len(names) == len(members) and "" not in names:
        return _assignments(members)
    if (
        len(names) == 2
        and "" in names
        and members[0].name
        and not any(part.name or part.is_relation for part in members[1:])
    ):  # `x = 2, 3`
        names = {members[0].name}
    name, unit, keys = _shared(members, names)
    keys = sorted({*keys} if is_set else keys)
    stated = keys[0] if len(keys) == 1 and not is_set else "{" + ";".join(keys) + "}"
    if len(keys) == 1 and not (is_set and keys[0].startswith("{")):
        stated = keys[0]
    numbers = partial(_union, members)
    if len(members) > intervals.MOST_PIECES:
        numbers()  # numbers that are too many for a set are unreadable
    node = members[0].node if len(keys) == 1 and members else None
    return Part(
        stated,
        name,
        unit,
        node,
        numbers=numbers,
        members=() if is_set else tuple(members),
        is_text=all(part.is_text for part in members) and bool(members),
    )


def tuple_of(parts: Sequence[Part], opening: str, closing: str) -> Part:
    """The members of a tuple or the ends of an interval, in their order."""
    _, unit, keys = _shared(parts, {part.name for part in parts})
    stated = f"{opening}{';'.join(keys)}{closing}"
    if len(parts) != 2:
        return Part(stated, unit=unit)
    closed = (opening == "[", closing == "]")
    return Part(stated, unit=unit, numbers=partial(_interval, parts[0], parts[1], closed))


def choices(parts: Sequence[Part], opening: str, closing: str) -> list[Part]:
    r"""The tuples that `(1 \pm 2, 0)` stands for: one for each member of the part with members."""
    at = next(at for at, each in enumerate(parts) if each.members)
    before, after = parts[:at], parts[at + 1 :]
    return [tuple_of([*before, member, *after], opening, closing) for member in parts[at].members]


def systems(parts: Sequence[Part], marks: Sequence[str]) -> Part | None:
    """`x = 1, y = 2 or x = 2, y = 1` as a list of tuples; None if it is something else."""
    divider = next((mark for mark in ("or", ";") if mark in marks), "")
    if not divider or len(marks) != len(parts) - 1 or len({*marks}) < 2:
        return None
    groups: list[list[Part]] = [[parts[0]]]
    for mark, each in zip(marks, parts[1:], strict=True):
        if mark == divider:
            groups.append([])
        groups[-1].append(each)
    names = [sorted(each.name for each in group) for group in groups]
    if len(names[0]) < 2 or not all(names[0]) or any(each != names[0] for each in names):
        return None
    is_unique = len({*names[0]}) == len(names[0])
    return listed([listed(group) for group in groups]) if is_unique else None


def infinite(sign: int) -> Part:
    """Plus or minus infinity."""
    return Part("inf" if sign > 0 else "-inf")


def _opened(parts: Sequence[Part]) -> list[Part]:
    """The parts, with the members of each list among them."""
    found: list[Part] = []
    for part in parts:
        if part.members:
            found += [replace(member, name=part.name or member.name) for member in part.members]
        else:
            found.append(part)
    return found


def _shared(parts: Sequence[Part], names: set[str]) -> tuple[str, Unit, list[str]]:
    """The name and the unit of all parts, and the keys without what they share."""
    units = {part.unit for part in parts}
    measured = {unit for unit in units if unit.powers}
    name = next(iter(names)) if len(names) == 1 else ""
    if len(measured) > 1 or (
        measured and len(units) > 1 and len(parts) > 1 and not _degrees(measured)
    ):
        return (
            name,
            NONE,
            [part.bare() if name or not part.name else part.embedded() for part in parts],
        )
    unit = next(iter(measured), NONE)
    keys = [
        part.stated if name or not part.name else f"{part.name}={part.stated}" for part in parts
    ]
    return name, unit, keys


def _degrees(units: set[Unit]) -> bool:
    return all(unit.key == "degree1" for unit in units)


def _assignments(members: Sequence[Part]) -> Part:
    """`y = 2, x = 1` as `(x, y) = (1, 2)`."""
    ordered = sorted(members, key=lambda part: part.name)
    names = ",".join(part.name for part in ordered)
    values = [replace(part, name="") for part in ordered]
    bases = {_INDEX.sub("", part.name) for part in ordered}
    reading = listed(values).stated if len(bases) == 1 else ""  # `x_1 = 1, x_2 = 2` as `1, 2`
    return replace(tuple_of(values, "(", ")"), name=f"({names})", reading=reading)


def _branches(node: Node) -> list[Node]:
    """The two values of an expression with plus-minus signs."""
    found = []
    for sign in (1, -1):
        upper = ex.rewrite(node, "plus-minus", partial(ex.product, sign))
        found.append(ex.rewrite(upper, "minus-plus", partial(ex.product, -sign)))
    return found


def _point(node: Node) -> RealSet | None:
    try:
        return intervals.points([node])
    except Unreadable:
        return None


def _union(parts: Sequence[Part]) -> RealSet | None:
    sets = [numbers for part in parts if (numbers := part.numbers()) is not None]
    return intervals.union(*sets) if len(sets) == len(parts) else None


def _interval(low: Part, high: Part, closed: tuple[bool, bool]) -> RealSet | None:
    ends = []
    for part in (low, high):
        if part.stated in ("inf", "-inf"):
            ends.append(intervals.HIGHEST if part.stated == "inf" else intervals.LOWEST)
        elif part.node is not None and (numbers := part.numbers()) is not None:
            ends.append(numbers[0].low)
        else:
            return None
    if not ends[0].place < ends[1].place:
        return None
    return (intervals.Piece(ends[0], ends[1], closed),)
