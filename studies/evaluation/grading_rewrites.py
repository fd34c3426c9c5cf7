"""Other ways to write a reference answer, and answers that only look like it.

Each function takes a reference without its dollar signs and returns texts: `REWRITES` mean the
same, `NEAR_MISSES` do not. A function that does not apply returns an empty list.
"""

import re
from collections.abc import Callable
from fractions import Fraction

Rewrite = Callable[[str], list[str]]

INTEGER = re.compile(r"-?\d+")
GROUPED = re.compile(r"-?\d{1,3}(,(\\!)?\s*\d{3})+")
FRACTION = re.compile(r"(-?)\\[dt]?frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d+))")
DEGREES = re.compile(r"(-?\d+)\s*\^\s*\{?\\circ\}?")
WORD = re.compile(r"\\text\{\s*([^\\{}$]+?)\s*\}")
WITH_UNIT = re.compile(r"(-?[\d.,]+)\s*\\(?:text|mbox|mathrm)\{\s*([a-z .]+)\}(\^\d)?")
LIST = re.compile(r"[^,()\[\]=]+(?:,[^,()\[\]=]+)+")
PAIR = re.compile(r"\(([^,()\[\]]+),([^,()\[\]]+)\)")
INTERVAL = re.compile(r"([(\[])([^,()\[\]]+),([^,()\[\]]+)([)\]])")
EQUATION = re.compile(r"([a-zA-Z])\s*=\s*(-?[\d./]+)")
BASE = re.compile(r"(\d+)_\{?(\d+)\}?")


def core(reference: str) -> str:
    r"""The reference without `$`, `\left`, `\right`, and the full stop at its end."""
    text = re.sub(r"(?<!\\)\$|\\left|\\right", "", reference)
    return text.strip().rstrip(".").strip()


def right_hand_side(said: str) -> str:
    """The right-hand side of an equation whose left side is a name; other texts are unchanged."""
    found = EQUATION.fullmatch(said)
    return found[2] if found else said


def integer(said: str) -> int | None:
    """The integer that the text states, with or without groups of three digits."""
    if GROUPED.fullmatch(said):
        said = re.sub(r"[^-\d]", "", said)
    return int(said) if INTEGER.fullmatch(said) else None


def fraction(said: str) -> Fraction | None:
    r"""The fraction that the text states as `\frac{a}{b}`."""
    found = FRACTION.fullmatch(said)
    if found is None:
        return None
    sign, top, short_top, bottom, short_bottom = found.groups()
    return Fraction(int(sign + (top or short_top)), int(bottom or short_bottom))


def decimal(value: Fraction) -> str | None:
    """The value with at most six decimal places; None if it needs more."""
    scaled = value * 10**6
    return f"{float(value):.6f}".rstrip("0").rstrip(".") if scaled.denominator == 1 else None


def is_interval(said: str) -> bool:
    found = INTERVAL.fullmatch(said)
    return bool(found) and ("[" in said or "]" in said or "infty" in said)


def parts(said: str) -> list[str]:
    """The members of a list without brackets."""
    if integer(said) is not None or not LIST.fullmatch(said) or re.search(r"\\[{!t]", said):
        return []
    return [part.strip() for part in said.split(",")]


def dollars(said: str) -> list[str]:
    return [f"${said}$", rf"\({said}\)"]


def full_stop(said: str) -> list[str]:
    return [f"{said}."]


def spaced(said: str) -> list[str]:
    if not re.search(r"[-+*=]", said[1:]) or re.search(r"text|_\{", said):
        return []
    return [said[0] + re.sub(r"\s*([-+=])\s*", r" \1 ", said[1:])]


def as_decimal(said: str) -> list[str]:
    if (number := integer(said)) is not None:
        return [f"{number}.0"]
    value = fraction(said)
    text = None if value is None else decimal(value)
    return [] if text is None else [text]


def as_fraction(said: str) -> list[str]:
    number = integer(said)
    return [] if number is None else [rf"\frac{{{2 * number}}}{{2}}", f"{3 * number}/3"]


def other_fraction(said: str) -> list[str]:
    value = fraction(said)
    if value is None:
        return [said.replace("\\frac", "\\dfrac")] if re.search(r"\\frac\b", said) else []
    top, bottom = value.numerator, value.denominator
    return [
        f"{top}/{bottom}",
        rf"\dfrac{{{top}}}{{{bottom}}}",
        rf"\tfrac{{{top}}}{{{bottom}}}",
        rf"\frac{{{2 * top}}}{{{2 * bottom}}}",
    ]


def thousands(said: str) -> list[str]:
    number = integer(said)
    if number is None or abs(number) < 1000:
        return []
    grouped = f"{number:,}"
    between = [",", "{,}", r",\!", r"\,"]
    return [str(number), *(grouped.replace(",", mark) for mark in between)]


def degrees(said: str) -> list[str]:
    found = DEGREES.fullmatch(said)
    if found is None:
        return []
    n = found[1]
    return [n, f"{n}°", rf"{n}^{{\circ}}", rf"{n}\text{{ degrees}}", f"{n} degrees"]


def units(said: str) -> list[str]:
    if found := WITH_UNIT.fullmatch(said):
        return [found[1], rf"{found[1]}\ \mathrm{{{found[2].strip()}}}{found[3] or ''}"]
    if integer(said) is None:
        return []
    return [rf"{said}\text{{ cm}}", rf"{said}\ \mathrm{{km}}", f"{said} miles", rf"\${said}"]


