"""Chinese words in answers: units, `or` and `and`, and numbers in circles."""

from __future__ import annotations

import re

_UNITS = {
    "毫米": "mm", "厘米": "cm", "分米": "dm", "千米": "km", "公里": "km", "米": "m",
    "毫克": "mg", "千克": "kg", "公斤": "kg", "克": "g", "吨": "ton", "毫升": "ml", "升": "L",
    "秒": "s", "秒钟": "s", "分": "min", "分钟": "min", "小时": "h", "时": "h", "天": "day",
    "日": "day", "周": "week", "年": "year", "元": "yuan", "美元": "dollar", "度": "degree",
}  # fmt: skip
_POWERS = {"平方": "^2", "立方": "^3"}
_WORDS = {"或": "or", "或者": "or", "和": "and", "与": "and", "且": "and", "及": "and"}
_RUN = re.compile("[\u4e00-\u9fff]+")
_CIRCLED = re.compile(r"[①-⑳](?:\s*[①-⑳])*")
_TEXTCIRCLED = re.compile(r"\\textcircled\s*\{?\s*(\d)\s*\}?")
_FIRST = ord("①")


def as_english(text: str) -> str:
    """The text with English units and conjunctions; `①③` is the list `1, 3`."""
    text = _CIRCLED.sub(_numbers, text)
    return _RUN.sub(_word, text)


def circled(text: str) -> str:
    r"""The text with `①` for `\textcircled{1}`."""
    return _TEXTCIRCLED.sub(lambda found: chr(_FIRST + int(found[1]) - 1), text)


def _numbers(found: re.Match[str]) -> str:
    return ", ".join(str(ord(mark) - _FIRST + 1) for mark in found[0] if not mark.isspace())


def _word(found: re.Match[str]) -> str:
    run = found[0]
    if run in _WORDS:
        return f" {_WORDS[run]} "
    power, name = _POWERS.get(run[:2], ""), run[2:]
    if power and name in _UNITS:
        return f" {_UNITS[name]}{power} "
    return f" {_UNITS[run]} " if run in _UNITS else run
