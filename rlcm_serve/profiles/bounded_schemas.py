"""What a caller's JSON schema may cost whoever compiles it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from math import lcm, prod
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from rlcm_serve.errors import RequestRefused

MOST_COUNTED = 1000
"""Largest `minItems`, `maxLength` and the like; ten million took 15 GB to check.

Also the largest common multiple of the digits of all `multipleOf`: the engine's automaton has so
many states, and with 1,000,003 it took 13 s for every forced answer.
"""
MOST_COMBINED = 1000
"""Keywords in all combinations of alternatives that one place of a schema may have.

`allOf` of six `anyOf` of four, 1.3 KB, are 4,096 combinations: vLLM took a second to check them,
and does so for every sample and every forced answer, while no other request is served.
"""
MOST_MERGED = 10_000
"""Keywords that a schema may have in parts that must hold together, as in `allOf`.

A part that is referred to from several places counts in each of them, as it is merged in each:
sixteen definitions that each refer twice to the one before, 1.8 KB, are 400,000 keywords.
"""
_LONG = 10**15
"""Larger numbers are not printed in full."""
_DIGITS = 10
"""Of a place in a list; Python refuses to read numbers of thousands of digits."""
_COUNTS = frozenset(
    f"{end}{what}" for end in ("min", "max") for what in ("Items", "Length", "Properties")
)
_PATTERNS = ("pattern", "patternProperties")
_UNIONS = ("anyOf", "oneOf")
_NAMED = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are names of schemas, and no keywords."""
_OTHERS = frozenset(
    {"allOf", *_UNIONS, "$ref", "$defs", "definitions", "$schema", "$id", "$comment"}
    | {"title", "description", "default", "examples", "discriminator"}
)
"""Members that are counted apart, or that only describe."""

_Place = tuple[str, ...]


class _Size(NamedTuple):
    """Of a schema: its alternatives, the keywords of the largest one, and the sizes within it."""

    alternatives: int = 1
    keywords: int = 0
    inner: Mapping[_Place, _Size] = MappingProxyType({})


def require_bounded(schema: str | None) -> None:
    """Returns if a caller's schema takes no time and memory to speak of.

    Raises:
        RequestRefused: it counts too far, combines too many alternatives, or has a pattern, which
            only a profile's schema may have.
    """
    if schema is None:
        return
    try:
        _require_bounded(json.loads(schema))
    except RecursionError as error:
        raise schema_refused("is nested too deeply: nest it less") from error


def _require_bounded(root: Any) -> None:
    common = 1
    for name, value in _members(root):
        if name in _COUNTS and isinstance(value, (int, float)) and value > MOST_COUNTED:
            raise schema_refused(f"has {name} {_shown(value)}: give at most {MOST_COUNTED}")
        if name == "multipleOf" and isinstance(value, (int, float)):
            common = lcm(common, _digits(value))
            if common > MOST_COUNTED:
                raise schema_refused(
                    f"has multipleOf {_shown(value)}, and the digits of all multipleOf (25 for "
                    f"0.25 and for 2500) have the least common multiple {_shown(common)}: choose "
                    f"multiples with one of at most {MOST_COUNTED}"
                )
        if name in _PATTERNS and not isinstance(value, bool):
            raise schema_refused(
                f"has {name!r}, which only the schema of a profile may have: leave it out, or ask "
                "under such a profile"
            )

    _Combinations(root).of(root)


def schema_refused(why: str) -> RequestRefused:
    """The refusal of a caller's schema."""
    return RequestRefused("response_format", f"the schema of the answer {why}")


def _shown(value: float) -> str:
    return str(value) if abs(value) < _LONG else f"over {_LONG:g}"


def _digits(value: float) -> int:
    """The digits of a number without its sign, its point and the zeros at its end; 1 for 0.

    Zeros at the end cost nothing. What is no finite number is left to vLLM, which refuses it.
    """
    number = Decimal(value if isinstance(value, int) else repr(value))
    if not number.is_finite():
        return 1
    digits = "".join(map(str, number.as_tuple().digits))
    return int(digits.rstrip("0") or "1")