def words(said: str) -> list[str]:
    found = WORD.fullmatch(said)
    if found is None:
        return []
    word = found[1]
    return [word, word.lower(), rf"\textbf{{{word}}}", rf"\mathrm{{{word}}}"]


def sets(said: str) -> list[str]:
    members = parts(said)
    if not members:
        return []
    turned = members[::-1]
    return [
        ",".join(turned),
        ", ".join(members),
        rf"\{{{', '.join(members)}\}}",
        rf"\{{{', '.join(turned)}\}}",
        rf"{', '.join(members[:-1])} \text{{ and }} {members[-1]}",
    ]


def intervals(said: str) -> list[str]:
    found = INTERVAL.fullmatch(said)
    if found is None or not is_interval(said):
        return []
    left, low, high, right = (part.strip() for part in found.groups())
    below, above = ("<" if mark in "()" else r"\le" for mark in (left, right))
    written = [rf"\left{left}{low}, {high}\right{right}", rf"x \in {left}{low},{high}{right}"]
    if "infty" not in low and "infty" not in high:
        written.append(rf"{low} {below} x {above} {high}")
    return written


def percentages(said: str) -> list[str]:
    found = re.fullmatch(r"(\d+)\\%", said)
    return [found[1], f"{found[1]}%", str(int(found[1]) / 100)] if found else []


def plain_text(said: str) -> list[str]:
    plain = re.sub(r"\\sqrt\{(\w+)\}|\\sqrt(\d)", r"sqrt(\1\2)", said)
    plain = plain.replace("\\pi", "π").replace("\\cdot", "*").replace("\\infty", "∞")
    return [plain] if plain != said else []


def equations(said: str) -> list[str]:
    if found := EQUATION.fullmatch(said):
        return [found[2], f"{found[1]} = {found[2]}"]
    return [f"x={said}"] if INTEGER.fullmatch(said) else []


def neighbour(said: str) -> list[str]:
    number = integer(said)
    return [] if number is None else [str(number + 1), str(number - 1)]


def other_sign(said: str) -> list[str]:
    number, value = integer(said), fraction(said)
    if number is not None:
        return [str(-number)] if number else []
    return [] if value is None else [rf"\frac{{{-value.numerator}}}{{{value.denominator}}}"]


def other_magnitude(said: str) -> list[str]:
    number = integer(said)
    return [str(10 * number), rf"\frac{{{number}}}{{10}}"] if number else []


def percent(said: str) -> list[str]:
    number = integer(said)
    return [rf"{said}\%"] if number else []


def other_fractions(said: str) -> list[str]:
    value = fraction(said)
    if value is None:
        return []
    top, bottom = value.numerator, value.denominator
    turned = [] if value in (1, -1) else [rf"\frac{{{bottom}}}{{{top}}}"]
    return [*turned, rf"\frac{{{top + 1}}}{{{bottom}}}", rf"\frac{{{top}}}{{{bottom + 1}}}"]


def rounded(said: str) -> list[str]:
    value = fraction(said)
    return [f"{float(value):.2f}"] if value is not None and decimal(value) is None else []


def other_bracket(said: str) -> list[str]:
    if not is_interval(said):
        return []
    turned = {"(": "[", "[": "(", ")": "]", "]": ")"}
    infinite_left, infinite_right = ("infty" in end for end in said.split(",", 1))
    first = [] if infinite_left else [turned[said[0]] + said[1:]]
    return first if infinite_right else [*first, said[:-1] + turned[said[-1]]]


def swapped(said: str) -> list[str]:
    found = PAIR.fullmatch(said)
    if found is None or is_interval(said) or found[1].strip() == found[2].strip():
        return []
    return [f"({found[2].strip()}, {found[1].strip()})"]


def one_missing(said: str) -> list[str]:
    members = parts(said)
    return [",".join(members[:-1]), ",".join(members[1:])] if members else []


def one_more(said: str) -> list[str]:
    members = parts(said)
    return [",".join([*members, "97"])] if members else []


def other_word(said: str) -> list[str]:
    found = WORD.fullmatch(said)
    return [r"\text{Zebra}", found[1] + "s"] if found else []


def plus_one(said: str) -> list[str]:
    if integer(said) is not None or not re.fullmatch(r"[^,=<>]+", said) or "text" in said:
        return []
    return [] if is_interval(said) or "circ" in said or "_" in said else [f"{said}+1"]


def other_unit(said: str) -> list[str]:
    found = WITH_UNIT.fullmatch(said)
    return [rf"{found[1]}\text{{ lightyears}}"] if found else []


def base_left_out(said: str) -> list[str]:
    found = BASE.fullmatch(said)
    return [found[1]] if found else []


REWRITES: dict[str, Rewrite] = {
    "dollar signs": dollars,
    "full stop": full_stop,
    "spaces": spaced,
    "as a decimal": as_decimal,
    "as a fraction": as_fraction,
    "other fractions": other_fraction,
    "thousands separators": thousands,
    "degrees": degrees,
    "units": units,
    "words": words,
    "sets": sets,
    "intervals": intervals,
    "percentages": percentages,
    "plain text": plain_text,
    "equations": equations,
}

NEAR_MISSES: dict[str, Rewrite] = {
    "neighbouring integer": neighbour,
    "other sign": other_sign,
    "ten times, a tenth": other_magnitude,
    "per cent": percent,
    "another fraction": other_fractions,
    "rounded": rounded,
    "other bracket": other_bracket,
    "swapped coordinates": swapped,
    "one member missing": one_missing,
    "one member more": one_more,
    "other word": other_word,
    "plus one": plus_one,
    "other unit": other_unit,
    "base left out": base_left_out,
}
