"""Dates and times of day, which are no subtractions and no ratios."""

from __future__ import annotations

import re

_MONTHS = """
january february march april may june july august september october november december
"""
_MONTH = (
    {name: at for at, name in enumerate(_MONTHS.split(), 1)}
    | {name[:3]: at for at, name in enumerate(_MONTHS.split(), 1)}
    | {"sept": 9}
)
_NAME = "(?P<month>" + "|".join(sorted(_MONTH, key=len, reverse=True)) + r")\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+)?"
_FORMS = tuple(
    re.compile(_WEEKDAY + form, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
        r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
        r"(?P<month>\d{1,2})[/-](?P<day>\d{1,2})[/-](?P<year>\d{4})",
        r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
        rf"{_NAME}\s+(?:the\s+)?{_DAY}(?:\s*,\s*|\s+)(?P<year>\d{{4}})",
        rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_NAME}\s*,?\s*(?P<year>\d{{4}})",
        rf"{_NAME}\s+(?:the\s+)?{_DAY}(?P<year>)",
        rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_NAME}(?P<year>)",
        rf"{_NAME}(?P<day>),?\s+(?P<year>\d{{4}})",
    )
)
_TIME = re.compile(
    r"(?P<hour>\d{1,2})(?:\s?:\s?(?P<minute>\d{2}))?(?:\s?:\s?(?P<second>\d{2}))?\s*"
    r"(?P<half>[ap])\.?\s?m\.?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"(?P<hour>0\d|\d{1,2}(?=:0)):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?")
"""Without `am` or `pm` only `10:05` and `09:30`: `3:30` is a ratio."""
_MAY_BE_DATE = re.compile(
    r"\d[-/.]\d{1,2}[-/.]\d|\d:\d|\d\s*[ap]\.?\s?m|"
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec",
    re.IGNORECASE,
)
"""What every form above has somewhere, so that most texts are tried with no form."""
_LONGEST = 50


def date_key(text: str) -> str | None:
    """The key of a date or a time with `am` or `pm`; None if the text is neither.

    Of `3/4/2024` the month comes first, as in the United States; `25/4/2024` can only be April.
    """
    if len(text) > _LONGEST or "\\" in text or not _MAY_BE_DATE.search(text):
        return None
    if not any(map(str.isdigit, text)):
        return None
    for form in _FORMS:
        if found := form.fullmatch(text):
            return _date(found)
    if found := _TIME.fullmatch(text):
        hour = int(found["hour"]) % 12 + 12 * (found["half"].lower() == "p")
        if int(found["hour"]) in range(1, 13):
            return _time(hour, found)
    if (found := _CLOCK.fullmatch(text)) and int(found["hour"]) < 24:
        return _time(int(found["hour"]), found)
    return None


def _date(found: re.Match[str]) -> str | None:
    month = _MONTH.get(found["month"].lower()) or (
        int(found["month"]) if found["month"].isdigit() else 0
    )
    day = int(found["day"] or 0)
    if month > 12 >= day > 0:
        month, day = day, month
    if not 1 <= month <= 12 or day > 31 or (found["day"] and not day):
        return None
    year = found["year"]
    return f"date {year}-{month}-{day}"


def _time(hour: int, found: re.Match[str]) -> str:
    return f"time {hour}:{int(found['minute'] or 0)}:{int(found['second'] or 0)}"
