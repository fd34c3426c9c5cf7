"""Takes from an answer what has no meaning: layout, delimiters, styles, final punctuation."""

from __future__ import annotations

import re

from rlcm_serve.answers.canonical.text import notations

_NOISE = re.compile(
    r"\\\\|"
    r"\\(?:left|right)(?![A-Za-z])\s*\.?|"
    r"\\(?:displaystyle|textstyle|limits|[bB]igg?[lrm]?|mathstrut|strut|hfill|boldmath|hspace\{[^{}]*\}"
    r"|middle|math(?:bf|it|sf|cal|tt|normal)|boldsymbol|bm|pmb|vec|hat|underline|emph|boxed|fbox|tag\*?\{[^{}]*\}"
    r"|(?:text)?color\s*\{[^{}]*\}|tiny|small|normalsize|[lL]arge|huge|bf|rm|it|sf|tt|em)"
    r"(?![A-Za-z])|"
    r"\\[()\[\]]|\\\$|\$+|\*\*(?!\s*[\d(A-Za-z\\{-])|(?<![\w)}\]])\*\*|`+"
)
_TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|tt|sf|normal|up|sc)?|mbox|hbox|mathrm|operatorname\*?|rm|bf|it)"
    r"\s*\{([^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)\}"
)
_SHORT_ARGUMENTS = re.compile(
    r"\\(?P<name>[dtc]?frac|[dt]?binom)(?:(?P<first>\d)|\s+(?P<after>[\dA-Za-z]))"
    r"(?:\s*(?P<second>\d+|[A-Za-z](?![A-Za-z])))?"
)
_GROUP_MARK = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\[,!;: ]|~|'|_)\s*(?=\d{3}(?!\d))")
_ROW_SPACE = re.compile(r"(?<=\\\\)\s*\[\s*-?[\d.]+\s*(?:pt|ex|em|mm|cm|in|pc|bp|mu)\s*\]")
_TIMES = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*))")
_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_BASE_WORD = re.compile(rf"_(?:\\text|\{{)*({'|'.join(_BASES)})\}}*", re.IGNORECASE)
_PLURAL = re.compile(r"(?<=[a-z]{3})\((e?s)\)")
_UNIT_FRACTION = re.compile(
    r"\\[dt]?frac\s*\{\s*\\text\{([^{}]*)\}\s*\}\s*\{\s*\\text\{([^{}]*)\}\s*\}"
)
_INFIX = re.compile(r"\{([^{}\\]*)\\(choose|over)(?![A-Za-z])([^{}\\]*)\}")
_INFIXES = {"choose": "binom", "over": "frac"}
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9 .,'/^%:;*-]*")
_LAYOUT = re.compile(r"[{}]|\\[,;:! ]|~")
_SPACES = ("\\,", "\\;", "\\:", "\\!", "\\ ")
_RUSSIAN = {"tg": "tan", "ctg": "cot", "arctg": "arctan", "cosec": "csc"}
"""Names of functions in problems translated from Russian."""
_UNIT_LETTERS = frozenset("mgshlLNJWVKA")
"""Upright letters that are units also without a space before them; others are names."""
_IN_BASE = re.compile(
    r"(?:\$|\\\()*\s*([0-9A-Za-z]+)\s*,?\s*\(?(?:in\s+)?base[\s-]+([0-9a-z]+)\)?(?:\$|\\\)|[\s.])*"
)


def cleaned(text: str) -> str:
    r"""The text without layout, math delimiters and final punctuation; `\$` becomes `\dollar `."""
    money = text.count("$") == 1 and "\\$" not in text
    used = set(text)  # no rule is tried on a text without its characters
    if "\\\\" in text and "[" in used:
        text = _ROW_SPACE.sub(" ", text)
    if "\\" in used:
        text = _TEXT.sub(_keep_words, notations.in_latex(text))
    if not used.isdisjoint("{,\\~'_"):
        text = _GROUP_MARK.sub("", notations.decimal_comma(text) if "{,}" in text else text)
    if "base" in text and (found := _IN_BASE.fullmatch(text)):
        text = f"{found[1]}_{{{found[2]}}}"
    if "x" in used or "X" in used:
        text = _TIMES.sub(r"\\times ", text)
    if "_" in text:
        text = _BASE_WORD.sub(lambda found: f"_{{{_BASES[found[1].lower()]}}}", text)
    if "s)" in text:
        text = _PLURAL.sub(r"\1", text)
    if "\\" in used:
        text = _UNIT_FRACTION.sub(r"\\text{\1/\2}", text)
        text = _INFIX.sub(_prefix, text)
        text = _SHORT_ARGUMENTS.sub(_braced, text)
    if not used.isdisjoint("\\$*`"):
        text = _NOISE.sub(lambda found: _replacement(found[0], money), text)
    text = notations.plain(_without_end(text.strip())).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    if text[:1] == "{" and text[-1:] == "}" and not any(mark in text[1:-1] for mark in "{},;"):
        text = text[1:-1].strip()
    return text


def _without_end(text: str) -> str:
    """The text without line breaks and punctuation at its end."""
    while text.endswith("\\\\"):
        text = text[:-2].rstrip()
    while text and text[-1] in ".,;:" and not text.endswith((r"\,", r"\;", r"\:", "...")):
        text = text[:-1].rstrip()
    return text


def _keep_words(found: re.Match[str]) -> str:
    r"""Words and units as `\text{...}`, and a letter that is only upright, as in `2\mathrm{i}`."""
    content = _without_spaces(found[1])
    if not any(map(str.isalpha, content)):
        return found[1]
    if content in _RUSSIAN:
        return f"\\{_RUSSIAN[content]} "
    if len(content) == 1 and content.isascii() and not _is_unit_letter(content, found):
        return f" {content}"
    plain = " ".join(_LAYOUT.sub(" ", content).replace("\\cdot", "*").split())
    if content != plain and _WORDS.fullmatch(plain) and not plain.startswith(("e^", "i^")):
        content = plain
    return f"\\text{{{content}}}" if _WORDS.fullmatch(content) else f"{{{content}}}"


def _without_spaces(text: str) -> str:
    r"""The text without LaTeX's spaces at its ends: `cm` of `\mathrm{~cm}`."""
    text = text.strip(" \t\n~")
    while text.startswith(_SPACES):
        text = text[2:].lstrip(" \t\n~")
    while text.endswith(_SPACES):
        text = text[:-2].rstrip(" \t\n~")
    return text


def _is_unit_letter(letter: str, found: re.Match[str]) -> bool:
    if letter in "ei":
        return False
    follows = found.string[found.end() : found.end() + 1]
    return found[1][0] in " ~\\" or (
        letter in _UNIT_LETTERS and follows not in ("_", "(") and not follows.isdigit()
    )


def _prefix(found: re.Match[str]) -> str:
    r"""`{5 \choose 2}` as `{\binom{5 }{ 2}}`."""
    return f"{{\\{_INFIXES[found[2]]}{{{found[1]}}}{{{found[3]}}}}}"


def _braced(found: re.Match[str]) -> str:
    r"""`\frac12` as `\frac{1}{2}`."""
    first, second = found["first"] or found["after"], found["second"]
    return f"\\{found['name']}{{{first}}}" + (f"{{{second}}}" if second else "")


def _replacement(noise: str, money: bool) -> str:
    if noise == "\\\\":
        return noise
    if noise == "\\$" or (noise == "$" and money):
        return "\\dollar "
    return " " if noise in ("\\(", "\\)", "\\[", "\\]") or noise.startswith("$") else ""
