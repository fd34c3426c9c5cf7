"""Answers in words: names, short phrases, number words, and sentences that state an answer."""

from __future__ import annotations

import re

from rlcm_serve.answers.canonical.text.vocabulary import GREEK, spells_mathematics

_ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: at for at, word in enumerate(_ONES.split())} | {
    word: 10 * at for at, word in enumerate(_TENS.split(), 2)
}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_ORDINALS = """
third 3 fourth 4 fifth 5 sixth 6 seventh 7 eighth 8 ninth 9 tenth 10 eleventh 11 twelfth 12
thirteenth 13 fourteenth 14 fifteenth 15 sixteenth 16 seventeenth 17 eighteenth 18 nineteenth 19
twentieth 20 thirtieth 30 fortieth 40 fiftieth 50 sixtieth 60 seventieth 70 eightieth 80
ninetieth 90 hundredth 100 thousandth 1000 millionth 1000000 billionth 1000000000
"""
_SINGULAR = {"half": 2, "quarter": 4} | {
    word: int(size) for word, size in re.findall(r"(\w+) (\d+)", _ORDINALS)
}
PARTS = (
    _SINGULAR
    | {f"{word}s": size for word, size in _SINGULAR.items() if word != "half"}
    | {"halves": 2}
)
"""What a word such as `thirds` divides by."""

_DIGITS_AND_PART = re.compile(
    rf"(\d{{1,9}})[ -]({'|'.join(word for word in PARTS if not word.startswith('quarter'))})",
    re.IGNORECASE,
)
_TEXT_GROUP = re.compile(r"\\text\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]+")
_ONLY_WORDS = re.compile(r"[^\W\d_][^\d\\^_=<>+*/{}$|%()\[\]]*")
_LEAD_IN = re.compile(
    r"(?:(?:the|my|our)\s+)?"
    r"(?:(?:final|correct|right|required|desired|best|exact|only|simplified)\s+)*"
    r"(?:answer|result|solution|option|choice|value)s?\s*"
    r"(?:is|are|equals|would be|must be|should be|:|=)"
    r"\s*(?:option|choice)?[:\s]*",
    re.IGNORECASE,
)
_ANSWER_IS = re.compile(r"答案\s*[是为]?\s*[:=]?\s*")
_CONNECTIVE = re.compile(
    r"(?:(?:so|thus|therefore|hence|finally|then|\\therefore)(?:[,:]\s*|\s+))+", re.IGNORECASE
)
_OPTION_WORD = re.compile(r"(?:option|choice|answer)\s+(?=\(?[A-Z]\)?[.:]?$)", re.IGNORECASE)
_IT_IS = re.compile(
    r"(?:it|this|that|x)\s+(?:is|equals)\s+|"
    r"(?:there\s+(?:is|are|were|was|will be)|we\s+(?:get|have|find|obtain))\s+",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:(?:approximately|approx\.?|about|around|roughly|nearly|almost|exactly)\s+|\\approx\s*)",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|equals?|has|have|had|gets?|got|makes?|made|needs?|costs?|takes?|took|"
    r"gives?|gave|totals?|earns?|earned|spends?|spent|pays?|paid|saves?|saved|sells?|sold|buys?|"
    r"bought|eats?|ate|uses?|used|travels?|traveled|weighs?|lasts?|runs?|ran|walks?|walked|reads?|"
    r"contains?|receives?|received|owes?|owed|left with|wins?|won|=)\s+(?:equal to\s+)?"
    r"(?:exactly\s+|about\s+|approximately\s+|only\s+|a total of\s+)?",
    re.IGNORECASE,
)
_REMARK = re.compile(r"\s+\((?!mod\b)([A-Za-z][A-Za-z ,'.-]{2,60})\)$")
_REASON = re.compile(r"[,;]?\s+\(?(?:because|since)\b.*$", re.DOTALL)
_UNLIKE = re.compile(
    r"\b(?:yes|no(?!\.)|not|true|false|never|none|neither|nor|cannot|(?:in)?correct|wrong|but|if|"
    r"unless|when|whenever|while)\b|n't\b|\bfor\s+(?:odd|even|all|every|each|any)\b",
    re.IGNORECASE,
)
"""Before the verb of a sentence: it states more than the number behind the verb, or denies it."""
_JOINS = re.compile(r"[,;:]|\b(?:and|or)\b", re.IGNORECASE)
_OPTION_AND_TEXT = re.compile(
    r"[{\s]*(?:\((?P<letter>[A-H])\)|(?P<bare>[A-H])\s*[.)])"
    r"(?:[}\s~]|\\[,;:! ]|\\q?quad(?![A-Za-z]))+"
)
_BEFORE_OPTION = frozenset("({ABCDEFGH")
_OTHER_OPTION = re.compile(r"\b(?:and|or)\b|\([A-H]\)|(?<![A-Za-z])[A-H]\s?[.)]|[A-H]\s*$")
_STATEMENT = re.compile(
    r"\\(?:angle|triangle|over(?:line|rightarrow)|parallel|perp|cong|sim|forall|exists|neg|lnot|"
    r"su[bp]set(?:eq)?|notin|implies|iff|mid|to|oplus|land|lor|wedge|vee|"
    r"(?:[Ll]ong)?(?:[LlRr]ight|[Ll]eft|[Ll]eftright)arrow)(?![A-Za-z])"
)
"""Commands of geometry and logic: what cannot be read and has one is compared as words."""
OPTION = re.compile(r"[(\[{\s]*([A-Z])[)\]}\s.:]*")


