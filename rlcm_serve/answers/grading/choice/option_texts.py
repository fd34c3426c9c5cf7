"""The forms in which an option's own text is compared with an answer, from strict to loose."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_MACRO = (
    r"\\(?:boxed|fbox|text[a-z]*|math[a-z]+|ce|mbox|hbox|emph|underline|operatorname"
    r"|displaystyle|left|right|[bB]igg?[lr]?|bf|rm|it|sf|tt|large|Large)(?![A-Za-z])\s*"
)
_STYLE = re.compile(rf"{_MACRO}|\\(?:text)?color\s*\{{[^{{}}]*\}}|\\[()\[\]]|\*\*|__|[$`]")
_SPACES = re.compile(r"\\[,;:!> ]|\\q?quad(?![A-Za-z])|~")
_BRACED = re.compile(r"\{([^{}]*)\}")
_QUOTES = "\"'“”‘’«»"
_ENDS = " \t\r\n.,;:!" + _QUOTES
_ARTICLE = re.compile(r"the\s+", re.IGNORECASE)
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_SYMBOLS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "—": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "→": r"\to ",
        "≥": r"\geq ",
        "≤": r"\leq ",
        "≠": r"\neq ",
        "≈": r"\approx ",
        "±": r"\pm ",
        "∞": r"\infty ",
        "√": r"\sqrt ",
        "°": r"^\circ ",
        "µ": r"\mu ",
    }
)
_SAME = {
    r"\rightarrow": r"\to",
    "->": r"\to",
    r"\longrightarrow": r"\to",
    r"\ge": r"\geq",
    ">=": r"\geq",
    r"\le": r"\leq",
    "<=": r"\leq",
    r"\ne": r"\neq",
    r"\degree": r"^\circ",
    r"\%": "%",
    r"\&": "&",
    r"\#": "#",
    r"\_": "_",
}
_OTHERS = re.compile(
    "|".join(
        re.escape(name) + ("(?![A-Za-z])" if name[-1].isalpha() else "")
        for name in sorted(_SAME, key=len, reverse=True)
    )
)


@lru_cache(maxsize=2**14)
def forms(text: str) -> tuple[str, ...]:
    """The text as written; without marks at its ends, style, case, and `the` before it, in turn.

    Of two options whose loose forms are equal, such as `Co` and `CO`, a strict form can still tell
    which one an answer means.
    """
    written = " ".join(unicodedata.normalize("NFC", text).split())
    plain = plain_form(written)
    return written, written.strip(_ENDS), plain, plain.casefold(), _without_article(written)


def without_style(text: str) -> str:
    r"""The text without LaTeX's styling: `\text{(B)} cells` becomes `{(B)} cells`."""
    return _SPACES.sub(" ", _STYLE.sub("", unicodedata.normalize("NFKC", text)))


_MOST_BRACES = 1000
"""Pairs of braces that are removed from a text: each takes a look at all of it."""


def plain_form(text: str) -> str:
    r"""The text without LaTeX's styling and spaces: `$\mathrm{H_2O}$` and `H₂O` are equal.

    Symbols are written as in LaTeX (`≥` as `\geq`), exponents with `^`, subscripts without mark.
    """
    plain = _SUPERSCRIPTS.sub(lambda found: f"^{{{found.group()}}}", text.translate(_SYMBOLS))
    plain = without_style(plain).translate(_SYMBOLS)
    plain = "".join(map(_latex_letter, plain))
    plain = _OTHERS.sub(lambda found: _SAME[found.group()], plain).replace("_", "")
    for _ in range(_MOST_BRACES):
        if (inner := _unbraced(plain)) == plain:
            break
        plain = inner
    return "".join(plain.strip(_ENDS).split()) or text


def _without_article(text: str) -> str:
    return plain_form(_ARTICLE.sub("", without_style(text).strip(_ENDS + "{"))).casefold()


def _unbraced(text: str) -> str:
    return _BRACED.sub(r"\1", _FRACTION.sub(r"\1/\2", text), count=1)


def _latex_letter(character: str) -> str:
    """A Greek letter as LaTeX writes it; any other character as it is."""
    if character < "Ͱ" or character > "Ͽ":
        return character
    name = unicodedata.name(character, "").removeprefix("GREEK ").split(" LETTER ")
    if len(name) != 2:
        return character
    return f"\\{name[1].lower() if name[0] == 'SMALL' else name[1].capitalize()} "
