"""Real and complex arithmetic on integers, to 384 binary places.

Fast, and the same on every machine. A real number x is the integer `round(x * 2**384)`; a complex
number is a pair of such integers. mpmath computes logarithms, exponentials and trigonometry.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable
from functools import lru_cache
from math import isqrt
from typing import Any

from mpmath import MPContext

PLACES = 384
ONE = 1 << PLACES
_TINY = 1 << 84
"""Values below 2**-300 are rounding errors of zero."""
_SMALLEST = 1 << 184
"""A product or a quotient below 2**-200 has too few places to be compared, and is refused."""
_MOST_BITS = PLACES + 4096
"""Larger numbers are refused: nothing that a hostile answer writes takes long."""
_ROUNDED = 160
"""Significant bits in which equal values agree."""

Value = int | tuple[int, int]

_mp: Any = MPContext()
_mp.prec = PLACES + 64


class Undefined(ArithmeticError):
    """The expression has no value, such as 1/0, or one that is too large to compute."""


def from_ratio(numerator: int, denominator: int) -> int:
    """The value of a fraction.

    Raises:
        Undefined: it is too small.
    """
    value = (numerator << PLACES) // denominator
    if numerator and -_SMALLEST < value < _SMALLEST:
        raise Undefined("too small")
    return value


def add(one: Value, other: Value) -> Value:
    """The sum; rounding errors of zero become zero."""
    if isinstance(one, int) and isinstance(other, int):
        total = one + other
        return total if total > _TINY or total < -_TINY else 0
    a, b = _pair(one)
    c, d = _pair(other)
    return _checked(a + c, b + d)


def multiply(one: Value, other: Value) -> Value:
    """The product.

    Raises:
        Undefined: it is too large or too small.
    """
    if isinstance(one, int) and isinstance(other, int):
        product = (one * other) >> PLACES
        if product.bit_length() > _MOST_BITS:
            raise Undefined("too large")
        if -_SMALLEST < product < _SMALLEST and one and other:
            raise Undefined("too small")
        return product
    a, b = _pair(one)
    c, d = _pair(other)
    return _checked((a * c - b * d) >> PLACES, (a * d + b * c) >> PLACES)


def inverse(value: Value) -> Value:
    """One divided by the value.

    Raises:
        Undefined: the value is zero.
    """
    if isinstance(value, int):
        if -_TINY < value < _TINY:
            raise Undefined("division by zero")
        if value.bit_length() > 2 * PLACES - 184:
            raise Undefined("the quotient is too small")
        return (ONE << PLACES) // value
    a, b = value
    square = (a * a + b * b) >> PLACES
    if square < _TINY:
        raise Undefined("division by zero")
    return _checked((a << PLACES) // square, (-b << PLACES) // square)


def square_root(value: Value) -> Value:
    """The principal square root."""
    if isinstance(value, int):
        root = isqrt(abs(value) << PLACES)
        return root if value >= 0 else (0, root)
    a, b = value
    size = isqrt(a * a + b * b)
    real, imaginary = isqrt(((size + a) // 2) << PLACES), isqrt(((size - a) // 2) << PLACES)
    return _checked(real, imaginary if b >= 0 else -imaginary)


def whole_power(base: Value, exponent: int) -> Value:
    """The power with a whole exponent.

    Raises:
        Undefined: it is too large, or zero is divided by.
    """
    if exponent < 0:
        return inverse(whole_power(base, -exponent))
    if exponent.bit_length() > 16:
        raise Undefined("too large")
    result: Value = ONE
    while exponent:
        if exponent & 1:
            result = multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    return result


def power(base: Value, exponent: Value) -> Value:
    """The principal power.

    Raises:
        Undefined: it is too large.
    """
    if base == 0:
        raise Undefined("a power of zero")
    return exponential(multiply(elementary("log", base), exponent))


def exponential(value: Value) -> Value:
    """e to the power of the value.

    Raises:
        Undefined: it is too large or too small.
    """
    if not -138 <= _pair(value)[0] >> PLACES <= 2800:
        raise Undefined("too large or too small")
    return elementary("exp", value)


def logarithm(value: Value, is_constant: bool) -> Value:
    """The natural logarithm; of a constant the principal one, so that log -1 = i pi.

    With variables it is the logarithm of the size. There the sign cannot count: log x^2 equals
    2 log x, and -log((1-x)/(1+x)) equals log((1+x)/(1-x)), but their principal values differ by
    multiples of i pi at a fixed point where the arguments are negative.

    Raises:
        Undefined: the value is zero.
    """
    if value == 0:
        raise Undefined("the logarithm of zero")
    return elementary("log", value if is_constant else size(value))


def size(value: Value) -> int:
    """The absolute value."""
    return abs(value) if isinstance(value, int) else isqrt(value[0] ** 2 + value[1] ** 2)


@lru_cache(maxsize=4096)
def elementary(name: str, value: Value) -> Value:
    """A function of mpmath.

    Raises:
        Undefined: it has no value there, or the argument is too large to compute with.
    """
    if size(value).bit_length() > PLACES + 40 and name not in ("log", "exp"):
        raise Undefined("too large")
    if name == "gamma" and size(value) >> PLACES > 1000:
        raise Undefined("too large")
    function: Callable[[Any], Any] = getattr(_mp, name)
    try:
        return _from_mp(function(_to_mp(value)))
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise Undefined(f"{name} has no value there") from error


def constant(name: str) -> int:
    """The value of `pi` or `e`."""
    number = _from_mp(+getattr(_mp, name))
    if not isinstance(number, int):
        raise TypeError(f"{name} is not real")
    return number


def digits(value: Value) -> str:
    """The value to 160 significant bits: the same text for values that are equal."""
    real, imaginary = _pair(value)
    least = max(abs(real), abs(imaginary)) >> 200
    text = _rounded(real, least)
    return text if abs(imaginary) <= max(_TINY, least) else f"{text}i{_rounded(imaginary, least)}"


def digits_of(real: tuple[int, int], imaginary: tuple[int, int]) -> str:
    """The same for parts that are mantissas and exponents of two, of any size."""
    sizes = (
        mantissa.bit_length() + exponent for mantissa, exponent in (real, imaginary) if mantissa
    )
    top = max(sizes, default=0)
    texts = [
        _shortened(mantissa, exponent)
        if mantissa and mantissa.bit_length() + exponent > top - 200
        else "0"
        for mantissa, exponent in (real, imaginary)
    ]
    return texts[0] if texts[1] == "0" else "i".join(texts)


def direction(value: Value) -> float:
    """The angle of the value in the complex plane."""
    real, imaginary = _pair(value)
    largest = max(abs(real), abs(imaginary), 1)
    return cmath.phase(complex(real / largest, imaginary / largest))


def _rounded(number: int, least: int) -> str:
    return "0" if abs(number) <= max(_TINY, least) else _shortened(number, -PLACES)


def _shortened(mantissa: int, exponent: int) -> str:
    """The nearest number of 160 bits to `mantissa * 2**exponent`."""
    surplus = abs(mantissa).bit_length() - _ROUNDED
    kept = (abs(mantissa) + (1 << surplus - 1)) >> surplus if surplus > 0 else abs(mantissa)
    zeros = (kept & -kept).bit_length() - 1
    return f"{'-' if mantissa < 0 else ''}{kept >> zeros:x}p{max(surplus, 0) + zeros + exponent}"


def _pair(value: Value) -> tuple[int, int]:
    return (value, 0) if isinstance(value, int) else value


def _checked(real: int, imaginary: int) -> Value:
    if max(real.bit_length(), imaginary.bit_length()) > _MOST_BITS:
        raise Undefined("too large")
    if -_TINY < imaginary < _TINY:
        return 0 if -_TINY < real < _TINY else real
    return (0 if -_TINY < real < _TINY else real), imaginary


def _to_mp(value: Value) -> Any:
    if isinstance(value, int):
        return _mp.ldexp(_mp.mpf(value), -PLACES)
    return _mp.mpc(_to_mp(value[0]), _to_mp(value[1]))


def _from_mp(number: Any) -> Value:
    if isinstance(number, _mp.mpc):
        return _checked(_fixed(number.real), _fixed(number.imag))
    return _fixed(number)


def _fixed(number: Any) -> int:
    if not _mp.isfinite(number) or abs(_mp.mag(number) if number else 0) > _MOST_BITS:
        raise Undefined("no finite value")
    return int(_mp.nint(_mp.ldexp(number, PLACES)))
