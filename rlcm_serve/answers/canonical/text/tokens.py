"""From the text of an answer to tokens."""

from __future__ import annotations

import re

Token = tuple[str, str, bool]
"""Kind, text, and whether white space stands before it."""

LONGEST = 2000
"""Characters; a longer answer equals only its own text."""
NUMBERS = frozenset(("number", "scientific", "prefixed", "repeating"))
"""Kinds of tokens that are numbers."""
_DEEPEST = 30
"""Nested brackets."""


class Unreadable(ValueError):
    """The text is no mathematical answer that this package can read."""


_TOKEN = re.compile(
    r"""(?P<space>(?:\s|~|\\[,;:!\ ]|\\q?quad(?![A-Za-z]))+)
    |(?P<repeating>(?=\.?\d|\.\\(?:overline|bar|dot))\d*+\.\d*+(?:\\(?:overline|bar)\s*\{\s*\d+\s*\}|\\(?:overline|bar)\s*\d
        |\(\d+\)(?![\d(])|\\dot\s*\{?\d\}?(?:\d*+\\dot\s*\{?\d\}?)?
        |(?:\.\.+|\\[lc]?dots(?![A-Za-z]))))
    |(?P<prefixed>0x[0-9A-Fa-f]+(?![0-9A-Za-z])|0b[01]+(?![0-9A-Za-z])|0o[0-7]+(?![0-9A-Za-z]))
    |(?P<based>(?=[A-Z]*\d)(?=\d*[A-Z])[0-9A-Z]+(?=_\{?(?:1[1-9]|2\d|3[0-6])(?!\d))
        |(?:[A-Fa-f][0-9A-Fa-f]|\d++[A-Fa-f])[0-9A-Fa-f]*(?=_\{?16(?!\d)))
    |(?P<scientific>(?:\d++(?:\.\d*+)?|\.\d++)[eE][+-]?\d+(?![A-Za-z0-9.^_]))
    |(?P<number>\d++(?:\.\d++|\.(?!\d))?|\.\d++)
    |(?P<text>\\text\s*\{[^{}]*\})
    |(?P<environment>\\(?:begin|end)\s*\{(?:[pbB]|small)?(?:matrix|array)\}(?:\s*\{[lcr|\ ]*\})?)
    |(?P<command>\\(?:[A-Za-z]+|[^A-Za-z]))
    |(?P<word>[A-Za-z]+|[\u4e00-\u9fff]+)
    |(?P<relation><=|>=|!=|:=|=+|<|>)
    |(?P<power>\*\*|\^)
    |(?P<mark>[-+*/(){}\[\]|!,;:_&%'"?.\#])
    """,
    re.VERBOSE,
)
_ALIAS = {
    "**": "^", "==": "=", ":=": "=", "\\cdot": "*", "\\times": "*", "\\ast": "*", "\\bullet": "*",
    "\\bigcup": "\\cup", "\\bigcap": "\\cap",
    "\\div": "/",
    "\\%": "%", "\\lbrace": "\\{", "\\rbrace": "\\}", "\\lbrack": "[",
    "\\rbrack": "]", "\\lparen": "(", "\\rparen": ")", "\\vert": "|", "\\lvert": "|",
    "\\rvert": "|", "<=": "\\le", ">=": "\\ge", "!=": "\\ne", "\\leq": "\\le", "\\geq": "\\ge",
    "\\leqslant": "\\le", "\\geqslant": "\\ge", "\\neq": "\\ne", "\\lt": "<", "\\gt": ">",
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac", "\\dbinom": "\\binom",
    "\\tbinom": "\\binom", "\\degree": "\\circ", "\\varnothing": "\\emptyset",
    "\\backslash": "\\setminus", "\\ldots": "\\dots", "\\cdots": "\\dots", "\\sim": "\\approx",
    "\\simeq": "\\approx", "\\wedge": "and", "\\land": "and", "\\vee": "or", "\\lor": "or",
    "\\And": "and", "\\prime": "'", "\\_": "_", "\\&": "and",
    "\\varepsilon": "\\epsilon", "\\varphi": "\\phi", "\\vartheta": "\\theta",
}  # fmt: skip
_LOGIC = frozenset(("\\wedge", "\\land", "\\vee", "\\lor"))
_RELATIONS = frozenset(("=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\approx", "\\equiv"))
"""Between relations, the signs of logic divide a list of them."""
_INFINITIES = frozenset(("infinity", "Infinity", "infty", "inf", "oo"))
_BRACKETS = {
    "(": ")]", "[": ")]", "{": "}", "\\{": "\\}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil",
    "\\langle": "\\rangle", "begin": "end",
}  # fmt: skip
_CLOSING = frozenset((")", "]", "}", "\\}", "\\rfloor", "\\rceil", "\\rangle", "end"))


