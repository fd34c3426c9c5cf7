"""The canonical form of an answer, and when two forms are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_SIDE = "SIDE "
"""Begins what words around a quantity say; names that equations give have no capitals."""


@dataclass(frozen=True, slots=True)
class Form:
    """An answer in canonical form. Forms with the same `key` are equal.

    A name or a unit may be left out: `5` equals `x = 5` and `5 cm`. So equality is not transitive:
    `5 cm` differs from `5 m`, and `x = 5` from `y = 5`.

    Attributes:
        stated: the value as written, without its name and unit.
        name: the name that an equation gives to the value, or what words around it say of it, such
            as a direction; empty if there is none.
        unit: what the unit measures; empty for a plain number.
        quantity: value and unit in base units, such as metres; empty for a plain number.
        relation: the equation itself, up to a factor, or `6 m` as a product; empty if there is
            none.
        reading: another value that may be meant: an angle in radians, the letter of an option with
            its text, the values of `x_1 = 1, x_2 = 2` as a list; empty if there is none.
        is_text: whether these are words, and no mathematics.
    """

    stated: str
    name: str = ""
    unit: str = ""
    quantity: str = ""
    relation: str = ""
    is_text: bool = False
    reading: str = ""

    @property
    def key(self) -> str:
        """A text that identifies the form; the value alone where there is no name and no unit."""
        if self.is_rigid:
            return self.stated
        parts = (self.stated, self.name, self.quantity, self.relation, self.reading)
        return "\N{UNIT SEPARATOR}".join(parts)

    @property
    def is_rigid(self) -> bool:
        """Whether it equals another rigid form only if the keys are the same."""
        return not (self.name or self.unit or self.relation or self.reading)


def side_name(sides: Mapping[str, str], name: str = "") -> str:
    """The name of a quantity of which words say where it is on some axes, such as `across: left`.

    Those of another such name are kept. A name that an equation gives stays as it is.
    """
    if name and not name.startswith(_SIDE):
        return name
    merged = _sides(name) | dict(sides)
    return "".join(f"{_SIDE}{axis} {where}" for axis, where in sorted(merged.items()))


def _sides(name: str) -> dict[str, str]:
    """Axes, and where on them; empty for a name that an equation gives."""
    pairs = (part.partition(" ") for part in name.split(_SIDE)[1:])
    return {axis: where for axis, _, where in pairs}


def equal(one: Form, other: Form) -> bool:
    """Whether two forms are the same answer."""
    if one == other:
        return True
    if one.relation and one.relation in (other.relation, other.stated):
        return True
    if other.relation and other.relation == one.stated:
        return True
    if _means(one, other) or _means(other, one):
        return True
    if one.name and other.name and one.name != other.name and _exclude(one.name, other.name):
        return False
    if one.unit and other.unit:
        return one.quantity == other.quantity
    return one.stated == other.stated


def _exclude(name: str, other: str) -> bool:
    """Whether different names cannot be of one value: two variables, or two sides of an axis."""
    one, two = _sides(name), _sides(other)
    return not (one or two) or any(one[axis] != two[axis] for axis in one.keys() & two.keys())


def _means(form: Form, other: Form) -> bool:
    """Whether the other form states what this one may mean."""
    if not form.reading or form.reading != other.stated or other.unit:
        return False
    is_named = bool(form.name and other.name and form.name != other.name)
    return not is_named or form.name.startswith(f"({other.name}_")  # `x = 1, 2`


def group(forms: Sequence[Form]) -> list[int]:
    """The class of each form, as the index of its first member; no class has unequal members.

    The classes do not depend on the order of the forms. Forms with names or units that equal
    members of two classes, such as `5` beside `5 cm` and `5 m`, are a class of their own.
    """
    first: dict[str, int] = {}
    number = [first.setdefault(form.key, at) for at, form in enumerate(forms)]
    classes: dict[int, int] = {}
    for bucket in _buckets([forms[at] for at in first.values()]):
        for members in _split(bucket):
            start = min(first[member.key] for member in members)
            classes.update((first[member.key], start) for member in members)
    return [classes.get(at, at) for at in number]


def _buckets(forms: Sequence[Form]) -> list[list[Form]]:
    """Groups of forms with different keys of which only those in one group can be equal.

    Forms that equal no other one are left out.
    """
    vague = [form for form in forms if not form.is_rigid]
    values = {value for form in vague for value in (form.stated, form.relation, form.reading)}
    near = vague + [form for form in forms if form.is_rigid and form.stated in values]
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = key = parent[parent[key]]
        return key

    for form in near:
        own = root(f"value {form.stated}")
        for link in _links(form):
            parent[root(link)] = own
            own = root(own)
    found: dict[str, list[Form]] = {}
    for form in sorted(near, key=lambda form: form.key):
        found.setdefault(root(f"value {form.stated}"), []).append(form)
    return [bucket for bucket in found.values() if len(bucket) > 1]


def _links(form: Form) -> Iterable[str]:
    if form.relation:
        yield f"value {form.relation}"
    if form.reading:
        yield f"value {form.reading}"
    if form.quantity:
        yield f"quantity {form.quantity}"


def _split(bucket: list[Form]) -> list[list[Form]]:
    """The bucket as one class if all are equal; else forms join the one class that they equal."""
    classes: list[list[Form]] = []
    index: dict[tuple[str, str], set[int]] = {}
    # Forms that say most come first, so that what they leave open does not decide.
    for form in sorted(bucket, key=lambda form: (-bool(form.name) - bool(form.unit), form.key)):
        touched: list[int] = []
        for at in _candidates(form, index, len(classes)):
            if any(equal(form, member) for member in classes[at]):
                touched.append(at)
                if len(touched) > 1:
                    break
        joins = len(touched) == 1 and all(equal(form, each) for each in classes[touched[0]])
        if not joins:
            classes.append([])
        place = touched[0] if joins else len(classes) - 1
        classes[place].append(form)
        for entry in _entries(form):
            index.setdefault(entry, set()).add(place)
    return classes


def _entries(form: Form) -> Iterable[tuple[str, str]]:
    """Under which entries of an index other forms find this one."""
    yield "name", form.name
    yield "quantity", form.quantity
    yield "relation", form.relation
    yield "reading", form.reading
    yield "stated", form.stated
    yield "both", f"{form.name} {form.quantity}"


def _candidates(form: Form, index: dict[tuple[str, str], set[int]], count: int) -> Iterable[int]:
    """The classes in which a form equal to this one may be; few, however many there are."""

    def found(kind: str, text: str) -> set[int]:
        return index.get((kind, text), set())

    name, quantity = form.name, form.quantity
    same = found("relation", form.stated) | found("reading", form.stated)
    if form.reading:
        same = same | found("stated", form.reading)
    if form.relation:
        same = same | found("relation", form.relation) | found("stated", form.relation)
    if name and quantity:
        pairs = (f"{name} {quantity}", f"{name} ", f" {quantity}", " ")
        return same.union(*(found("both", pair) for pair in pairs))
    if name or quantity:
        kind, text = ("name", name) if name else ("quantity", quantity)
        return same | found(kind, text) | found(kind, "")
    return range(count)
