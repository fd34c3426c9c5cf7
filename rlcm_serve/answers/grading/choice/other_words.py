r"""What stands beside an option's letter: another option, as in `B, maybe C`, or a denial.

Both are told by words and marks, so that `B. vitamin C` and `B, because C is too small` choose B.
"""

from __future__ import annotations

import re
from itertools import islice

USUAL_LETTERS = "ABCDEFGHIJ"
"""Letters of options, where these are not known."""
_WINDOW = 60
"""Characters beside a letter that are looked at."""
_MOST_LETTERS = 1000
"""Single letters that are looked at. A text with more chooses no option."""
_LETTER = re.compile(r"(?<![^\W_])[A-Za-z](?![^\W_])")
_BETWEEN = re.compile(
    r"[\s)\]}]*+(?:[,/&+、]\s*+(?:(?:and|or|nor)\b)?|(?:and|or|nor)\b)\s*+"
    r"(?:(?:option|choice|answer)\s++)?[\s(\[{]*+",
    re.IGNORECASE,
)
"""Between letters that share what is said of them: `A, C and (D)`."""
_OPENING, _CLOSING = " \t\r\n([{<\"'“‘«*_\\", " \t\r\n)]}>\"'”’»*_\\"
_OPTION = re.compile(r"\b(?:the\s+)?(?:option|choice|letter|answer)\s*:?$", re.IGNORECASE)

_BE = (
    r"(?:is|are|was|were|(?:can|could|may|might|must|should|would|has\s+to)\s+be|ha(?:s|ve)\s+been"
    r"|seems?|looks?|appears?|sounds?)(?:\s+(?:to\s+be|also|just|both|all|[a-z]+ly)\b){0,3}"
)
_RIGHT = r"(?:the\s+)?(?:correct|right|best|true|valid|possible|answer|it)\b"
_DENIED = re.compile(
    r"(?:wrong|incorrect)\b|not\s+(?:the\s+)?(?:correct|right|best|answer|it)\b"
    rf"|{_BE}(?:n['’]t\b|\s+(?:not|wrong|incorrect|false|untrue|invalid|impossible|mistaken"
    r"|excluded|eliminated|rejected|ruled\s+out|unlikely|implausible|inconsistent|too)\b)"
    rf"|(?:can(?:not|\s+not|['’]t)|(?:could|must|should|would)(?:\s+not|n['’]t))\s+be\s+{_RIGHT}"
    r"|(?:do|does|did)(?:\s+not|n['’]t)\s+(?:fit|work|match|hold|satisfy|make\s+sense|apply)\b"
    r"|fails?\s*(?:$|[.,;])"
    r"|(?:maybe|perhaps|possibly|probably|definitely|certainly|clearly)\s+not\b"
    r"|no(?:pe)?[,.]?\s+(?:wait|actually|sorry)\b|错|不对|不正确",
    re.IGNORECASE,
)
_DENIED_BEHIND = re.compile(
    r"[,;:(–—-]\s*(?:wrong|incorrect)[\s).!]*$"
    r"|(?:^|[,;:.(–—-]\s*)(?:(?:but|and|so|however),?\s+)?"
    r"(?:which|that|this|it)(?:\s+(?:option|answer|choice|one))?"
    rf"(?:['’]s|\s+{_BE})(?:n['’]t\s+{_RIGHT}|\s+not\s+{_RIGHT}|\s+(?:wrong|incorrect)\b)",
    re.IGNORECASE,
)
_DENYING = re.compile(
    r"\b(?:not|no|never|neither|nor|none|without|except|but|than|avoid|wrong|incorrect|false"
    r"|doubt\w*|exclud\w*|eliminat\w*|reject\w*|rul\w+\s+out)\b|n['’]t\b|[不错非除]",
    re.IGNORECASE,
)

