"""From tokens to the parts of an answer: lists, sets, tuples, intervals, matrices, equations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

from rlcm_serve.answers.canonical import matrices, part, relations, sets
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.expressions.numerals import number
from rlcm_serve.answers.canonical.expressions.parser import ExpressionParser
from rlcm_serve.answers.canonical.names import name_of
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.quantities import joined, read_quantity
from rlcm_serve.answers.canonical.reader import Span, between
from rlcm_serve.answers.canonical.text.tokens import NUMBERS, Token, Unreadable, partners

_EQUAL = ("=", "\\approx", "\\equiv", "\\to")
_COMPARISONS = ("<", ">", "\\le", "\\ge", "\\ne")
_MEMBER = ("\\in",)
_RELATIONS = frozenset((*_EQUAL, *_COMPARISONS, *_MEMBER))
_RESIDUES = frozenset(("\\pmod", "\\bmod", "\\mod", "mod"))
_SET_OPERATORS = frozenset(("\\cup", "\\cap", "\\setminus", "U"))
_OPERATORS = _RELATIONS | _RESIDUES | _SET_OPERATORS
_NO_QUANTITIES = frozenset(("\\infty", "\\emptyset", "\\dots", "\\mathbb", ":"))
_CONJUNCTIONS = frozenset(("and", "or", "where"))
_MOST_MEMBERS = 500


class AnswerReader:
    """Reads a whole answer; `read` gives the part that it states."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.partner = partners(tokens)
        self._subtracts_sets = any(
            token[1] == "-" and after[1] == "\\{" for token, after in pairwise(tokens)
        )
        self._opening = {closing: at for at, closing in self.partner.items()}
        self._known: dict[Span, tuple[list[int], set[str]]] = {}

    def read(self, at: int, end: int) -> Part:
        """A list, or one item.

        Raises:
            Unreadable: it is no answer that this package can read.
            Undefined: it has no value.
        """
        opening = self._condition(at, end)
        found = self.separators(at, opening or end)
        spans = between(at, opening or end, [where for where, _ in found])
        if opening:
            spans.append((opening + 1, end - 1))
        if not 0 < len(spans) <= _MOST_MEMBERS:
            raise Unreadable("no members, or too many")
        if len(spans) == 1:
            return self.item(*spans[0])
        parts = [self.item(*span) for span in spans]
        if (systems := part.systems(parts, [mark for _, mark in found])) is not None:
            return systems
        if self.marks(*spans[0], ("\\ne",)):  # `x \ne 1, 2`
            parts = sets.excluded(parts)
        parts = sets.without_integers(parts)
        if len(parts) == 1:
            return parts[0]
        if any(each.is_condition for each in parts):
            return sets.join_conditions(parts, either=any(mark == "or" for _, mark in found))
        if all(mark == "and" for _, mark in found) and (whole := joined(parts)) is not None:
            return whole
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
        if end - at == 1 and self.tokens[at][0] in NUMBERS:
            return part.value(number(*self.tokens[at][:2]))
        _, texts = self._outside(at, end)
        ends_in_bracket = self.tokens[end - 1][1] == ")"
        if ends_in_bracket or self._subtracts_sets or not texts.isdisjoint(_OPERATORS):
            if (found := self._modular(at, end)) is not None:
                return found
            if relation := self.marks(at, end, _RELATIONS):
                return self._relation(at, end, relation)
            if operators := self._set_operators(at, end):
                return sets.read_operation(self, at, end, operators)
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
        if self._outside(at, end)[1].isdisjoint(_NO_QUANTITIES):
            return read_quantity(self, at, end)
        texts = [self.tokens[i][1] for i in range(at, min(end, at + 5))]
        if texts[-1] == "\\infty" and end - at <= 2 and texts[0] in ("\\infty", "+", "-"):
            return part.infinite(-1 if texts[0] == "-" else 1)
        if end - at == 1 and texts[0] == "\\emptyset":
            return part.real_set(())
        if texts == ["\\dots"]:
            return Part("...")
        if texts[0] == "\\mathbb":
            return sets.named(self, at + 1, end)
        if (ratio := self.marks(at, end, (":",))) and len(ratio) > 1:
            nodes = [self.expression(*span) for span in between(at, end, ratio)]
            parts = [part.value(ex.quotient(node, nodes[0])) for node in nodes]
            return part.tuple_of(parts, "ratio ", "")
        return read_quantity(self, at, end)

    def _bracketed(self, at: int, end: int) -> Part:
        opening, closing = self.tokens[at][1], self.tokens[end - 1][1]
        at, end = at + 1, end - 1
        if opening == "begin":
            return matrices.read_matrix(self, at, end)
        separators = [where for where, mark in self.separators(at, end) if mark in ",;"]
        if opening == "\\{" or (opening == "{" and separators):
            return sets.read_set(self, at, end)
        if opening in ("(", "[", "\\langle") and separators:
            spans = between(at, end, separators)
            if len(spans) > _MOST_MEMBERS:
                raise Unreadable("too many members")
            parts = [sets.read_member(self, *span) for span in spans]
            if sum(bool(each.members) for each in parts) == 1:  # `(\pm 3, 0)`
                return part.listed(part.choices(parts, opening, closing))
            if opening == "[" and all(self._is_row(span) for span in spans):
                return matrices.of_rows([each.stated for each in parts])
            shown = ("(", ")") if opening == "\\langle" else (opening, closing)
            return part.tuple_of(parts, *shown)
        if opening in ("\\lfloor", "\\lceil"):
            return self._value(at - 1, end + 1)
        return self.read(at, end)

    def _prefixed(self, at: int, end: int) -> Part | None:
        """A point `P(1, 2)`, `C(5, 2)`, or a number before a matrix; None if it is neither."""
        opening = self._opening.get(end - 1, 0)
        if not opening:
            return None
        kind, text, _ = self.tokens[at]
        if self.tokens[opening][1] == "begin":
            return matrices.read_matrix(self, opening + 1, end - 1, self.expression(at, opening))
        if opening != at + 1 or kind not in ("word", "text") or len(text) > 1 or text.islower():
            return None
        separators = [where for where, _ in self.separators(opening + 1, end - 1)]
        if self.tokens[opening][1] != "(" or not separators:
            return None
        if text == "C" and len(separators) == 1:
            spans = between(opening + 1, end - 1, separators)
            return part.value(ex.binomial(*(self.expression(*span) for span in spans)))
        return replace(self._bracketed(opening, end), name=text.lower())

    def _condition(self, at: int, end: int) -> int:
        """Where the bracket of `y = x^2 (x > 0)` begins; 0 if no condition stands behind."""
        opening = self._opening.get(end - 1, 0)
        if opening <= at or self.tokens[opening][1] != "(":
            return 0
        is_first = opening - 1 == at or self.tokens[opening - 2][1] == ","
        kind, text, _ = self.tokens[opening - 1]
        if text in ("P", "p") or (is_first and kind in ("word", "text")):  # `P(X = 1)`
            return 0
        return opening if self.marks(opening + 1, end - 1, _RELATIONS) else 0

    def _set_operators(self, at: int, end: int) -> list[int]:
        found = self.marks(at, end, _SET_OPERATORS)
        minus = self.marks(at + 1, end - 1, ("-",)) if self._subtracts_sets else []
        return sorted(found + [where for where in minus if self.tokens[where + 1][1] == "\\{"])

    def _is_row(self, span: tuple[int, int]) -> bool:
        return self.tokens[span[0]][1] == "[" and self.partner.get(span[0]) == span[1] - 1

    def _relation(self, at: int, end: int, marks: list[int]) -> Part:
        near = [i for i in marks if self.tokens[i][1] == "\\approx"]
        if near and not name_of(self.tokens, at, near[0]):  # `1/3 ≈ 0.333` is a third
            return relations.rounded(self, (at, near[0]), (near[-1] + 1, end))
        kinds = {self.tokens[where][1] for where in marks}
        spans = between(at, end, marks)
        if spans and marks == [at] and kinds <= {*_COMPARISONS}:  # `\ge 5`
            return relations.ray(self, spans[0], self.tokens[at][1])
        if len(spans) != len(marks) + 1:
            raise Unreadable("a side is missing")
        if kinds <= {*_EQUAL}:
            if "\\to" in kinds and self._has_letters(*spans[-1]):
                raise Unreadable("an implication, or a function's sets")
            return relations.equation(self, spans)
        if kinds <= {*_COMPARISONS}:
            return relations.comparison(self, spans, [self.tokens[where][1] for where in marks])
        if kinds == {*_MEMBER} and len(spans) == 2:
            return sets.read_membership(self, *spans)
        raise Unreadable("a relation")

    def _has_letters(self, at: int, end: int) -> bool:
        return any(kind in ("word", "text") for kind, _, _ in self.tokens[at:end])

    def _modular(self, at: int, end: int) -> Part | None:
        r"""`3 \pmod 7` or `3 (mod 7)`; None if it is neither."""
        marks = self.marks(at, end, _RESIDUES)
        inner = 0
        if not marks and self.tokens[end - 1][1] == ")":
            opening = self._opening[end - 1]
            if self.tokens[opening + 1][1] in ("mod", "\\mod", "\\bmod"):
                marks, inner = [opening], 1
        if len(marks) != 1 or marks[0] == at:
            return None
        modulus = self.expression(marks[0] + 1 + inner, end - inner)
        rest = self.item(at, marks[0])
        if not isinstance(modulus, int) or not isinstance(rest.node, int) or modulus < 1:
            raise Unreadable("a residue")
        return Part(f"{rest.node % modulus} mod {modulus}", rest.name)

    def separators(self, at: int, end: int) -> list[tuple[int, str]]:
        """Where a list is divided, and by what, outside of brackets."""
        found = []
        for where in self._outside(at, end)[0]:
            kind, text, _ = self.tokens[where]
            if kind == "mark" and text in (",", ";"):
                found.append((where, text))
            elif kind in ("word", "text") and (word := text.lower().strip(" ,")) in _CONJUNCTIONS:
                if word != "where":
                    found.append((where, word))
                elif where + 2 < end and self.tokens[where + 2][1] == "\\in":
                    found.append((where, ","))
        return found

    def marks(self, at: int, end: int, marks: Collection[str]) -> list[int]:
        """Where one of the marks is, outside of brackets."""
        outside, texts = self._outside(at, end)
        if texts.isdisjoint(marks):
            return []
        return [where for where in outside if self.tokens[where][1] in marks]

    def _outside(self, at: int, end: int) -> tuple[list[int], set[str]]:
        """The tokens of a range that are not in brackets, and their texts."""
        span = (at, end)
        if (found := self._known.get(span)) is None:
            places = []
            while at < end:
                places.append(at)
                at = self.partner.get(at, at) + 1
            found = self._known[span] = (places, {self.tokens[where][1] for where in places})
        return found