def tokenize(text: str) -> list[Token]:
    """The tokens of a cleaned text.

    Raises:
        Unreadable: it has a character that is not in any token, or is a formula of logic.
    """
    tokens: list[Token] = []
    at, spaced, grouped, is_logic = 0, False, False, False
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        if start != at:
            raise Unreadable(text[at])
        at = end
        kind, value = found.lastgroup or "", found[0]
        if kind == "space":
            spaced = True
            continue
        if kind == "number":
            grouped = grouped or (bool(tokens) and (tokens[-1][0] == kind or tokens[-1][1] == ","))
        elif kind != "mark":
            is_logic = is_logic or value in _LOGIC
            kind, value = _meant(kind, value)
            if not value:
                continue
        tokens.append((kind, value, spaced))
        spaced = False
    if at != len(text):
        raise Unreadable(text[at:])
    if is_logic and _RELATIONS.isdisjoint(token[1] for token in tokens):
        raise Unreadable("`and` and `or` of logic, which divide no list")
    return _join_thousands(tokens) if grouped else tokens


def is_balanced(tokens: list[Token]) -> bool:
    """Whether each bracket has its partner."""
    try:
        partners(tokens)
    except Unreadable:
        return False
    return True


def has_numbers_apart(tokens: list[Token]) -> bool:
    """Whether two numbers stand side by side, as in `1 2 3`, which is no number and no product."""
    kinds = ["", *(kind if kind in NUMBERS else text for kind, text, _ in tokens)]
    return any(
        one in NUMBERS and other in NUMBERS and before not in ("^", "_")
        for before, one, other in zip(kinds, kinds[1:], kinds[2:], strict=False)
    )


def _meant(kind: str, value: str) -> tuple[str, str]:
    """Kind and text of a token by its meaning; an empty text if it has none."""
    match kind:
        case "environment":
            return "mark", "begin" if value.startswith("\\begin") else "end"
        case "text":
            return "text", value[value.index("{") + 1 : -1].strip()
        case "command" | "relation" | "power":
            value = _ALIAS.get(value, value)
            return "word" if value in ("and", "or") else "mark", value
        case "word" if value in _INFINITIES:
            return "mark", "\\infty"
    return kind, value


def _join_thousands(tokens: list[Token]) -> list[Token]:
    """`1,234` and `1 234` as one number, but not in brackets, where a comma is between members."""
    joined: list[Token] = []
    depth, at = 0, 0
    while at < len(tokens):
        kind, value, spaced = tokens[at]
        if kind == "number" and (end := _end_of_groups(tokens, at, depth > 0)) > at + 1:
            digits = "".join(token[1] for token in tokens[at:end] if token[0] == "number")
            joined.append(("number", digits, spaced))
            at = end
            continue
        if kind == "mark":
            depth += (value in _BRACKETS) - (value in _CLOSING)
        joined.append(tokens[at])
        at += 1
    return joined


def _end_of_groups(tokens: list[Token], start: int, in_brackets: bool) -> int:
    """The index behind the groups of digits that begin at `start`."""
    first = tokens[start][1]
    if not first.isdigit() or len(first) > 3 or first[0] == "0":
        return start
    if (start and tokens[start - 1][1] == "," and not tokens[start][2]) or in_brackets:
        return start
    at = start + 1
    while at < len(tokens):
        step = 1 if tokens[at][0] == "number" else 2
        group = tokens[at + step - 1] if at + step <= len(tokens) else ("", "", False)
        whole = group[1].partition(".")[0]
        if group[0] != "number" or not (whole.isdigit() and len(whole) == 3):
            break
        if step == 2 and (tokens[at][1] != "," or tokens[at][2] or group[2]):
            break
        at += step
        if whole != group[1]:
            break
    following = tokens[at] if at < len(tokens) else ("", "", False)
    after = tokens[at + 1] if at + 1 < len(tokens) else ("", "", False)
    is_list = following[1] == "," and not after[2] and after[0] == "number"
    if is_list or (following[1] == "/" and tokens[at - 1][2]):
        return start
    return at


def partners(tokens: list[Token]) -> dict[int, int]:
    """The index of the closing bracket for the index of each opening one.

    Raises:
        Unreadable: the brackets do not match, or are nested too deeply.
    """
    open_: list[int] = []
    partner: dict[int, int] = {}
    for at, (kind, value, _) in enumerate(tokens):
        if kind != "mark":
            continue
        if value in _BRACKETS:
            open_.append(at)
            if len(open_) > _DEEPEST:
                raise Unreadable("nested too deeply")
        elif value in _CLOSING:
            if not open_ or value not in _partners_of(tokens[open_[-1]][1]):
                raise Unreadable("brackets that do not match")
            partner[open_.pop()] = at
    if open_:
        raise Unreadable("a bracket that is not closed")
    return partner


def _partners_of(opening: str) -> tuple[str, ...]:
    closing = _BRACKETS[opening]
    return tuple(closing) if closing == ")]" else (closing,)
