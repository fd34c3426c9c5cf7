"""Rarer notations, rewritten in those that the parser reads."""

from __future__ import annotations

import re

_DECIMAL_COMMA = re.compile(
    r"(?<![\d,}.])(0(?=\{,\}\d+(?![\d{,]))|\d{1,9}(?=\{,\}(?:\d{1,2}|\d{4,20})(?![\d{,])))\{,\}"
)
_PRIMES = re.compile(r"\^\s*(?:\{\s*((?:\\prime\s*)+)\}|(\\prime)(?![A-Za-z]))")
_ARC = re.compile(
    r"(?<!\d)(?P<degrees>\d+)\s*\^\s*\{?\s*\\circ\s*\}?\s*(?P<minutes>\d+(?:\.\d+)?)\s*'(?!')"
    r"(?:\s*(?P<seconds>\d+(?:\.\d+)?)\s*(?:''|\"))?"
)
_BAR = re.compile(r"\\(?:bar|overline)(?:\s*\{\s*([A-Za-z])\s*\}|\s+([A-Za-z])(?![A-Za-z]))")
_REPEATING = re.compile(r"\.\{(\\(?:bar|overline)\{\d+\})\}")
_SYSTEM = re.compile(
    r"(?:\\left\s*)?(?:\\\{\s*\\begin\{(?:array|aligned|matrix)\}|\\begin\{cases\})(?:\{[lcr]*\})?"
    r"(?P<rows>(?:[^\\]|\\(?!begin|end))*+)\\end\{(?:array|aligned|matrix|cases)\}"
)
_OR_MORE = re.compile(
    r"(?P<end>[^a-z\\]+)(?:\\text\s?\{)?\s*or "
    r"(?P<side>more|greater|larger|less|fewer|smaller)\s*\}?"
)
_PI_RUN = re.compile(r"(?<![A-Za-z\\])([knmrxit]?)pi([rRhdDxLkm]{0,2})(?![A-Za-z])")
"""A plain `pi` among letters, as in `2pir`; `pi` alone and words such as `pin` are others."""
_QUAD = re.compile(r"\\q?quad(?![A-Za-z])")
_SIGN = re.compile(
    r"[\w)}][\s}$]*(?:[=<>]|\\(?:[lg]eq?|[lg]eqslant|neq?|in)(?![a-z]))\s*[\w\\({+-]"
)
"""A sign between two sides; a space divides statements only where both have one."""
_ORDINAL = re.compile(r"(?<=\d)\^\s*\{?\s*(?:\\text\s*\{)?\s*(?:st|nd|rd|th)\s*\}{1,2}")
_CHOOSE = re.compile(r"(?<![\w.}])(\d{1,4})C(\d{1,4})(?![\w.])")
_COMBINATIONS = re.compile(
    r"(?<![A-Za-z\\])C_\{?\s?(\d{1,4})\s?\}?\s?\^\s?\{?\s?(\d{1,4})(?!\d)\s?\}?"
)
_LABEL = re.compile(r"[CElL](?:_\{?\d\}?)?\s?:")
_FRENCH = re.compile(r"(?:(?<![\w)}\]])|(?<=\\cup)|(?<=\\in))([\[\](])([^\[\]()]*)([\[\])])(?!\w)")
_IS_INTEGER = re.compile(
    r"[a-z]\s?\}?\$?\s?(?:\\text\s?\{)?\s?is (?:an|any) integer|integers?[\s}$]{1,4}[a-z](?!\w)"
)
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s?(?:\\text\{\s?to\s?\}|to)\s?\d+(?:\.\d+)?)+")
_VECTOR = re.compile(r"\\(?:overrightarrow|vec)\s?\{\s?([A-Z])\s?([A-Z])\s?\}")
_UNIT_DASH = re.compile(r"\\text\{([A-Za-z]+)\}\s?-\s?\\text\{([A-Za-z]+)\}")
_NOT = re.compile(r"\\not(?![A-Za-z])\s*(?:(?P<equal>=)|(?P<in>\\in)(?![A-Za-z])|\{?)")
_NEGATED = re.compile(
    r"\\n(subseteq|supseteq|parallel|shortparallel|cong|sim|mid|Rightarrow|rightarrow)(?![A-Za-z])"
)
_BEFORE_INTEGER = (
    "where", "for", "with", "any", "all", "some", "every", "each", "an", "\\text{", "\\quad", "(",
)  # fmt: skip


def in_latex(text: str) -> str:
    r"""Negations, primes, arcs, bars, vectors and systems in LaTeX, before its styles are gone.

    `x \not= 3` is `x \ne 3`, and what has no sign of its own is negated with `\lnot`.
    `63^\circ 45^{\prime}` is a sum of degrees, `\bar{x}` and `\vec{AB}` are variables of their
    own, and a system of equations is their list.
    """
    if "\\n" in text:
        text = _NEGATED.sub(r"\\lnot\\\1", _NOT.sub(_negation, text))
    if "\\prime" in text:
        text = _PRIMES.sub(lambda found: "'" * found[0].count("\\prime"), text)
    if "\\circ" in text and "'" in text:
        text = _ARC.sub(_degrees, text)
    if "\\bar" in text or "\\overline" in text:
        text = _REPEATING.sub(r".\1", text)
        text = _BAR.sub(lambda found: f"{found[1] or found[2]}_{{bar}}", text)
    if "\\overrightarrow" in text or "\\vec" in text:
        text = text if _VECTOR.fullmatch(text) else _VECTOR.sub(r"v_{\1\2}", text)
    if "quad" in text:
        text = _between_statements(text)
    if "\\begin" in text:
        text = _SYSTEM.sub(_list_of_rows, text)
    return text


