"""From tokens to the parts of an answer: lists, sets, tuples, intervals, matrices, equations."""

from __future__ import annotations

from dataclasses import replace

from rlcm_serve.answers.canonical import intervals, part, relations
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.expressions.parser import ExpressionParser
from rlcm_serve.answers.canonical.names import name_of
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.quantities import read_quantity
from rlcm_serve.answers.canonical.text.tokens import Token, Unreadable, partners
from rlcm_serve.answers.canonical.text.words import only_words, text_key

_EQUAL = ("=", "\\approx", "\\equiv", "\\to")
_COMPARISONS = ("<", ">", "\\le", "\\ge", "\\ne")
_MEMBER = ("\\in",)
_SET_OPERATORS = ("\\cup", "\\cap", "\\setminus", "U")
_MATRIX_ROW = "\\\\"
_MOST_MEMBERS = 500


class AnswerReader:
    """Reads a whole answer; `read` gives the part that it states."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.partner = partners(tokens)
        self._known: dict[tuple[int, int], list[int]] = {}

    def read(self, at: int, end: int) -> Part:
        """A list, or one item.

        Raises:
            Unreadable: it is no answer that this package can read.
            Undefined: it has no value.
        """
        found = self._separators(at, end)
        spans = _between(at, end, [where for where, _ in found])
        if len(spans) > _MOST_MEMBERS:
            raise Unreadable("too many members")
        if len(spans) == 1:
            return self.item(*spans[0])
        parts = [self.item(*span) for span in spans]
        if any(each.is_condition for each in parts):
            return _conditions(parts, either=any(mark == "or" for _, mark in found))
        if all(mark == "or" for _, mark in found) and len({each.form() for each in parts}) == 1:
            return parts[0]
        return part.listed(parts)

    def item(self, at: int, end: int) -> Part:
        """One member of a list.

        Raises:
            As `read`.
        """
        if at >= end:
            raise Unreadable("nothing")
        if (found := self._modular(at, end)) is not None:
            return found
        relation = self._marks(at, end, (*_EQUAL, *_COMPARISONS, *_MEMBER))
        if relation:
            return self._relation(at, end, relation)
        if operators := self._set_operators(at, end):
            return self._set_operation(at, end, operators)
        if self.partner.get(at) == end - 1:
            return self._bracketed(at, end)
        if (found := self._prefixed(at, end)) is not None:
            return found
        return self._value(at, end)

    def expression(self, at: int, end: int) -> Node:
        """The expression of a range.

        Raises:
            As `read`.
        """
        return ExpressionParser(self.tokens, self.partner, at, end).read()

    def _value(self, at: int, end: int) -> Part:
        texts = [self.tokens[i][1] for i in range(at, min(end, at + 5))]
        if texts[-1] == "\\infty" and end - at <= 2 and texts[0] in ("\\infty", "+", "-"):
            return part.infinite(-1 if texts[0] == "-" else 1)
        if end - at == 1 and texts[0] == "\\emptyset":
            return Part(intervals.EMPTY, numbers=())
        if texts == ["\\dots"]:
            return Part("...")
        if texts[0] == "\\mathbb":
            name = "".join(self.tokens[i][1] for i in range(at + 1, end)).strip("{}")
            return part.real_set(intervals.REALS) if name == "R" else Part(f"set {name}")
        if (ratio := self._marks(at, end, (":",))) and len(ratio) > 1:
            nodes = [self.expression(*span) for span in _between(at, end, ratio)]
            parts = [part.value(ex.quotient(node, nodes[0])) for node in nodes]
            return part.tuple_of(parts, "ratio ", "")
        return read_quantity(self, at, end)

    def _bracketed(self, at: int, end: int) -> Part:
        opening, closing = self.tokens[at][1], self.tokens[end - 1][1]
        at, end = at + 1, end - 1
        if opening == "begin":
            return self._matrix(at, end)
        separators = [where for where, mark in self._separators(at, end) if mark in ",;"]
        if opening == "\\{" or (opening == "{" and separators):
            return self._set(at, end)
        if opening in ("(", "[", "\\langle") and separators:
            spans = _between(at, end, separators)
            if len(spans) > _MOST_MEMBERS:
                raise Unreadable("too many members")
            parts = [self._member(*span) for span in spans]
            if opening == "[" and all(self._is_row(span) for span in spans):
                return _matrix([each.stated for each in parts])
            shown = ("(", ")") if opening == "\\langle" else (opening, closing)
            return part.tuple_of(parts, *shown)
        if opening in ("\\lfloor", "\\lceil"):
            return self._value(at - 1, end + 1)
        return self.read(at, end)

    def _prefixed(self, at: int, end: int) -> Part | None:
        """A point `P(1, 2)`, `C(5, 2)`, or a number before a matrix; None if it is neither."""
        opening = next((i for i in range(at + 1, end) if self.partner.get(i) == end - 1), 0)
        if not opening:
            return None
        kind, text, _ = self.tokens[at]
        if self.tokens[opening][1] == "begin":
            return self._matrix(opening + 1, end - 1, self.expression(at, opening))
        if opening != at + 1 or kind not in ("word", "text") or len(text) > 1 or text.islower():
            return None
        separators = [where for where, _ in self._separators(opening + 1, end - 1)]
        if self.tokens[opening][1] != "(" or not separators:
            return None
        if text == "C" and len(separators) == 1:
            spans = _between(opening + 1, end - 1, separators)
            return part.value(ex.binomial(*(self.expression(*span) for span in spans)))
        return replace(self._bracketed(opening, end), name=text.lower())

    def _set_operators(self, at: int, end: int) -> list[int]:
        found = self._marks(at, end, _SET_OPERATORS)
        minus = self._marks(at + 1, end - 1, ("-",))
        return sorted(found + [where for where in minus if self.tokens[where + 1][1] == "\\{"])

    def _is_row(self, span: tuple[int, int]) -> bool:
        return self.tokens[span[0]][1] == "[" and self.partner.get(span[0]) == span[1] - 1

    def _matrix(self, at: int, end: int, factor: Node = 1) -> Part:
        rows = []
        for row in _between(at, end, self._marks(at, end, (_MATRIX_ROW,))):
            cells = _between(*row, self._marks(*row, ("&",)))
            members = [self.item(*cell) for cell in cells]
            if factor != 1:
                members = [part.value(ex.product(factor, _number(each))) for each in members]
            rows.append(part.tuple_of(members, "[", "]").stated)
        return _matrix(rows)

    def _set(self, at: int, end: int) -> Part:
        if at == end:
            return Part(intervals.EMPTY, numbers=())
        if len(bars := self._marks(at, end, ("\\mid", "|", ":"))) == 1:
            return self._set_with_condition((at, bars[0]), (bars[0] + 1, end))
        members = [self._member(*span) for span in _between(at, end, self._commas(at, end))]
        return part.listed(members, is_set=True)

    def _set_with_condition(self, members: tuple[int, int], condition: tuple[int, int]) -> Part:
        r"""`\{x \mid x > 3\}` is its condition; other sets are named by both sides."""
        name, found = name_of(self.tokens, *members), self.read(*condition)
        shown = self.item(*members)
        if found.name and found.name in (name, shown.name) and (name or shown.numbers):
            return found
        return Part(f"set {shown.embedded()} : {found.embedded()}")

    def _member(self, at: int, end: int) -> Part:
        """A member of a set or a tuple, which may be words."""
        tokens = self.tokens[at:end]
        text = " ".join(text for _, text, _ in tokens)
        if all(kind in ("word", "text") for kind, _, _ in tokens) and only_words(text):
            return part.words(text_key(text))
        return self.item(at, end)

    def _commas(self, at: int, end: int) -> list[int]:
        return [where for where, mark in self._separators(at, end)]

    def _set_operation(self, at: int, end: int, operators: list[int]) -> Part:
        spans = _between(at, end, operators)
        if len(spans) != len(operators) + 1:
            raise Unreadable("a set is missing")
        parts = [self.item(*span) for span in spans]
        sets = [each.numbers for each in parts]
        found = sets[0]
        for where, other in zip(operators, sets[1:], strict=True):
            if found is None or other is None:
                raise Unreadable("a set that is not of real numbers")
            mark = self.tokens[where][1]
            if mark == "\\cap":
                found = intervals.intersection(found, other)
            elif mark in ("\\setminus", "-"):
                found = intervals.intersection(found, intervals.complement(other))
            else:
                found = intervals.union(found, other)
        return part.real_set(found or ())

    def _relation(self, at: int, end: int, marks: list[int]) -> Part:
        near = [i for i in marks if self.tokens[i][1] == "\\approx"]
        if near and not name_of(self.tokens, at, near[0]):  # `1/3 ≈ 0.333` is a third
            return self.item(at, near[0])
        kinds = {self.tokens[where][1] for where in marks}
        spans = _between(at, end, marks)
        if len(spans) != len(marks) + 1:
            raise Unreadable("a side is missing")
        if kinds <= {*_EQUAL}:
            return relations.equation(self, spans)
        if kinds <= {*_COMPARISONS}:
            return relations.comparison(self, spans, [self.tokens[where][1] for where in marks])
        if kinds == {*_MEMBER} and len(spans) == 2:
            name = name_of(self.tokens, *spans[0])
            found = self.item(*spans[1])
            return replace(found, name=name or found.name)
        raise Unreadable("a relation")

    def _modular(self, at: int, end: int) -> Part | None:
        r"""`3 \pmod 7` or `3 (mod 7)`; None if it is neither."""
        marks = self._marks(at, end, ("\\pmod", "\\bmod", "\\mod", "mod"))
        inner = 0
        if not marks and self.tokens[end - 1][1] == ")":
            opening = next(i for i in range(at, end) if self.partner.get(i) == end - 1)
            if self.tokens[opening + 1][1] in ("mod", "\\mod", "\\bmod"):
                marks, inner = [opening], 1
        if len(marks) != 1 or marks[0] == at:
            return None
        modulus = self.expression(marks[0] + 1 + inner, end - inner)
        rest = self.item(at, marks[0])
        if not isinstance(modulus, int) or not isinstance(rest.node, int) or modulus < 1:
            raise Unreadable("a residue")
        return Part(f"{rest.node % modulus} mod {modulus}", rest.name)

    def _separators(self, at: int, end: int) -> list[tuple[int, str]]:
        """Where a list is divided, and by what, outside of brackets."""
        found = []
        for where in self._outside(at, end):
            kind, text, _ = self.tokens[where]
            if kind == "mark" and text in (",", ";"):
                found.append((where, text))
            elif kind in ("word", "text") and text.lower().strip(" ,") in ("and", "or"):
                found.append((where, text.lower().strip(" ,")))
        return found

    def _marks(self, at: int, end: int, marks: tuple[str, ...]) -> list[int]:
        """Where one of the marks is, outside of brackets."""
        return [where for where in self._outside(at, end) if self.tokens[where][1] in marks]

    def _outside(self, at: int, end: int) -> list[int]:
        """The tokens of a range that are not in brackets."""
        span = (at, end)
        if (found := self._known.get(span)) is None:
            found = self._known[span] = []
            while at < end:
                found.append(at)
                at = self.partner.get(at, at) + 1
        return found


def _between(at: int, end: int, marks: list[int]) -> list[tuple[int, int]]:
    """The ranges between the marks, without empty ones."""
    starts, ends = [at, *(mark + 1 for mark in marks)], [*marks, end]
    return [(low, high) for low, high in zip(starts, ends, strict=True) if low < high]


def _conditions(parts: list[Part], either: bool) -> Part:
    """Inequalities joined by `or`, or by `and` or a comma."""
    sets = [each.numbers for each in parts]
    names = {each.name for each in parts if each.name}
    found = sets[0]
    for other in sets[1:]:
        if found is None or other is None or len(names) > 1:
            return part.listed(parts)
        found = intervals.union(found, other) if either else intervals.intersection(found, other)
    if found is None:
        return part.listed(parts)
    if not found:  # `x < 1, x > 3` means either
        found = intervals.union(*(numbers for numbers in sets if numbers is not None))
    return part.real_set(found, next(iter(names), ""), is_condition=True)


def _number(cell: Part) -> Node:
    if cell.node is None:
        raise Unreadable("a cell that is no number")
    return cell.node


def _matrix(rows: list[str]) -> Part:
    return Part(rows[0] if len(rows) == 1 else f"matrix {';'.join(rows)}")
