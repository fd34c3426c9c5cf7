"""The values of expressions, by which they are compared.

Two expressions in variables are equal if they have the same value where the variables are fixed
irrational numbers (Schwartz-Zippel). They agree in 160 bits at each of two points, or they differ.
The variables are positive at the first point; half of them are negative at the second, so that
`|x|` differs from `x`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from math import lcm
from typing import Any

from rlcm_serve.answers.canonical.expressions import fixed_point as fixed
from rlcm_serve.answers.canonical.expressions import floating
from rlcm_serve.answers.canonical.expressions.fixed_point import ONE, PLACES, Undefined, Value
from rlcm_serve.answers.canonical.expressions.nodes import Node, contains

POINTS = (0, 1)
WHOLE_POINTS = range(2, 30)
"""Where variables are whole numbers."""
_LEAST = 4
"""The least of the whole numbers."""
_WHOLE = frozenset("nmkNMK")
"""Letters that mean whole numbers where whole parts are taken."""
_ROUNDING = 1 << 100
"""A whole number may have been computed as so little less or more."""
_DENOMINATOR = lcm(*range(1, 61))


def evaluate(node: Node, point: int) -> Value:
    """The value at one of the points.

    Raises:
        Undefined: it has none, or it is too large.
    """
    if isinstance(node, int):
        return node << PLACES
    if isinstance(node, Fraction):
        return fixed.from_ratio(node.numerator, node.denominator)
    return _EVALUATE.get(node[0], _evaluate_function)(node, point)


def key(node: Node) -> str:
    """A text that equal expressions share, and different ones do not.

    Raises:
        Undefined: the expression has no value, or it is too large.
    """
    if not isinstance(node, tuple):
        return number_key(node)
    if contains(node, "floor", "ceil") and contains(node, "symbol"):
        return _key_of_steps(node)
    try:
        return _key(node, evaluate, fixed.digits, constant_key)
    except Undefined:
        return _key(node, _evaluate_floating, _floating_digits, _floating_key)


def _key_of_steps(node: Node) -> str:
    """The key of whole parts of variables, which have too few values at two points.

    Letters such as `n` are whole numbers there, so that ceil(n/2) is floor((n+1)/2).

    Raises:
        Undefined: it has hardly any values.
    """
    points = WHOLE_POINTS if _symbols(node) <= _WHOLE else (*POINTS, *WHOLE_POINTS)
    values = [_digits_at(node, point) for point in points]
    if values.count("") > len(values) // 2:
        raise Undefined("few values")
    return f"steps {sha256(';'.join(values).encode()).hexdigest()[:40]}"


def _digits_at(node: Node, point: int) -> str:
    try:
        return fixed.digits(evaluate(node, point))
    except Undefined:
        return ""


def _symbols(node: Node) -> set[str]:
    if not isinstance(node, tuple) or node[0] == "constant":
        return set()
    if node[0] == "symbol":
        return {node[1]}
    return set[str]().union(*(_symbols(each) for each in node[1:]))


def _key(
    node: Node,
    evaluated: Callable[[Node, int], Any],
    digits: Callable[[Any], str],
    constant: Callable[[Any], str],
) -> str:
    first = evaluated(node, 0)
    if not contains(node, "symbol"):
        return constant(first)
    second = evaluated(node, 1)
    if (text := digits(first)) == (other := digits(second)):
        return constant(first)
    return f"{text},{other}"


def _evaluate_floating(node: Node, point: int) -> Any:
    return floating.evaluate(node, lambda name: floating.number(_symbol_value(name, point), PLACES))


def _floating_digits(value: Any) -> str:
    return fixed.digits_of(*floating.parts(value))


def _floating_key(value: Any) -> str:
    numerator = floating.as_multiple(value, _DENOMINATOR)
    if numerator is not None:
        return number_key(Fraction(numerator, _DENOMINATOR))
    return _floating_digits(value)


def constant_key(value: Value) -> str:
    """The key of a number that was computed: that of a short fraction, if it is one."""
    if isinstance(value, int) and value.bit_length() < 2 * PLACES - 200:
        nearest = (value * _DENOMINATOR + (ONE >> 1)) >> PLACES
        if abs(value * _DENOMINATOR - (nearest << PLACES)) <= 1 << (PLACES - 200):
            return number_key(Fraction(nearest, _DENOMINATOR))
    return fixed.digits(value)


def number_key(number: int | Fraction) -> str:
    """The key of a rational number."""
    if number.denominator == 1:
        return f"{number.numerator:x}"
    return f"{number.numerator:x}/{number.denominator:x}"


def _evaluate_sum(node: tuple[Any, ...], point: int) -> Value:
    value = evaluate(node[1], point)
    for term in node[2:]:
        value = fixed.add(value, evaluate(term, point))
    return value


def _evaluate_product(node: tuple[Any, ...], point: int) -> Value:
    value = evaluate(node[1], point)
    for factor in node[2:]:
        if isinstance(factor, int) and isinstance(value, int):
            value *= factor
        else:
            value = fixed.multiply(value, evaluate(factor, point))
    return value


def _evaluate_power(node: tuple[Any, ...], point: int) -> Value:
    _, base, exponent = node
    value = evaluate(base, point)
    if isinstance(exponent, int):
        return fixed.whole_power(value, exponent)
    if isinstance(exponent, Fraction):
        if exponent.denominator == 2:
            return fixed.whole_power(fixed.square_root(value), exponent.numerator)
        if isinstance(value, int) and value < 0 and exponent.denominator % 2:
            root = fixed.power(-value, evaluate(exponent, point))
            return root if exponent.numerator % 2 == 0 else fixed.multiply(-ONE, root)
    if value == 0:
        return 0
    return fixed.power(value, evaluate(exponent, point))


def _evaluate_function(node: tuple[Any, ...], point: int) -> Value:
    name, value = node[0], evaluate(node[1], point)
    match name:
        case "degrees" | "plus-minus" | "minus-plus":
            return value
        case "abs":
            return fixed.size(value)
        case "log":
            return fixed.logarithm(value, is_constant=not contains(node, "symbol"))
        case "exp":
            return fixed.exponential(value)
        case "factorial":
            return fixed.elementary("gamma", fixed.add(value, ONE))
        case "floor" if isinstance(value, int):
            return value + _ROUNDING >> PLACES << PLACES
        case "ceil" if isinstance(value, int):
            return -(-value + _ROUNDING >> PLACES << PLACES)
    return fixed.elementary(name, value)


@lru_cache(maxsize=4096)
def _symbol_value(name: str, point: int) -> int:
    """Between 1 and 3 at the first point; other values at the second, half of them negative.

    At the other points it is a small whole number; each name has them in an order of its own, so
    that no name is a simple function of another.
    """
    if point in WHOLE_POINTS:
        return _LEAST + _order(name)[point - WHOLE_POINTS.start] << PLACES
    digest = int.from_bytes(sha256(f"{point}{name}".encode()).digest() * 2, "big")
    value = ONE + (digest >> 512 - PLACES - 1)
    return -value if point and sum(map(ord, name)) % 2 == 0 else value


@lru_cache(maxsize=1024)
def _order(name: str) -> list[int]:
    numbers = range(len(WHOLE_POINTS))
    return sorted(numbers, key=lambda number: sha256(f"{number} {name}".encode()).digest())


_CONSTANT: dict[str, Value] = {
    "pi": fixed.constant("pi"),
    "e": fixed.constant("e"),
    "i": (0, ONE),
}
_EVALUATE: dict[str, Callable[[tuple[Any, ...], int], Value]] = {
    "+": _evaluate_sum,
    "*": _evaluate_product,
    "^": _evaluate_power,
    "symbol": lambda node, point: _symbol_value(node[1], point),
    "constant": lambda node, _: _CONSTANT[node[1]],
}