class _Combinations:
    """Sizes of a schema's parts, with references resolved.

    A compiler multiplies out what must hold together: `allOf`, and keywords beside `anyOf`, `oneOf`
    or `$ref`. Where such parts say something of the same property, that is multiplied out too.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, _Size] = {}  # by the identity of a part: it has many references
        self._merged = 0

    def of(self, node: Any) -> _Size:
        """The size of a part.

        Raises:
            RequestRefused: it combines too many alternatives or keywords.
        """
        if not isinstance(node, dict):
            return _Size()
        parts = [self._own(node)]
        parts += [_either(map(self.of, _list(node.get(name)))) for name in _UNIONS]
        parts += map(self.of, _list(node.get("allOf")))
        if isinstance(reference := node.get("$ref"), str):
            parts.append(self._of_reference(reference))
        return self._together(parts)

    def _own(self, node: Mapping[str, Any]) -> _Size:
        """Without what is said by `allOf`, `anyOf`, `oneOf` and `$ref`."""
        inner: dict[_Place, _Size] = {}
        for name in node.keys() - _OTHERS:
            value = node[name]
            if name == "properties" and isinstance(value, dict):
                inner |= {(name, key): self.of(one) for key, one in value.items()}
            elif isinstance(value, dict):
                inner[name,] = self.of(value)
            elif isinstance(value, list):
                parts = [one for one in value if isinstance(one, dict)]
                inner |= {(name, str(at)): self.of(one) for at, one in enumerate(parts)}
        keywords = len(node.keys() - _OTHERS) + sum(1 + one.keywords for one in inner.values())
        return _Size(1, keywords, inner)

    def _of_reference(self, reference: str) -> _Size:
        part = _resolved(self._root, reference)
        if id(part) not in self._known:
            self._known[id(part)] = _Size()  # where it leads back to itself
            self._known[id(part)] = self.of(part)
        return self._known[id(part)]

    def _together(self, parts: Iterable[_Size]) -> _Size:
        found = [one for one in parts if one.keywords or one.alternatives > 1]
        if len(found) == 1:
            return found[0]
        self._merged += sum(one.keywords for one in found)
        if self._merged > MOST_MERGED:
            raise schema_refused(
                f"has over {MOST_MERGED} keywords in parts that hold together (allOf, or keywords "
                "beside anyOf or $ref): write out what is meant"
            )
        within: dict[_Place, list[_Size]] = {}
        for part in found:
            for place, one in part.inner.items():
                within.setdefault(place, []).append(one)
        size = _Size(
            prod(one.alternatives for one in found),
            sum(one.keywords for one in found),
            {place: self._together(sizes) for place, sizes in within.items()},
        )
        if size.alternatives > 1 and _cost(size) > MOST_COMBINED:
            raise schema_refused(
                f"has {size.alternatives} combinations of alternatives in one place (allOf, or "
                "keywords beside anyOf or $ref): write out the alternatives that are meant"
            )
        return size


def _either(branches: Iterable[_Size]) -> _Size:
    found = list(branches)
    inner: dict[_Place, _Size] = {}
    for branch in found:
        for place, size in branch.inner.items():
            inner[place] = max(size, inner.get(place, _Size()), key=_cost)
    return _Size(
        max(1, sum(one.alternatives for one in found)),
        max((one.keywords for one in found), default=0),
        inner,
    )


def _cost(size: _Size) -> int:
    return size.alternatives * max(1, size.keywords)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _resolved(root: Any, reference: str) -> Any:
    """What a reference within the schema leads to; None for another one, which vLLM refuses.

    References are JSON pointers in a URI fragment (RFC 6901, section 6).
    """
    node = root
    for step in unquote(reference.removeprefix("#")).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            at = int(name) if name.isdecimal() and len(name) < _DIGITS else len(node)
            node = node[at] if at < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node if reference.startswith("#") else None


def _members(node: Any) -> Iterator[tuple[str, Any]]:
    """Every keyword of a schema with its value."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in _NAMED and isinstance(value, dict):
                for inner in value.values():
                    yield from _members(inner)
                continue
            yield name, value
            yield from _members(value)
    elif isinstance(node, list):
        for value in node:
            yield from _members(value)
