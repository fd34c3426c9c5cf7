"""Units of quantities: `cm`, `m/s^2`, `square feet`, `dollars per day`, and things counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from rlcm_serve.answers.canonical.sides import (
    CONDITION,
    NO_THINGS,
    SIDE_OF,
    without_vacuous,
)
from rlcm_serve.answers.canonical.text.tokens import Unreadable


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: so many times a product of powers of base units.

    Attributes:
        factor: one of this unit in base units.
        powers: base units with their exponents, sorted.
    """

    factor: Fraction
    powers: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        """A text that units of one kind share, however large they are."""
        return " ".join(f"{name}{power}" for name, power in self.powers)

    def times(self, other: Unit, sign: int = 1) -> Unit:
        """The product with the other unit, or with its inverse if `sign` is -1."""
        powers = dict(self.powers)
        for name, power in other.powers:
            powers[name] = powers.get(name, 0) + sign * power
        kept = tuple(sorted((name, power) for name, power in powers.items() if power))
        return Unit(self.factor * other.factor**sign, kept)

    def to_the(self, exponent: int) -> Unit:
        """The unit to the power of `exponent`."""
        powers = tuple((name, power * exponent) for name, power in self.powers if exponent)
        return Unit(self.factor**exponent, powers)


NONE = Unit(Fraction(1), ())
"""The unit of a plain number."""
DEGREES = Unit(Fraction(1), (("degree", 1),))

# Base unit, and after it other units: the number of base units in one, and its names.
_KINDS = """
metre: 1 m meter metre; 1000 km kilometer kilometre; 1/100 cm centimeter centimetre
metre: 1/1000 mm millimeter millimetre; 1/10 dm decimeter; 1/1000000000 nm nanometer
metre: 254/10000 in inch; 3048/10000 ft foot feet; 9144/10000 yd yard; 1609344/1000 mi mile
gram: 1 g gram gramme; 1000 kg kilogram kilo; 1/1000 mg milligram; 1000000 tonne ton
pound: 1 lb pound gbp; 1/16 oz ounce
second: 1 s sec second; 60 min minute; 3600 h hr hour; 86400 day; 604800 week; 1/1000 ms millisecond
month: 1 month; 12 year yr; 120 decade; 1200 century
dollar: 1 dollar usd buck; 1/100 cent ¢ penny; 1/10 dime; 1/4 quarter
euro: 1 euro eur
rupee: 1 rupee inr rs
yen: 1 yen jpy
yuan: 1 yuan rmb cny
degree: 1 degree deg; 1/60 arcminute; 1/3600 arcsecond
radian: 1 radian rad
gallon: 1 gallon gal; 1/4 qt; 1/8 pint pt; 1/16 cup
ampere: 1 amp ampere
kelvin: 1 kelvin
celsius: 1 celsius
fahrenheit: 1 fahrenheit
mole: 1 mol mole
hertz: 1 hz hertz; 1000 khz; 1000000 mhz
newton: 1 newton; 1000 kn
joule: 1 joule; 1000 kj
watt: 1 watt; 1000 kw
volt: 1 volt
ohm: 1 ohm
byte: 1 byte; 1024 kb; 1048576 mb; 1073741824 gb
bit: 1 bit
acre: 1 acre
"""
_LITRE = Unit(Fraction(1, 1000), (("metre", 3),))
_HOUR = Unit(Fraction(3600), (("second", 1),))


def _table() -> dict[str, Unit]:
    table = {}
    for line in _KINDS.strip().splitlines():
        base, _, units = line.partition(": ")
        for entry in units.split(";"):
            factor, *names = entry.split()
            table.update(dict.fromkeys(names, Unit(Fraction(factor), ((base, 1),))))
    table |= dict.fromkeys(("l", "liter", "litre"), _LITRE)
    thousandth = Unit(_LITRE.factor / 1000, _LITRE.powers)
    table |= dict.fromkeys(("ml", "milliliter", "millilitre", "cc"), thousandth)
    table["mph"] = table["mile"].times(_HOUR, -1)
    table |= dict.fromkeys(("kph", "kmh"), table["km"].times(_HOUR, -1))
    table["hectare"] = table["ha"] = Unit(Fraction(10_000), (("metre", 2),))
    table |= {
        name[0].upper(): table[name] for name in ("newton", "joule", "watt", "volt", "kelvin")
    }
    table |= dict.fromkeys(("unit", "th", "st", "nd", "rd"), NONE)
    return table


