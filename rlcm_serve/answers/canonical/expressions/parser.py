"""From tokens to an expression."""

from __future__ import annotations

from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.commands import CommandParser
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.expressions.numerals import in_base, number
from rlcm_serve.answers.canonical.text.tokens import NUMBERS, Unreadable
from rlcm_serve.answers.canonical.text.vocabulary import COMMANDS, ENGLISH, WRITTEN

_OPENINGS = frozenset(("(", "[", "{", "\\lfloor", "\\lceil"))
_DEEPEST = 40
_MOST_POSTFIXES = 5


class ExpressionParser(CommandParser):
    """Reads one expression from a range of tokens; a recursive descent of bounded depth."""

    def read(self) -> Node:
        """The expression of the whole range.

        Raises:
            Unreadable: it is none.
            Undefined: it has no value.
        """
        node = self._sum()
        if self._at != self._end:
            raise Unreadable("tokens are left")
        return node

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable("nested too deeply")
        terms: list[Node] = []
        sign = self._sign()
        while True:
            term = self._product()
            terms.append(_signed(sign, term))
            if self._next not in ("+", "-", "\\pm", "\\mp"):
                break
            sign = self._sign()
        self._depth -= 1
        return terms[0] if len(terms) == 1 else ex.total(*terms)

    def _product(self) -> Node:
        factors = [self._power()]
        while True:
            mark = self._next
            if mark == "*":
                self._at += 1
                factors.append(_signed(self._sign(), self._power()))
            elif mark in ("/", ":"):
                self._at += 1
                divisor = _signed(self._sign(), self._power())
                factors = [ex.quotient(ex.product(*factors), divisor)]
            elif self._starts_factor():
                factors.append(self._power())
            else:
                return factors[0] if len(factors) == 1 else ex.product(*factors)

    def _starts_factor(self) -> bool:
        """Whether the next token continues a product without a sign between."""
        if self._at >= self._end:
            return False
        kind, text, _ = self._tokens[self._at]
        if kind in NUMBERS:  # only after a bracket: `(3)2`
            return self._tokens[self._at - 1][1] in (")", "]")
        if kind != "mark":
            return kind != "based" and text not in ("and", "or")
        if text == "|":
            return not self._in_bars
        return text in _OPENINGS or text[1:] in COMMANDS

    def _power(self) -> Node:
        """A primary expression with its exponents, factorials, per cent and degrees."""
        before = self._letters_before_the_last()
        node = self._primary()
        for _ in range(_MOST_POSTFIXES):
            mark = self._next
            if mark == "^":
                self._at += 1
                if self._reads_degrees(ex.rational(node)):
                    node = ("degrees", node)
                else:
                    node = ex.power(node, self._script())
            elif mark == "!":
                node = self._factorial(node)
            elif mark == "%":
                self._at += 1
                node = ex.quotient(node, 100)
            elif mark == "\\circ":
                self._at += 1
                node = ("degrees", node)
            else:
                break
        return ex.product(*before, node) if before else node

    def _letters_before_the_last(self) -> list[Node]:
        """The first letters of a product such as `ab`, for in `ab^2` only `b` is squared."""
        kind, text, _ = self._tokens[self._at] if self._at < self._end else ("", "", False)
        if kind not in ("word", "text") or not _is_product_of_letters(text):
            return []
        self._skipped = len(text) - 1
        return [_letter(letter) for letter in text[:-1]]

    def _script(self) -> Node:
        """An exponent or index: a group, or one signed primary expression."""
        if self._next == "{":
            return self._group()
        return _signed(self._sign(), self._primary())

    def _group(self) -> Node:
        """The expression in the brackets that begin here."""
        start, closing = self._at + 1, self._partner[self._at]
        if self._tokens[self._at][1] not in ("(", "[", "{"):
            raise Unreadable("a set")
        self._at = closing + 1
        kind, text, _ = self._tokens[start]
        if closing == start + 1 and kind in NUMBERS and self._depth < _DEEPEST - 2:
            return number(kind, text)
        return self._inner(start, closing)

    def _inner(self, start: int, end: int) -> Node:
        """The expression of a range in brackets."""
        inner = ExpressionParser(self._tokens, self._partner, start, end)
        inner._depth = self._depth + 1
        return inner.read()

    def _primary(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST or self._at >= self._end:
            raise Unreadable("nested too deeply, or incomplete")
        node = self._unsigned(*self._tokens[self._at][:2])
        self._depth -= 1
        return node

    def _unsigned(self, kind: str, text: str) -> Node:
        if kind in NUMBERS:
            return self._number()
        if kind == "based":
            self._at += 1
            return in_base(text, self._base())
        if kind != "mark":
            return self._letters(text)
        if text in ("(", "[", "{"):
            node = self._group()
            return self._in_base() if text == "(" and self._next == "_" else node
        if text == "|":
            return self._bars()
        if text in ("\\lfloor", "\\lceil"):
            return self._rounding(text)
        if text[0] == "\\" and text[1:].isalpha():
            self._at += 1
            return self._command(text[1:])
        raise Unreadable(text)

    def _number(self) -> Node:
        kind, text, _ = self._tokens[self._at]
        if self._at + 1 < self._end and self._tokens[self._at + 1][1] == "_" and text.isdigit():
            self._at += 1
            return in_base(text, self._base())
        self._at += 1
        value = number(kind, text)
        if isinstance(value, int) and (part := self._fraction_part()) is not None:
            return ex.total(value, part)
        return value

    def _in_base(self) -> Node:
        """The digits of the group that has just ended, in the base that follows."""
        digits = self._tokens[self._at - 2]
        if self._tokens[self._at - 3][1] != "(" or not digits[1].isalnum() or digits[0] == "mark":
            raise Unreadable("an index")
        return in_base(digits[1], self._base())

    def _base(self) -> int:
        if self._next != "_":
            raise Unreadable("no base")
        self._at += 1
        base = self._script()
        if not isinstance(base, int) or not 2 <= base <= 36:
            raise Unreadable("a base")
        return base

    def _bars(self) -> Node:
        self._at += 1
        self._in_bars += 1
        node = self._sum()
        self._in_bars -= 1
        if self._next != "|":
            raise Unreadable("a bar that is not closed")
        self._at += 1
        return ex.function("abs", node)

    def _rounding(self, text: str) -> Node:
        start, closing = self._at + 1, self._partner[self._at]
        self._at = closing + 1
        return ex.function("floor" if text == "\\lfloor" else "ceil", self._inner(start, closing))

    def _letters(self, text: str) -> Node:
        """A name, a product of letters, or a function in plain text."""
        if text in WRITTEN:
            self._at += 1
            return self._command(text)
        for name in ("sqrt", "pi"):
            if text.startswith(name) and len(text) < len(name) + 2:
                self._skipped = 0
                self._at += 1
                return ex.product(self._command(name), *map(_letter, text[len(name) :]))
        if len(text) > 1 and not _is_product_of_letters(text):
            raise Unreadable("a word")
        text, self._skipped = text[self._skipped :], 0
        self._at += 1
        before, last = text[:-1], text[-1]
        if text == "f" and self._next == "(" and not self._tokens[self._at][2]:
            return ex.symbol(f"f({evaluation.key(self._group())})")
        name = last if last in "ei" else self._indexed(last)
        return ex.product(*map(_letter, before), _letter(name))


def _letter(name: str) -> Node:
    return ("constant", name) if name in ("e", "i") else ex.symbol(name)


def _is_product_of_letters(text: str) -> bool:
    return (
        1 < len(text) <= 3
        and text.isalpha()
        and text not in WRITTEN
        and text.lower() not in ENGLISH
        and not text.istitle()
    )


def _signed(sign: str, node: Node) -> Node:
    match sign:
        case "":
            return node
        case "-":
            return ex.product(-1, node)
        case "\\pm":
            return ("plus-minus", node)
    return ("minus-plus", node)