def plain(text: str) -> str:
    """Ordinals, binomials, labels, ratios and reversed brackets, in a text without styles."""
    if "th" in text or "d}" in text or "st" in text:
        text = _ORDINAL.sub("", text)
    if "}-" in text or "} -" in text:
        text = _UNIT_DASH.sub(r"\\text{\1 \2}", text)  # `\mathrm{N}-\mathrm{m}`
    if "C" in text:
        text = _CHOOSE.sub(r"\\binom{\1}{\2}", text)
        text = _COMBINATIONS.sub(_combinations, text)
    if "to" in text and _RATIO.fullmatch(text.strip()):
        text = re.sub(r"[^\d.]+", ":", text.strip())
    if ":" in text:
        text = _without_label(text)
    if " or " in text or "{or " in text:
        text = text if (found := _OR_MORE.fullmatch(text)) is None else _ray(found)
    if "pi" in text:
        text = _PI_RUN.sub(_product_with_pi, text)
    if "Rs." in text:
        text = text.replace("Rs. ", "Rs ").replace("Rs.", "Rs ")
    if "+/-" in text or text.startswith("+-"):
        text = text.replace("+/-", "\\pm ").replace("+-", "\\pm ", 1)
    if ("]" in text or "[" in text) and not _is_balanced(text):
        text = _FRENCH.sub(_turned, text)
    return _without_integer(text) if "integer" in text else text


def decimal_comma(text: str) -> str:
    """`3{,}5` as `3.5`; `3{,}500` is 3500, and `0{,}125` an eighth."""
    return _DECIMAL_COMMA.sub(r"\1.", text)


def _degrees(found: re.Match[str]) -> str:
    minutes, seconds = found["minutes"], found["seconds"] or "0"
    return rf"({found['degrees']}+\frac{{{minutes}}}{{60}}+\frac{{{seconds}}}{{3600}})^\circ"


def _list_of_rows(found: re.Match[str]) -> str:
    rows = re.sub(r"&?\s*(=|<|>|\\[lg]eq?)\s*&?", r"\1", found["rows"])
    shown = [row.strip(" ,;\n") for row in rows.split("\\\\") if row.strip()]
    are_relations = "=" in rows or all(map(_SIGN.search, shown))
    return found[0] if "&" in rows or not are_relations else ", ".join(shown)


def _between_statements(text: str) -> str:
    r"""The text with a comma for the space in `y = x \quad y = -x`."""
    pieces = _QUAD.split(text)
    if sum(map(bool, map(_SIGN.search, pieces))) < max(len(pieces), 2):
        return text
    return ", ".join(piece.strip(" ,;") for piece in pieces)


def _combinations(found: re.Match[str]) -> str:
    upper, lower = int(found[1]), int(found[2])
    is_constant = upper < 3 or lower > upper  # `C_1^2` is the square of a constant
    return found[0] if is_constant else rf"\binom{{{upper}}}{{{lower}}}"


def _without_label(text: str) -> str:
    """The equation of a curve without its name, as in `C: x^2 + y^2 = 4`."""
    label = _LABEL.match(text)
    rest = text[label.end() :] if label else ""
    is_equation = "=" in rest and ":" not in rest and ("x" in rest or "y" in rest)
    return rest.lstrip() if is_equation else text


def _ray(found: re.Match[str]) -> str:
    r"""`5 or more` as `\ge 5`."""
    sign = "\\ge" if found["side"] in ("more", "greater", "larger") else "\\le"
    return f"{sign} {found['end'].strip()}"


def _product_with_pi(found: re.Match[str]) -> str:
    r"""`pir` as `\pi r`."""
    before, after = found.groups()
    return f"{before}\\pi {after}" if before or after else found[0]


def _is_balanced(text: str) -> bool:
    depth = 0
    for mark in text:
        depth += (mark in "([") - (mark in ")]")
        if depth < 0:
            return False
    return depth == 0


def _turned(found: re.Match[str]) -> str:
    """`]0, 1[` as `(0, 1)`."""
    opening, content, closing = found.groups()
    if content.count(",") + content.count(";") != 1:
        return found[0]
    return f"{'(' if opening == ']' else opening}{content}{')' if closing == '[' else closing}"


def _without_integer(text: str) -> str:
    """The text without `where k is an integer` or `for any integer k` at its end."""
    found = _IS_INTEGER.search(text)
    if not found or text[found.end() :].strip(" .$)}"):
        return text
    rest = text[: found.start()]
    while True:
        rest = rest.rstrip(" ,;$~\n")
        word = next((word for word in _BEFORE_INTEGER if rest.endswith(word)), "")
        if not word:
            return rest or text
        rest = rest[: -len(word)]


def _negation(found: re.Match[str]) -> str:
    if found["equal"]:
        return "\\ne "
    return "\\notin " if found["in"] else "\\lnot "
