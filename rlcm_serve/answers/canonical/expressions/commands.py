"""Commands of LaTeX in an expression: fractions, roots, functions, Greek letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.cursor import TokenCursor
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.expressions.numerals import number
from rlcm_serve.answers.canonical.text.tokens import Unreadable
from rlcm_serve.answers.canonical.text.vocabulary import FUNCTIONS, GREEK

_INVERTIBLE = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
_MP_NAME = {"ln": "log"} | {f"arc{name}": f"a{name}" for name in _INVERTIBLE}


class CommandParser(TokenCursor, ABC):
    """Reads commands; their arguments are read by `parser.ExpressionParser`."""

    @abstractmethod
    def _group(self) -> Node:
        """The expression in the brackets that begin here."""

    @abstractmethod
    def _script(self) -> Node:
        """An exponent or index."""

    @abstractmethod
    def _power(self) -> Node:
        """A primary expression with its exponents."""

    @abstractmethod
    def _primary(self) -> Node:
        """A number, a name, a command or a group."""

    @abstractmethod
    def _starts_factor(self) -> bool:
        """Whether the next token continues a product without a sign between."""

    def _command(self, name: str) -> Node:
        if name in FUNCTIONS:
            return self._function(FUNCTIONS[name])
        match name:
            case "frac":
                return ex.quotient(self._argument(), self._argument())
            case "sqrt":
                return self._root()
            case "binom":
                return ex.binomial(self._argument(), self._argument())
            case "pi":
                return ("constant", "pi")
        if name in GREEK:
            return ex.symbol(self._indexed(name))
        raise Unreadable(name)

    def _factorial(self, node: Node) -> Node:
        """`n!` or `n!!`, which is not the factorial of a factorial."""
        marks = 0
        while self._next == "!":
            self._at, marks = self._at + 1, marks + 1
        if marks > 2:
            raise Unreadable("several factorials")
        if marks == 1:
            return ex.function("factorial", node)
        found = ex.double_factorial(node)
        return ex.symbol(f"({evaluation.key(node)})!!") if found is None else found

    def _argument(self) -> Node:
        """An argument of a command."""
        if self._next in ("{", "("):
            return self._group()
        kind, text, _ = self._tokens[self._at] if self._at < self._end else ("", "", False)
        if kind == "number":
            self._at += 1
            return number(kind, text)
        return self._primary()

    def _root(self) -> Node:
        degree: Node = 2
        if self._next == "[":
            degree = self._group()
        base = self._argument()
        if not isinstance(degree, int) or degree < 2:
            raise Unreadable("a root")
        return ex.power(base, Fraction(1, degree))

    def _function(self, name: str) -> Node:
        base: Node | None = None
        exponent: Node = 1
        while self._next in ("_", "^"):
            is_base = self._next == "_"
            self._at += 1
            if is_base:
                base = self._script()
            else:
                exponent = self._script()
        argument = self._function_argument()
        if exponent == -1:
            if name not in _INVERTIBLE:
                raise Unreadable(f"the inverse of {name}")
            name, exponent = f"arc{name}", 1
        if name == "lg":
            base = 10
        if name in ("lg", "log", "ln"):
            node = _logarithm(argument)
            if base is not None:
                node = ex.quotient(node, _logarithm(base))
        else:
            node = ex.function(_MP_NAME.get(name, name), argument)
        return node if exponent == 1 else ex.power(node, exponent)

    def _function_argument(self) -> Node:
        if self._next in ("(", "[", "{"):
            return self._group()
        factors = [self._power()]
        while self._starts_factor() and not self._starts_function():
            factors.append(self._power())
        return ex.product(*factors)

    def _starts_function(self) -> bool:
        return self._tokens[self._at][1].removeprefix("\\") in FUNCTIONS


def _logarithm(argument: Node) -> Node:
    """The natural logarithm, exact where that is simple."""
    if argument == 1:
        return 0
    return ex.function("log", argument)
