"""A place in the tokens of an expression, and what can be read there without its grammar."""

from __future__ import annotations

from fractions import Fraction

from rlcm_serve.answers.canonical.text.tokens import Token, Unreadable


class TokenCursor:
    """A place in a range of tokens.

    Args:
        tokens: all tokens.
        partner: the index of each bracket's partner.
        at, end: the range.
    """

    def __init__(self, tokens: list[Token], partner: dict[int, int], at: int, end: int) -> None:
        self._tokens, self._partner = tokens, partner
        self._at, self._end = at, end
        self._depth = 0
        self._in_bars = 0
        self._skipped = 0
        """Letters of the next token that were read before."""

    @property
    def _next(self) -> str:
        """The text of the next token if it is a mark, else an empty text."""
        if self._at < self._end and self._tokens[self._at][0] == "mark":
            return self._tokens[self._at][1]
        return ""

    def _sign(self) -> str:
        sign = ""
        while self._next in ("+", "-", "\\pm", "\\mp"):
            mark = self._next
            if mark in ("\\pm", "\\mp"):
                if sign:
                    raise Unreadable("several signs")
                sign = mark
            elif mark == "-":
                if sign in ("\\pm", "\\mp"):
                    raise Unreadable("several signs")
                sign = "" if sign == "-" else "-"
            self._at += 1
        return sign

    def _reads_degrees(self, is_number: bool) -> bool:
        texts = [token[1] for token in self._tokens[self._at : min(self._at + 4, self._end)]]
        forms = [["\\circ"], ["{", "\\circ", "}"], ["{", "^", "\\circ", "}"]]
        for form in [*forms, ["o"], ["{", "o", "}"]] if is_number else forms:
            if texts[: len(form)] == form:
                self._at += len(form)
                return True
        return False

    def _fraction_part(self) -> Fraction | None:
        r"""The fraction of a mixed number, as in `1\frac12` and `1 1/2`; None if there is none."""
        texts = [token[1] for token in self._tokens[self._at : min(self._at + 7, self._end)]]
        match texts:
            case ["\\frac", "{", top, "}", "{", bottom, "}"]:
                length = 7
            case ["\\frac", digits, *_] if len(digits) == 2 and digits.isdigit():
                top, bottom, length = digits[0], digits[1], 2
            case ["{", top, "/", bottom, "}", *_]:
                length = 5
            case [top, "/", bottom, *_]:
                length = 3
            case _:
                return None
        if not (top.isdigit() and bottom.isdigit()) or len(top) > 9 or len(bottom) > 9:
            return None
        if not 0 < int(top) < int(bottom):
            return None
        self._at += length
        return Fraction(int(top), int(bottom))

    def _indexed(self, name: str) -> str:
        """The name with its index and primes, `x_1` or `x1` alike."""
        while True:
            if self._next == "'":
                self._at += 1
                name += "'"
            elif self._next == "_":
                start = self._at = self._at + 1
                self._at = self._partner[start] + 1 if self._next == "{" else start + 1
                if self._at > self._end:
                    raise Unreadable("no index")
                texts = (token[1] for token in self._tokens[start : self._at])
                name += "_" + "".join(text for text in texts if text not in "{}")
            elif name.isalpha() and len(name) == 1 and self._follows_number():
                name += "_" + self._tokens[self._at][1]
                self._at += 1
            else:
                return name

    def _follows_number(self) -> bool:
        if self._at >= self._end:
            return False
        kind, text, spaced = self._tokens[self._at]
        return kind == "number" and text.isdigit() and not spaced
