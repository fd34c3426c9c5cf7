"""The keys of answers with words: what is kept of a text, so that different answers stay different.

Layout, punctuation and hyphens of prose go. Whatever stands beside mathematics stays: brackets,
bars, signs, primes, points, commas between members, and every command that is not known as layout.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from rlcm_serve.answers.canonical.text.vocabulary import ENGLISH, spells_mathematics

_LAYOUT = (
    "text(?:bf|it|rm|tt|sf|normal|up|sc)?|math(?:rm|bf|bb|cal|it|sf|tt|frak|scr|op|normal)|"
    "operatorname|[mh]box|q?quad|(?:thin|med|thick|en)?space|newline|par|noindent|dollar|"
    "over(?:line|rightarrow)|wide(?:hat|tilde)|therefore|because"
)
_TOKEN = re.compile(
    rf"""(?P<space>(?:\s|[~$`]|\\[,;:!\ >]|\\(?:{_LAYOUT})(?![A-Za-z]))+)
    |\\(?:begin|end)\s*\{{(?P<environment>[A-Za-z]+)\*?\}}(?:\s*\{{[lcr|\ ]*\}})?
    |(?P<degrees>\^\s*(?:\{{\s*)?\\circ(?:\s*\}})?(?![A-Za-z]))
    |\\(?P<command>[A-Za-z]+)
    |(?P<row>\\\\)
    |\\(?P<escaped>.)
    |(?P<dots>\.\.+)
    |(?P<number>\d+(?:\.\d+)?|\.\d+)
    |(?P<word>[^\W\d_]+(?:'[^\W\d_]+)*)
    |(?P<sign>[!<>]=)
    |(?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_MEANT = {
    "to": "implies", "rightarrow": "implies", "longrightarrow": "implies",
    "Rightarrow": "implies", "Longrightarrow": "implies",
    "leftrightarrow": "iff", "Leftrightarrow": "iff", "Longleftrightarrow": "iff",
    "wedge": "land", "vee": "lor", "neg": "lnot", "le": "<=", "leq": "<=", "leqslant": "<=",
    "ge": ">=", "geq": ">=", "geqslant": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=",
    "cdot": "*", "times": "*", "div": "/", "vert": "|", "lvert": "|", "rvert": "|",
    "lbrace": "{", "rbrace": "}", "dfrac": "frac", "tfrac": "frac", "cfrac": "frac",
    "ldots": "dots", "cdots": "dots", "degree": "degrees", "varnothing": "emptyset",
    "varepsilon": "epsilon", "varphi": "phi", "vartheta": "theta", "measuredangle": "angle",
    "bigcup": "cup", "bigcap": "cap", "middle": "", "infinity": "infty",
}  # fmt: skip
"""Commands with the same meaning as another one, or as a sign."""
_ESCAPED = {"{": "{", "}": "}", "|": "|", "%": "%", "&": "&", "#": "#", "_": "_"}
_KEPT = frozenset("+*/^=<>%&@#|()[]{}")
_BETWEEN = frozenset(",;:")
"""Marks that are kept between two members, and dropped beside a word."""
_INSIDE_PROSE = frozenset(",;.'\"-")
_ARTICLE = re.compile(r"\A(?:an?|the)\s+(?=\S)")
_SAME = {
    "none": "no solution",
    "no solutions": "no solution",
    "no real solution": "no solution",
    "no real solutions": "no solution",
    "empty set": "no solution",
    "dne": "does not exist",
    "all real": "all real numbers",
    "all reals": "all real numbers",
    "real numbers": "all real numbers",
    "all real number": "all real numbers",
    "infinitely many solutions": "infinitely many",
}
NO_SOLUTION = "no solution"
ALL_REALS = "all real numbers"


@dataclass(slots=True)
class _Token:
    """A word of prose, a value such as `x`, `2.5` or a command, or a mark; `text` may be empty."""

    kind: str
    text: str
    spaced: bool
    is_command: bool = False
    is_argument: bool = False
    """Whether it closes an argument of a command or an exponent."""


def text_key(text: str) -> str:
    """The words in lower case, without an article at the start, layout and punctuation."""
    tokens = _tokens(text)
    _settle_brackets(tokens)
    tokens = [token for token in tokens if token.text]
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.kind == "mark" and not _is_kept(token, before, after):
            token.kind = "dropped"
    words = _joined(tokens)
    words = _ARTICLE.sub("", words, count=1)
    return _SAME.get(words, words)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    spaced = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "space":
            spaced = True
            continue
        found.append(_token(kind, match[kind], spaced))
        spaced = found[-1].is_command
    return found


def _token(kind: str, text: str, spaced: bool) -> _Token:
    match kind:
        case "command":
            meant = _MEANT.get(text, text)
            is_word = meant.isalpha()
            return _Token("value" if is_word else "mark", meant, spaced or is_word, is_word)
        case "environment" | "dots" | "degrees":
            named = {"dots": "dots", "degrees": "degrees"}.get(kind, text)
            return _Token("value", named, True, is_command=True)
        case "row":
            return _Token("mark", ",", spaced)
        case "escaped":
            return _Token("mark", _ESCAPED.get(text, ""), spaced)
        case "number":
            return _Token("value", text, spaced)
        case "word":
            plain = text.casefold().replace("'", "")
            if plain == "infinity":
                return _Token("value", _MEANT[plain], spaced)
            return _Token("word" if _is_prose(text) else "value", plain, spaced)
        case "mark" if text in "{}":
            return _Token("brace", text, spaced)
    return _Token("mark", text, spaced)


def _is_prose(word: str) -> bool:
    """Whether it is a word of a sentence, and not a letter, `xy`, `sin` or `AB`."""
    if not word.isascii():
        return True
    is_short = len(word) == 1 or (len(word) == 2 and word.isupper())
    lower = word.lower()
    return not is_short and (lower in ENGLISH or not spells_mathematics(lower))


def _settle_brackets(tokens: list[_Token]) -> None:
    """Takes away braces of layout, and brackets around prose; other braces become brackets."""
    open_: list[int] = []
    prose: list[bool] = []
    for at, token in enumerate(tokens):
        if token.text in ("(", "[") or (token.kind == "brace" and token.text == "{"):
            open_.append(at)
            prose.append(True)
        elif open_ and (token.text in (")", "]") or token.kind == "brace"):
            start, is_prose = open_.pop(), prose.pop()
            is_dropped = _settle(tokens, start, at, is_prose)
            if prose and not (is_dropped and is_prose):
                prose[-1] = False
        elif prose and token.kind != "word" and token.text not in _INSIDE_PROSE:
            prose[-1] = False
    for token in tokens:
        if token.kind == "brace":  # without a partner
            token.text = ""


def _settle(tokens: list[_Token], start: int, end: int, is_prose: bool) -> bool:
    """Decides on the brackets at two places; whether they are dropped."""
    opening, closing = tokens[start], tokens[end]
    before = tokens[start - 1] if start else None
    takes_brace = False
    if opening.kind == "brace":
        takes = before is not None and (
            before.is_command or before.is_argument or before.text in ("^", "_", "]")
        )
        closing.is_argument = takes
        is_dropped = not takes or end <= start + 2
        takes_brace = takes
    else:
        touches = before is not None and before.kind == "value" and not opening.spaced
        is_one = end == start + 2 and tokens[start + 1].kind == "value" and opening.text == "("
        is_dropped = (is_prose or is_one) and not touches
    if is_dropped:
        opening.text = closing.text = ""
        if end > start + 1:
            tokens[start + 1].spaced = tokens[start + 1].spaced or opening.spaced or not takes_brace
        if end + 1 < len(tokens):
            tokens[end + 1].spaced = True
    elif opening.kind == "brace":
        opening.kind = closing.kind = "mark"
        opening.text, closing.text = "(", ")"
    return is_dropped


def _is_kept(token: _Token, before: _Token | None, after: _Token | None) -> bool:
    mark = token.text
    if mark in _KEPT or len(mark) > 1:
        return True
    follows = before is not None and not token.spaced and before.kind != "word"
    match mark:
        case "-":
            return after is not None and not _is_hyphen(token, before, after)
        case "_":
            return after is not None and after.text == "("
        case "," | ";" | ":":
            sides = (before, after)
            return all(side and side.kind != "word" and side.text not in "&" for side in sides)
        case "!" | '"':
            return follows
        case "'":
            is_owner = after is not None and not after.spaced and after.text in ("s", "m", "d")
            return follows and not is_owner
    return unicodedata.category(mark)[0] not in "PZC"


def _is_hyphen(dash: _Token, before: _Token | None, after: _Token) -> bool:
    """Whether a dash is no sign: `blue-green` and `x-axis`, but neither `of -2` nor `x - y`."""
    if before is None or before.kind in ("mark", "dropped"):
        return False
    if after.kind == "word":
        return before.kind == "word" or not after.spaced
    return before.kind == "word" and not dash.spaced and not after.spaced


def _joined(tokens: list[_Token]) -> str:
    """The tokens with blanks only between words and values that are apart, and not in `2 x`."""
    pieces: list[str] = []
    is_apart, after_value, after_factor = False, False, False
    for token in tokens:
        if token.kind == "dropped":
            is_apart = is_apart or token.text != "_"
            continue
        is_value = token.kind != "mark"
        is_letter = token.kind == "value" and len(token.text) == 1 and token.text.isalpha()
        is_product = is_letter and after_factor and not is_apart
        if is_value and after_value and (token.spaced or is_apart) and not is_product:
            pieces.append(" ")
        pieces.append(token.text)
        is_apart, after_value = token.is_command, is_value
        after_factor = token.kind == "value" and not token.is_command
    return "".join(pieces)