def unwrapped(text: str) -> str:
    r"""The text with the contents of `\text{...}` for the groups."""
    if "\\text" not in text:
        return text
    plain = _TEXT_GROUP.sub(r" \1 ", text).strip()
    return plain[1:-1].strip() if re.fullmatch(r"\{[^{}]*\}", plain) else plain


def without_lead_in(text: str) -> str:
    """The answer in `The answer is 5.`, `Answer: 5` or `option B`; other texts are unchanged."""
    rest = text
    for form in (_CONNECTIVE, _LEAD_IN, _ANSWER_IS, _OPTION_WORD, _IT_IS, _ABOUT):
        if found := form.match(rest):
            rest = rest[found.end() :].strip() or rest
    return rest


def without_reason(text: str) -> str:
    """The answer in `5, because ...`; other texts are unchanged."""
    return _REASON.sub("", text)


def split_remark(text: str) -> tuple[str, str]:
    """The answer and the remark in `5 (the answer)`; the remark is empty if there is none."""
    found = _REMARK.search(text)
    return (text[: found.start()].strip(), found[1]) if found else (text, "")


def split_sentence(text: str) -> tuple[str, str] | None:
    """What a sentence says before and after its last verb, as in `John has 5 apples`.

    None if it has no verb, states more than what is behind it (`Alice has 5, Bob has 7`), or denies
    it.
    """
    verbs = list(_VERB.finditer(text))
    if not verbs:
        return None
    before, rest = text[: verbs[-1].start()], text[verbs[-1].end() :].strip()
    says_more = len(verbs) > 1 or any(
        word.isdigit() or word in _SMALL for word in re.findall(r"\d+|[a-z]+", before.lower())
    )
    if not rest or _UNLIKE.search(before) or (says_more and _JOINS.search(before)):
        return None
    return text[: len(text) - len(rest)], rest


def option_letter(text: str) -> str | None:
    """The letter in `(A)`, `A)` or `A.`; None if the text is not an option's letter."""
    found = OPTION.fullmatch(text) if len(text) > 1 and len(text) < 8 else None
    return found[1] if found else None


def option_and_text(text: str) -> tuple[str, str] | None:
    r"""Letter and text of `(B) 12`, `B. 12` or `\textbf{(B)}\ 12`; None if it is no option."""
    found = _OPTION_AND_TEXT.match(text) if text[:1] in _BEFORE_OPTION else None
    if not found or _OTHER_OPTION.search(text, found.end()):
        return None
    return found["letter"] or found["bare"], text[found.end() :]


def only_words(text: str) -> bool:
    """Whether the text is words, and not mathematics such as `x y`, `sin x` or `p - q`."""
    if not _ONLY_WORDS.fullmatch(text):
        return False
    found = (word for word in _WORD.findall(text) if word not in ("and", "or"))
    return any(not spells_mathematics(word) and word not in GREEK for word in found)


def has_words(text: str) -> bool:
    """Whether the text has words outside of commands."""
    if _STATEMENT.search(text):
        return True
    bare = _COMMAND.sub(" ", text)
    return any(
        not word.isascii() or (len(word) > 1 and not spells_mathematics(word))
        for word in _WORD.findall(bare)
    )


def number_in_words(text: str) -> str | None:
    """`twenty-one` as `21`, `three halves` as `3/2`; None if the text is no number."""
    words = text.lower().replace("-", " ").split()
    if not words or len(words) > 12:
        return None
    if words[0] == "a" and len(words) > 1 and words[1] in _SCALES:
        words[0] = "one"
    if "and" in words[1:-1] and words[-1] in PARTS:
        at = words.index("and")
        whole, part = number_in_words(" ".join(words[:at])), _fraction(words[at + 1 :])
        return f"{whole} + {part}" if whole and part else None
    if words[-1] in PARTS:
        return _fraction(words)
    number = _whole(words)
    return None if number is None else str(number)


def digit_fraction(text: str) -> str | None:
    """`2 thirds` as `2/3`; None if the text is no such fraction. A quarter may be a coin."""
    found = _DIGITS_AND_PART.fullmatch(text)
    is_ordinal = found and found[2].lower() in _SINGULAR and found[1] != "1"
    return f"{found[1]}/{PARTS[found[2].lower()]}" if found and not is_ordinal else None


def _fraction(words: list[str]) -> str | None:
    top = 1 if words[:-1] in ([], ["a"], ["one"]) else _whole(words[:-1])
    if top is None or (words[:-1] == [] and words[-1] != "half"):
        return None
    if words[-1] in _SINGULAR and top != 1:  # `twenty-fifth`
        return None
    return f"{top}/{PARTS[words[-1]]}" if words[-1] in PARTS else None


def _whole(words: list[str]) -> int | None:
    sign = 1
    if words and words[0] in ("minus", "negative"):
        sign, words = -1, words[1:]
    total = current = 0
    seen = False
    for word in words:
        if word in _SMALL:
            if current % 100 and (_SMALL[word] >= 10 or current % 10):
                return None
            current, seen = current + _SMALL[word], True
        elif word in _SCALES and (seen or word != words[0]):
            if word == "hundred":
                current *= 100
            else:
                total, current = total + current * _SCALES[word], 0
        elif word != "and" or not seen:
            return None
    return sign * (total + current) if seen else None
