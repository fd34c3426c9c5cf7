"""Names on the left of an equation: `x`, `f(x)`, `AB`, `Area`, `(x, y)`."""

from __future__ import annotations

from rlcm_serve.answers.canonical.text.tokens import Token
from rlcm_serve.answers.canonical.text.vocabulary import FUNCTIONS, GREEK, is_product

_PREFIXES = frozenset(("\\angle", "\\overline", "\\triangle", "\\measuredangle", "\\widehat"))
_LONGEST = 24


def name_of(tokens: list[Token], at: int, end: int) -> str:
    """The name that the tokens are; empty if they are something else, such as `2x`."""
    if not at < end <= at + _LONGEST:
        return ""
    texts = [token[1] for token in tokens[at:end]]
    if texts[:1] == ["{"] and texts[2:3] == ["}"]:
        tokens, at, end = [*tokens[at + 1 : at + 2], *tokens[at + 3 : end]], 0, end - at - 2
        texts = [token[1] for token in tokens]
    while texts and (texts[0] in _PREFIXES or (texts[:2] == ["m", "\\angle"])):
        texts = texts[1:]
    name = "".join(text for text in texts if text not in "{}").replace("\\", "")
    if not texts or not _is_name(tokens[end - len(texts) : end], texts):
        return ""
    return "y" if name == "f(x)" else name.casefold()


def _is_name(tokens: list[Token], texts: list[str]) -> bool:
    first = texts[0]
    if first == "(" and texts[-1] == ")":
        return all(len(text) == 1 and text.isalpha() for text in texts[1:-1:2]) and all(
            text == "," for text in texts[2:-1:2]
        )
    if first == "|" and texts[-1] == "|" and len(texts) > 2:
        return _is_name(tokens[1:-1], texts[1:-1])
    if first.removeprefix("\\") in FUNCTIONS and len(texts) > 1:
        start = 2 if texts[1] in _PREFIXES and len(texts) > 2 else 1
        return _is_name(tokens[start:], texts[start:])
    if first == "\\frac" and len(texts) == 7:  # dy/dx
        return texts[2][0] == "d" == texts[5][0] and texts[2].isalpha() and texts[5].isalpha()
    if first in "{" and texts[-1] == "}":
        return _is_name(tokens[1:-1], texts[1:-1]) if len(texts) > 2 else False
    if len(texts) > 2 and set(texts[1::2]) == {":"}:  # a ratio such as `AB:BC`
        return len(texts) % 2 == 1 and all(kind == "word" for kind, _, _ in tokens[::2])
    if all(kind in ("word", "text") for kind, _, _ in tokens):
        if len(tokens) == 1 and len(first) > 1 and is_product(first):
            return False
        return first not in ("e", "i", "pi") and not any(t in ("and", "or") for t in texts)
    is_letter = (len(first) == 1 and first.isalpha()) or first.removeprefix("\\") in GREEK
    if not is_letter and tokens[0][0] not in ("word", "text"):
        return False
    rest = texts[1:]
    while rest and rest[0] == "'":
        rest = rest[1:]
    if rest and rest[0] in ("_", "^"):
        if rest[0] == "^" and "(" not in rest:
            return first.isupper() and rest == ["^", "{", "-", "1", "}"]  # of a matrix
        length = rest.index("}") + 1 if len(rest) > 1 and rest[1] == "{" and "}" in rest else 2
        rest = rest[length:]
    while rest and rest[0] == "'":
        rest = rest[1:]
    if not rest:
        return True
    if len(rest) == 1 and rest[0].isdigit() and len(first) == 1:
        return not tokens[1][2]
    return is_letter and rest[0] in "([" and rest[-1] in ")]" and _one_group(rest)


def _one_group(texts: list[str]) -> bool:
    depth = 0
    for at, text in enumerate(texts):
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if depth == 0 and at < len(texts) - 1:
            return False
    return depth == 0