_HEDGE = re.compile(r"\b(?:or|maybe|perhaps|possibly|alternatively|actually|no,)$", re.IGNORECASE)
_STATING = re.compile(
    r"[,;!?–—。、]$|\b(?:or|nor|and|but|maybe|perhaps|possibly|probably|likely|also|no|actually|wait"
    r"|sorry|rather|instead|alternatively|otherwise|else|either|both|even|plus|with|then|unless"
    r"|however|though|although|equivalently|likewise|in\s+addition\s+to|is|it's|its"
    r"|be|mean|meant|think|say|pick|choose|select|same\s+as"
    r"|(?:change|switch|correct)\w*\s+(?:it\s+|my\s+answer\s+)?to)$",
    re.IGNORECASE,
)
"""What a second option follows."""
_STATED_ALONE = re.compile(r"$|[,;/&+。、]|\.(?!\w)|(?:and|or)\b", re.IGNORECASE)
_STATED = re.compile(
    rf"{_STATED_ALONE.pattern}|[:!?(–—]|(?:nor|but|too|also|as\s+well|instead|otherwise|if|unless"
    r"|because|since|maybe|perhaps|possibly|possible|likely|likewise|could|may|might|works|fits|then)\b"
    rf"|{_BE}\s+(?:a\s+)?{_RIGHT}|{_BE}\s+(?:likely|plausible|better|fine|acceptable)\b",
    re.IGNORECASE,
)
"""What follows a second option."""
_STATED_BEHIND_LABEL = re.compile(rf"{_STATED.pattern}|[\d$\\]", re.IGNORECASE)
_FORMULA = re.compile(r"\(|[)\]}]*[-_^=*'’<>]")
"""What makes a letter part of a formula or a name, as in `C(5, 2)` and `(E)-butene`."""
_DOES = re.compile(
    r"[a-z]+s\b|(?:are|were|have|do|did|had|can|cannot|could|may|might|must|should|will|would"
    r"|violate|contradict|give|require|need|fail|follow|lead|contain)\b"
)
"""What follows an option of which something is said; behind a label, such as `C)`, is its text."""
_NOT_STATING = re.compile(
    r"\b(?:not|than|of|out|excludes?|eliminates?|rejects?|unlike|except|over|from|against|to)$",
    re.IGNORECASE,
)


def names_another(text: str, letter: str, letters: str = USUAL_LETTERS) -> bool:
    """Whether a text beside an option's letter states another option.

    A letter states one where it stands alone between marks or words such as `or` and `maybe`, or in
    brackets, and is not denied. In `vitamin C` and `x + C` it does not.

    Args:
        text: beside the letter.
        letter: the option's own, in upper case.
        letters: of all options.
    """
    others = set(letters) - {letter}
    found = list(islice(_LETTER.finditer(text), _MOST_LETTERS + 1))
    return len(found) > _MOST_LETTERS or any(
        _is_stated(text, group[0], group[-1])
        for group in _groups(text, found)
        if any(one.group().upper() in others for one in group)
    )


def is_denied(rest: str) -> bool:
    """Whether what follows an option's letter denies the option: `is wrong`, `: incorrect`."""
    return bool(_DENIED.match(rest) or _DENIED_BEHIND.search(rest))


def may_deny(text: str) -> bool:
    """Whether a text before an option's letter has a word that may deny the option."""
    return _DENYING.search(text) is not None


def _groups(text: str, letters: list[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The letters of a text; those that are listed together in one group."""
    groups: list[list[re.Match[str]]] = []
    for found in letters:
        end = groups[-1][-1].end() if groups else -_WINDOW
        if found.start() - end < _WINDOW and _BETWEEN.fullmatch(text, end, found.start()):
            groups[-1].append(found)
        else:
            groups.append([found])
    return groups


def _is_stated(text: str, first: re.Match[str], last: re.Match[str]) -> bool:
    """Whether the letters from the first to the last state options."""
    start, end = first.start(), last.end()
    behind = text[end : end + _WINDOW]
    after = behind.lstrip(_CLOSING)
    if _DENIED.match(after) or _FORMULA.match(behind):
        return False
    window = text[max(0, start - _WINDOW) : start]
    before = window.rstrip(_OPENING + _CLOSING)
    gap = window[len(before) :]
    before = _OPTION.sub("", before).rstrip()
    is_first = not before and start <= _WINDOW
    if first.group().islower() or first.group() == "I":  # a variable, a pronoun
        is_said = is_first or _HEDGE.search(before) is not None
        return is_said and _STATED_ALONE.match(after) is not None
    is_apart = is_first or "\n" in gap or _STATING.search(before) is not None
    is_apart = is_apart or (gap != "" and before.endswith((".", ":")))
    if _is_label(text, start, end) and not _NOT_STATING.search(before):
        is_stated = _STATED_BEHIND_LABEL.match(after) is not None
        return is_stated or (is_apart and not _DOES.match(after))
    is_alone = _STATED.match(after) or "\n" in behind[: len(behind) - len(after)]
    return is_apart and bool(is_alone)


def _is_label(text: str, start: int, end: int) -> bool:
    """Whether letters are before a closing bracket of their own, and in no function's: `C)`."""
    closing = text[end : end + 1]
    if closing not in (")", "]"):
        return False
    opening = "(" if closing == ")" else "["
    place = start - (text[start - 1 : start] == opening)
    before = text[max(0, place - _WINDOW) : place]
    is_own = place < start or before.count(opening) <= before.count(closing)
    return is_own and not before[-1:].isalnum()
