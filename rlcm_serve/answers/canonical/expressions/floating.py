"""Values too large or too small for `fixed_point`, such as 2018!/2016! or pi/2^500.

Floating-point numbers of mpmath, some hundred times slower, with the same keys.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mpmath import MPContext

from rlcm_serve.answers.canonical.expressions.fixed_point import Undefined
from rlcm_serve.answers.canonical.expressions.nodes import Node, contains

_mp: Any = MPContext()
_mp.prec = 640
_MOST_BITS = 1 << 16
"""Of an exponent, also a negative one; what is larger or smaller is refused."""
_ZERO = -480
"""A sum is zero if it is so many binary places smaller than its largest term."""
_LOST = -200
"""A term so much smaller than the sum would not be seen in the key, so the sum is refused."""

SymbolValue = Callable[[str], Any]
"""The value of a variable, as an mpmath number."""


def number(numerator: int, places: int = 0) -> Any:
    """The number `numerator / 2**places`."""
    return _mp.ldexp(_mp.mpf(numerator), -places)


def parts(value: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Real and imaginary part, each as a mantissa and the exponent of two."""
    return _exact(_mp.re(value)), _exact(_mp.im(value))


def as_multiple(value: Any, denominator: int) -> int | None:
    """The numerator, if the value is a fraction with the denominator to 200 places."""
    if isinstance(value, _mp.mpc) or _mp.mag(value) > 300:
        return None
    scaled = value * denominator
    nearest = _mp.nint(scaled)
    is_near = nearest != 0 and abs(scaled - nearest) <= _mp.ldexp(1, -200)
    return int(nearest) if is_near or value == 0 else None


def evaluate(node: Node, symbol: SymbolValue) -> Any:
    """The value of an expression, where `symbol` gives those of its variables.

    Raises:
        Undefined: it has none, or its size is beyond all reason.
    """
    if isinstance(node, int):
        return _checked(_mp.mpf(node))
    if isinstance(node, Fraction):
        return _checked(_mp.mpf(node.numerator) / node.denominator)
    match node[0]:
        case "symbol":
            return symbol(node[1])
        case "constant":
            return {"pi": +_mp.pi, "e": +_mp.e, "i": _mp.j}[node[1]]
        case "+":
            return _sum([evaluate(each, symbol) for each in node[1:]])
        case "*":
            value = evaluate(node[1], symbol)
            for each in node[2:]:
                value = _checked(value * evaluate(each, symbol))
            return value
        case "^":
            return _power(evaluate(node[1], symbol), node[2], symbol)
    return _function(node, evaluate(node[1], symbol))


def _sum(terms: list[Any]) -> Any:
    total = sum(terms[1:], terms[0])
    largest = max(_size(term) for term in terms)
    if total == 0 or _size(total) < largest + _ZERO:
        return _mp.mpf(0)
    if any(term != 0 and _size(term) < _size(total) + _LOST for term in terms):
        raise Undefined("a term that is too small beside the others")
    return total


def _power(base: Any, exponent: Node, symbol: SymbolValue) -> Any:
    is_negative = not isinstance(base, _mp.mpc) and base < 0
    if is_negative and isinstance(exponent, Fraction) and exponent.denominator % 2:
        root = _power(-base, exponent, symbol)  # the real root
        return root if exponent.numerator % 2 == 0 else -root
    power = evaluate(exponent, symbol)
    if base == 0:
        if isinstance(power, _mp.mpc) or power <= 0:
            raise Undefined("zero to the power of zero, or less")
        return _mp.mpf(0)
    if _size(power) + max(_size(_mp.log(base)), 0) > 24:
        raise Undefined("too large")
    return _checked(_mp.power(base, power))


def _function(node: tuple[Any, ...], value: Any) -> Any:
    match node[0]:
        case "degrees" | "plus-minus" | "minus-plus":
            return value
        case "abs":
            return abs(value)
        case "log" if value != 0:
            return _mp.log(abs(value) if contains(node[1], "symbol") else value)
        case "exp" if _size(value) < 17:
            return _checked(_mp.exp(value))
        case "factorial" if _size(value) < 14:
            return _checked(_elementary("gamma", value + 1))
        case "sin" | "cos" | "tan" | "cot" | "sec" | "csc" if _size(value) < 40:
            return _checked(_elementary(node[0], value))
    raise Undefined("a function of a number that is too large")


def _elementary(name: str, value: Any) -> Any:
    try:
        return getattr(_mp, name)(value)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise Undefined(f"{name} has no value there") from error


def _checked(value: Any) -> Any:
    if not _mp.isfinite(value) or abs(_size(value)) > _MOST_BITS:
        raise Undefined("too large, or too small")
    return value


def _size(value: Any) -> int:
    """The binary logarithm of the size, rounded up; zero has the least."""
    return int(_mp.mag(value)) if value != 0 else -_MOST_BITS


def _exact(value: Any) -> tuple[int, int]:
    sign, mantissa, exponent, _ = value._mpf_
    return (-int(mantissa) if sign else int(mantissa)), int(exponent)
