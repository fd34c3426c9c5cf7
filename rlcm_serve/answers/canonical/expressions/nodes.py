"""Expressions, exact as long as they are rational."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, comb, factorial, floor, isqrt
from typing import Any

from rlcm_serve.answers.canonical.expressions.fixed_point import Undefined

Node = int | Fraction | tuple[Any, ...]
"""A rational number, or an operator with its operands, such as `("+", ("symbol", "x"), 1)`."""

_MOST_BITS = 1 << 14
"""A rational number with more bits is refused."""
_RADIANS = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))


def rational(node: Node) -> bool:
    """Whether the expression is a rational number."""
    return not isinstance(node, tuple)


def symbol(name: str) -> Node:
    """A variable."""
    return ("symbol", name)


def total(*terms: Node) -> Node:
    """The sum."""
    number, others = _gather("+", terms, 0)
    if not others:
        return number
    return ("+", *others, number) if number or len(others) > 1 else others[0]


def product(*factors: Node) -> Node:
    """The product."""
    number, others = _gather("*", factors, 1)
    if not others:
        return number
    return ("*", *others, number) if number != 1 or len(others) > 1 else others[0]


def quotient(numerator: Node, denominator: Node) -> Node:
    """One expression divided by another.

    Raises:
        Undefined: the denominator is zero.
    """
    if isinstance(denominator, tuple):
        return product(numerator, ("^", denominator, -1))
    if denominator == 0:
        raise Undefined("division by zero")
    if isinstance(numerator, tuple):
        return product(numerator, simplest(Fraction(1, 1) / denominator))
    return simplest(Fraction(numerator, denominator))


def power(base: Node, exponent: Node) -> Node:
    """A power, exact if it is rational.

    Raises:
        Undefined: it is too large, or zero is divided by.
    """
    if isinstance(exponent, tuple):
        return ("^", base, exponent)
    if isinstance(exponent, int):
        if isinstance(base, tuple):
            return ("^", base, exponent) if exponent != 1 else base
        return _rational_power(base, exponent)
    root = exact_root(base, exponent.denominator)
    return ("^", base, exponent) if root is None else power(root, exponent.numerator)


def function(name: str, argument: Node) -> Node:
    """A function of one argument; in sines and cosines degrees are angles."""
    if name in _RADIANS:
        argument = rewrite(argument, "degrees", lambda angle: product(angle, DEGREE))
    if not isinstance(argument, tuple):
        match name:
            case "abs":
                return -argument if argument < 0 else argument
            case "floor":
                return floor(argument)
            case "ceil":
                return ceil(argument)
            case "factorial" if isinstance(argument, int) and 0 <= argument <= 1000:
                return factorial(argument)
    return (name, argument)


def binomial(upper: Node, lower: Node) -> Node:
    """The binomial coefficient, exact if it is one of whole numbers up to 1,000."""
    if isinstance(upper, int) and isinstance(lower, int) and 0 <= lower <= upper <= 1000:
        return comb(upper, lower)
    below = total(upper, product(-1, lower))
    factorials = (function("factorial", node) for node in (lower, below))
    return quotient(function("factorial", upper), product(*factorials))


def double_factorial(node: Node) -> Node | None:
    """`n(n-2)(n-4)...`; None if it is not known whether n is even.

    Raises:
        Undefined: n is negative or too large.
    """
    if isinstance(node, int) and not 0 <= node <= 1000:
        raise Undefined("a double factorial")
    match _remainder(node):
        case 0:
            half = product(node, Fraction(1, 2))
            return product(power(2, half), function("factorial", half))
        case 1:
            half = product(total(node, -1), Fraction(1, 2))
            below = product(power(2, half), function("factorial", half))
            return quotient(function("factorial", node), below)
    return None


def _remainder(node: Node) -> int | None:
    """0 for an even number, 1 for an odd one, where variables are whole; None if unknown."""
    if isinstance(node, int):
        return node % 2
    if not isinstance(node, tuple) or node[0] not in "+*":
        return None
    if node[0] == "*":
        numbers = [each for each in node[1:] if isinstance(each, int)]
        letters = [each for each in node[1:] if isinstance(each, tuple) and each[0] == "symbol"]
        is_whole = len(numbers) + len(letters) == len(node) - 1
        return 0 if is_whole and any(each % 2 == 0 for each in numbers) else None
    remainders = [_remainder(each) for each in node[1:]]
    return None if None in remainders else sum(filter(None, remainders)) % 2


def exact_root(base: Node, degree: int) -> Node | None:
    """The root of a rational number; None if it is not rational."""
    if isinstance(base, tuple) or (base < 0 and degree % 2 == 0) or degree > 64:
        return None
    value = Fraction(base)
    top, bottom = _whole_root(abs(value.numerator), degree), _whole_root(value.denominator, degree)
    if top is None or bottom is None:
        return None
    return simplest(Fraction(-top if base < 0 else top, bottom))


def rewrite(node: Node, operator: str, replace: Callable[[Node], Node]) -> Node:
    """The expression with `replace(operand)` for every `(operator, operand)`."""
    if not isinstance(node, tuple) or node[0] == "symbol" or node[0] == "constant":
        return node
    if node[0] == operator:
        return replace(rewrite(node[1], operator, replace))
    operands = [rewrite(each, operator, replace) for each in node[1:]]
    match node[0]:
        case "+":
            return total(*operands)
        case "*":
            return product(*operands)
        case "^":
            return power(operands[0], operands[1])
    return (node[0], *operands)


def contains(node: Node, *operators: str) -> bool:
    """Whether one of the operators is in the expression."""
    if not isinstance(node, tuple):
        return False
    if node[0] in operators:
        return True
    if node[0] in ("symbol", "constant"):
        return False
    return any(isinstance(each, tuple) and contains(each, *operators) for each in node[1:])


def mentions(node: Node, name: str) -> bool:
    """Whether the variable `name` is in the expression."""
    if not isinstance(node, tuple) or node[0] == "constant":
        return False
    if node[0] == "symbol":
        return bool(node[1] == name)
    return any(mentions(each, name) for each in node[1:])


def simplest(value: Fraction) -> int | Fraction:
    """The fraction, as an integer if it is one.

    Raises:
        Undefined: it is too large.
    """
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise Undefined("too large")
    return value.numerator if value.denominator == 1 else value


def _gather(
    operator: str, operands: tuple[Node, ...], start: int
) -> tuple[int | Fraction, list[Node]]:
    """The rational operands combined, and the others; nested sums or products are opened."""
    number: int | Fraction = start
    others: list[Node] = []
    for operand in operands:
        parts = operand[1:] if isinstance(operand, tuple) and operand[0] == operator else (operand,)
        for part in parts:
            if isinstance(part, tuple):
                others.append(part)
            else:
                number = number + part if operator == "+" else number * part
    if not isinstance(number, int):
        number = simplest(number)
    elif number.bit_length() > _MOST_BITS:
        raise Undefined("too large")
    return number, others


def _rational_power(base: int | Fraction, exponent: int) -> Node:
    if base == 0 and exponent <= 0:
        raise Undefined("zero to the power of zero, or less")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if (bits - 1 if base.denominator == 1 else bits) * abs(exponent) > _MOST_BITS:
        raise Undefined("too large")
    return simplest(Fraction(base) ** exponent)


def _whole_root(number: int, degree: int) -> int | None:
    if degree == 2:
        root = isqrt(number)
    elif number.bit_length() > 900:
        return None
    else:
        root = round(number ** (1 / degree))
    return root if root**degree == number else None


DEGREE: Node = ("*", ("constant", "pi"), Fraction(1, 180))
"""One degree in radians."""
