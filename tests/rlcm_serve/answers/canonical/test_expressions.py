"""Values of expressions: equal to what mpmath and sympy compute."""

import mpmath
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.answers.canonical.expressions import fixed_point as fixed
from rlcm_serve.answers.canonical.expressions.fixed_point import PLACES, Value
from rlcm_serve.answers.canonical.reading import canonical

x, y = sympy.symbols("x y", positive=True)
leaves = st.sampled_from([x, y, sympy.pi, sympy.sqrt(2), sympy.I]) | st.integers(-9, 9).map(
    sympy.Integer
)
expressions = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda a, b: a + b, inner, inner)
        | st.builds(lambda a, b: a * b, inner, inner)
        | st.builds(lambda a, n: a**n, inner, st.integers(1, 3))
    ),
    max_leaves=8,
)
parts = st.integers(-(2**20), 2**20).map(lambda n: n / 2**10)
values = st.builds(lambda a, b: (a, b), parts, parts)


def fixed_value(number: tuple[float, float]) -> Value:
    real, imaginary = (int(part * 2**10) << PLACES - 10 for part in number)
    return (real, imaginary) if imaginary else real


def close(value: Value, expected: mpmath.mpc) -> bool:
    real, imaginary = (value, 0) if isinstance(value, int) else value
    with mpmath.workprec(600):
        found = mpmath.mpc(mpmath.ldexp(real, -PLACES), mpmath.ldexp(imaginary, -PLACES))
        return abs(found - expected) <= mpmath.ldexp(1 + abs(expected), -200)


@settings(max_examples=300)
@given(values, values)
def test_arithmetic_is_that_of_mpmath(one: tuple[float, float], other: tuple[float, float]) -> None:
    a, b = fixed_value(one), fixed_value(other)
    with mpmath.workprec(600):
        u, v = mpmath.mpc(*one), mpmath.mpc(*other)
        assert close(fixed.add(a, b), u + v)
        assert close(fixed.multiply(a, b), u * v)
        assert close(fixed.square_root(a), mpmath.sqrt(u))
        assert close(fixed.whole_power(a, 3), u**3)
        if v:
            assert close(fixed.multiply(a, fixed.inverse(b)), u / v)


@settings(max_examples=300)
@given(expressions)
def test_an_expression_equals_its_expansion_and_no_other(expression: sympy.Expr) -> None:
    written = sympy.latex(expression)
    form = canonical(written)
    assert form is not None
    assert canonical(sympy.latex(sympy.expand(expression))) == form
    assert canonical(sympy.latex(sympy.factor(expression))) == form
    assert canonical(f"({written})+1") != form
    assert canonical(rf"\frac{{2({written})}}{{2}}") == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\sqrt{5+2\sqrt6}", r"\sqrt2+\sqrt3"),
        (r"\sqrt[3]{7+5\sqrt2}", r"1+\sqrt2"),
        (r"\cos\frac{\pi}{5}", r"\frac{1+\sqrt5}{4}"),
        (r"e^{i\pi}", "-1"),
        (r"\log_4 8", r"\frac32"),
        (r"\arctan 1", r"\frac{\pi}{4}"),
        (r"\sin 15^\circ", r"\frac{\sqrt6-\sqrt2}{4}"),
        (r"\frac{x^3-y^3}{x-y}", "x^2+xy+y^2"),
        (r"\binom{n}{3}", r"\frac{n(n-1)(n-2)}{6}"),
        (r"\ln(ab)", r"\ln a+\ln b"),
        (r"2\ln x", r"\ln x^2"),
        (r"\frac12\ln x", r"\ln\sqrt{x}"),
        (r"-\frac12\ln\frac{1-x}{1+x}", r"\frac12\ln\frac{1+x}{1-x}"),
        (r"\ln(-1)", r"i\pi"),
        (r"\frac{2018!}{2016!}", r"2018\cdot2017"),
        (r"\frac{\sqrt3}{2^{2017}}", r"\frac{3}{\sqrt3\cdot2^{2017}}"),
        (r"2^{2017}\sqrt{27}", r"3\cdot2^{2017}\sqrt3"),
        (r"\frac{x}{10^{100}}", r"\frac{x^2}{x\cdot10^{100}}"),
        (r"\frac{1}{e^{1000}}", r"(e^{-500})^2"),
    ],
)
def test_identities_hold(one: str, other: str) -> None:
    form = canonical(one)
    assert form is not None
    assert form == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\log(-2)", r"\log 2"),
        (r"\binom{400}{40}", "0"),
        (r"\binom{400}{40}", r"\binom{400}{41}"),
        (r"\frac{1}{300!}", "0"),
        (r"\frac{\pi}{2^{500}}", "0"),
        (r"\frac{\pi}{2^{500}}", r"\frac{\pi}{2^{501}}"),
        (r"\frac{x}{10^{100}}", r"\frac{2x}{10^{100}}"),
        ("e^{-1000}", "e^{-1001}"),
        ("2018!", "2019!"),
    ],
)
def test_different_values_differ_however_small_or_large(one: str, other: str) -> None:
    forms = canonical(one), canonical(other)
    assert None not in forms
    assert forms[0] != forms[1]


def test_a_sum_that_hides_a_term_has_no_form() -> None:
    for text in ("2018!+1", r"1-\frac{\sqrt3}{2^{2017}}"):
        assert canonical(text) is None
