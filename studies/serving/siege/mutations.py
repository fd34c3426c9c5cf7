"""Random damage to JSON, bytes and queries, from a seeded generator."""

from __future__ import annotations

import copy
import json
import random
from typing import Any
from urllib.parse import quote

_RAW = {
    "@nested": "[" * 5000 + "]" * 5000,
    "@objects": '{"a":' * 3000 + "1" + "}" * 3000,
    "@digits": "1" + "0" * 5000,
    "@exponent": "1e400",
    "@nan": "NaN",
    "@infinity": "-Infinity",
    "@twice": '{"a": 1, "a": 2}',
    "@surrogate": '"\\ud800"',
    "@half": '"\\udc00 x"',
    "@nul": '"\\u0000"',
    "@escape": '"\\x41"',
    "@comma": "[1,]",
    "@leading": "01",
}
"""JSON, valid or not, that `json.dumps` would not write: it is put in place of these names."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, 1.0, -0.0, 1e308, 5e-324, 2**31, 2**63, 2**64, -(2**63)),
    *("", " ", "\t\n", "0", "1e5", "nan", "true", "null", "a" * 300, "é" * 2000, "x" * 20_000),
    *("e\u0301", "\u202eabc", "\ufeff", "\u2028", "🧮" * 40, "\U0010ffff", "ﷺ" * 50, "\x7f\x1b[2J"),
    *("<think>", "</think>", "<|im_end|>", "\\boxed{", "\\frac{", "$$", "'; DROP TABLE keys; --"),
    *("../../etc/passwd", "%s%n%x", "{{7*7}}", "${jndi:ldap://x}", "<script>alert(1)</script>"),
    *([], {}, [[]], [None], {"": ""}, {"__proto__": {}}, [{}] * 50, list(range(300))),
    *_RAW,
)
TEXTS = tuple(value for value in VALUES if isinstance(value, str) and value not in _RAW)


def damaged(rng: random.Random, document: Any) -> Any:
    """A copy of the document with one to three random changes."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        changed = _change(rng, changed)
    return changed


def _change(rng: random.Random, document: Any) -> Any:
    holder, at = rng.choice([*_places(document)] or [(None, None)])
    value = copy.deepcopy(rng.choice(VALUES))  # it may be changed in turn
    if holder is None:
        return value
    how = rng.random()
    if how < 0.65:
        holder[at] = value
    elif how < 0.75:
        del holder[at]
    elif how < 0.85 and isinstance(holder, dict):
        holder[rng.choice((*TEXTS, "n", "stream", "seed", "model"))] = value
    elif how < 0.95:
        holder[at] = [holder[at]] if rng.random() < 0.5 else {"a": holder[at]}
    else:
        return [document]
    return document


def _places(document: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        found += [(document, name) for name in document]
    elif isinstance(document, list):
        found += [(document, at) for at in range(len(document))]
    for holder, at in found.copy():
        found += _places(holder[at])
    return found


def written(document: Any) -> bytes:
    """The document as JSON, with what only raw text can say."""
    text = json.dumps(document)
    for name, raw in _RAW.items():
        text = text.replace(json.dumps(name), raw)
    return text.encode()


def corrupted(rng: random.Random, content: bytes) -> bytes:
    """The bytes cut, flipped, repeated, in another encoding, or behind something else."""
    at = rng.randrange(len(content) + 1)
    match rng.randrange(8):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        case 2:
            return content[:at] + rng.randbytes(rng.randrange(1, 20)) + content[at:]
        case 3:
            return content + content
        case 4:
            return b"\xef\xbb\xbf" + content
        case 5:
            return content.decode("utf-8", "replace").encode("utf-16")
        case 6:
            return content.replace(b'"', b"'")
        case _:
            return rng.randbytes(rng.randrange(200))


def text(rng: random.Random) -> str:
    """A short text that does harm in places that take a name, quoted as a URL demands, or not."""
    chosen = rng.choice(TEXTS)[:300]
    return quote(chosen, safe="") if rng.random() < 0.9 else quote(chosen, safe="/?%&=;:#$'<>|{}")