_UNITS = _table()
MULTIPLIERS = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
    "lakh": 10**5,
    "crore": 10**7,
    "tens": 10,
}
CURRENCIES = {
    "\\dollar": "dollar", "\\euro": "euro", "\\pounds": "gbp", "\\yen": "yen",
    "\\rupee": "rupee", "\\cent": "cent",
}  # fmt: skip
LETTERS = frozenset("mgshLNJWVK")
"""Units of one letter that are read after a number and white space, in plain text."""
_FILLERS = """
left total altogether remaining each more away long tall wide old high deep apart only sterling
exactly approximately about the a an of now together
"""
_FILLER_WORDS = frozenset(_FILLERS.split())
_PREPOSITIONS = frozenset(("in", "for", "from", "on", "at", "to", "with", "than", "that", "which"))
_DIMENSION = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_POWER_WORD = {"squared": 2, "cubed": 3}
_PART = re.compile(
    r"\s+|[A-Za-z\u4e00-\u9fff]+(?:-[A-Za-z]+)*'?|\^\s*\{?\s*-?\s*\d\s*\}?|[/*.{}]|\\cdot|per\b|(?<=[a-z])[23]"
)
_SYMBOL = re.compile(
    r"(?P<prefix>[YZEPTGMkhdcmunpfazy])(?P<base>mol|eV|Hz|Pa|Bq|Gy|Sv|Wb|cal|bar|[mgsANJWVCFTHLlMBbK])"
)
_MEGA = frozenset(("mhz", "mb"))
"""Names in lower case that mean a million; other names with `m` in front mean a thousandth."""
_QUALIFIER = re.compile(
    r"\bdegrees?\s+(?=celsius|fahrenheit)|\bU\.?S\.?\s+(?=dollar)", re.IGNORECASE
)
_MOST_PARTS = 40


def known(word: str) -> bool:
    """Whether the word is the name of a unit."""
    return word in _UNITS or word == "sq" or _singular(word.lower()) in _UNITS


def read_unit(text: str) -> Unit:
    """The unit in a text such as `m/s^2`; unknown words are things counted.

    Raises:
        Unreadable: it is no unit.
    """
    if text.isalpha() and text in _UNITS:
        return _UNITS[text]
    text = _QUALIFIER.sub("", without_vacuous(text))
    parts = ["".join(part.split()) for part in _PART.findall(text)]
    if "".join(parts) != "".join(text.split()) or len(parts) > _MOST_PARTS:
        raise Unreadable("a unit")
    if CONDITION.search(text):
        raise Unreadable("a condition")
    unit, sign, power, things = NONE, 1, 1, list[str]()
    last: Unit | None = None
    before = ""
    for part in filter(None, parts):
        word, is_divisor, before = part.lower(), before == "/", part
        if part in "/" or word == "per":
            unit, things, last = _with_things(unit, things, sign), [], None
            sign = -1
        elif part[0] == "^" or part.isdigit() or word in _POWER_WORD:
            if last is None:
                raise Unreadable("an exponent")
            exponent = _POWER_WORD.get(word) or int(part.strip("^{}"))
            unit = unit.times(last.to_the(exponent - 1), sign)
            last = None
        elif word in _DIMENSION:
            power = _DIMENSION[word]
        elif word == "of" or (
            word in _PREPOSITIONS and (things or unit.powers) and not (word == "in" and is_divisor)
        ):
            break
        elif part[0].isalpha() and word not in _FILLER_WORDS and word not in SIDE_OF:
            if word in NO_THINGS or (len(part) == 1 and part not in _UNITS and part.islower()):
                raise Unreadable("no thing that can be counted")
            symbol = _as_written(part)
            found = None if things or symbol else _UNITS.get(part) or _UNITS.get(_singular(word))
            if found is None:
                things.append(symbol or _singular(word))
            else:
                last = found.to_the(power)
                unit, power = unit.times(last, sign), 1
    return _with_things(unit, things, sign)


def _as_written(part: str) -> str:
    """A symbol whose capitals say what it measures, such as `mPa`, `Mg` or `mM`; else empty."""
    found = _SYMBOL.fullmatch(part)
    if part in _UNITS or part.islower() or part.isupper() or not found:
        return ""
    lower = part.lower()
    known_prefix = "M" if lower in _MEGA else "m" if lower in _UNITS else ""
    is_other = found["prefix"] in "mM" and found["prefix"] != known_prefix
    return part if is_other or found["base"] in "Mb" else ""


def _with_things(unit: Unit, things: list[str], sign: int) -> Unit:
    if not things:
        return unit
    return unit.times(Unit(Fraction(1), (("things " + " ".join(things), 1),)), sign)


def _singular(word: str) -> str:
    word = word.rstrip("'")
    if (
        word in _UNITS
        or len(word) < 3
        or not word.endswith("s")
        or word.endswith(("ss", "us", "is"))
    ):
        return {"inches": "inch", "feet": "foot", "people": "person", "children": "child"}.get(
            word, word
        )
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1]
