"""Bodies within the limit of a service that were made to keep it busy, by name."""

from __future__ import annotations

import json

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from tests.served import QUESTION

LIMIT = 2**20
"""Bytes of a body that the service takes by default."""
EMBEDDED = "embedded"


def solve(**changes: object) -> bytes:
    """A body for `/solve`."""
    return _bytes({"problem": QUESTION, "alpha": 0.1} | changes)


def chat(**changes: object) -> bytes:
    """A body for `/v1/chat/completions`."""
    asked = {"model": EMBEDDED, "messages": [{"role": "user", "content": QUESTION}]}
    return _bytes(asked | changes)


def response(**changes: object) -> bytes:
    """A body for `/v1/responses`."""
    return _bytes({"model": EMBEDDED, "input": QUESTION} | changes)


def _bytes(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _within(part: str, extra: int = 200) -> str:
    """As many repeats of the part as a body has room for."""
    return part * ((LIMIT - extra) // len(part.encode()))


def _turns(number: int, **message: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": "a"} | message for _ in range(number)]


def _raw(fields: str) -> bytes:
    return b'{"problem": "Why?", "alpha": 0.1, %s}' % fields.encode()


def _longest_text() -> int:
    """Characters that the context of the embedded model may hold."""
    config = json.loads((EMBEDDED_MODEL / "config.json").read_text())
    vocabulary = json.loads((EMBEDDED_MODEL / "tokenizer.json").read_text())["model"]["vocab"]
    return int(config["max_position_embeddings"]) * max(map(len, vocabulary))


LONGEST = _longest_text()
AT_THE_LIMIT: dict[str, bytes] = {
    "special tokens": solve(problem="<|im_end|>" * (LONGEST // 10)),
    "added tokens": solve(problem="</think>" * (LONGEST // 8)),
    "one long word": solve(problem="漢" * LONGEST),
    "emoji": solve(problem="\U0001f600" * LONGEST),
    "spaces": solve(problem="a" + " " * (LONGEST - 1)),
    "1,024 messages": solve(problem=None, messages=_turns(1024)),
    "1,024 messages that spell a token": solve(
        problem=None, messages=_turns(1024, content="<pad></think><pad>")
    ),
    "unknown fields": solve(**{f"f{n}": 1 for n in range(9_990)}),
    "messages of unknown fields": solve(
        problem=None, messages=[{f"f{n}": n for n in range(9)} for _ in range(1_000)]
    ),
    "lists": solve(messages=[[[]] * 4_900]),
    "large unknown fields": solve(**{f"f{n}": "v" * 50_000 for n in range(20)}),
    "nested objects": _raw('"messages": {}1{}'.format('{"a":' * 30, "}" * 30)),
}
"""For `/solve`; none is over a limit, so all of the work is done."""

SOLVE: dict[str, bytes] = {
    "a placeholder of older releases": solve(problem="RLCM-MESSAGE" + "-" * 100_000),
    "30,000 messages": solve(problem=None, messages=_turns(30_000)),
    "15,000 messages that spell a token": solve(
        problem=None, messages=_turns(15_000, content="<pad>")
    ),
    "special tokens": solve(problem=_within("<|im_end|>")),
    "added tokens": solve(problem=_within("</think>")),
    "the starts of special tokens": solve(problem=_within("<|im_en")),
    "one long word": solve(problem=_within("漢")),
    "spaces": solve(problem="Why" + _within(" ") + "?"),
    "combining marks": solve(problem="a" + _within("\u0301")),
    "escapes": _raw('"seed": "%s"' % ("\\n" * 500_000)),
    "half surrogate pairs": _raw('"seed": "%s"' % ("\\ud800" * 170_000)),
    "a half surrogate pair": b'{"problem": "Why? \\ud800", "alpha": 0.1}',
    "90,000 unknown fields": _raw(",".join(f'"f{n}":{n % 10}' for n in range(90_000))),
    "a long name": _raw('"%s": 1' % ("n" * 1_000_000)),
    "one name many times": _raw(",".join('"n":1' for _ in range(150_000))),
    "messages of wrong types": solve(problem=None, messages=[{"role": 1}] * 60_000),
    "messages of unknown fields": solve(
        problem=None,
        messages=[{"role": "user", "content": "a"} | {f"f{n}": n for n in range(60_000)}],
    ),
    "empty lists": _raw('"messages": [{}]'.format(",".join(["[]"] * 300_000))),
    "nested lists": _raw('"messages": %s' % ("[" * 900_000)),
    "nested objects": _raw('"messages": %s' % ('{"a":' * 180_000)),
    "an endless number": _raw('"seed": %s' % ("9" * 1_000_000)),
    "an endless fraction": _raw('"temperature": 0.%s' % ("9" * 1_000_000)),
    "numbers past every limit": b'{"problem": "Why?", "alpha": 1e400, "n": 1e999, "seed": -1e400}',
    "5,000 digits": _raw('"n": 1%s' % ("0" * 5_000)),
    "no numbers": b'{"problem": "Why?", "alpha": NaN, "temperature": Infinity}',
    "quotes": b'"' * 1_000_000,
    "bytes that are no text": b"\xff" * 1_000_000,
}
"""For `/solve`."""

CHAT: dict[str, bytes] = {
    "100,000 stop strings": chat(stop=["s"] * 100_000),
    "metadata": chat(metadata={f"k{n}": "v" for n in range(60_000)}),
    "metadata of wrong types": chat(metadata={f"k{n}": n for n in range(60_000)}),
    "a bias for every token": chat(logit_bias={str(n): -100 for n in range(70_000)}),
    "20,000 parts": chat(
        messages=[{"role": "user", "content": [{"type": "text", "text": "a"}] * 20_000}]
    ),
    "parts of wrong types": chat(messages=[{"role": "user", "content": [{"type": 1}] * 60_000}]),
    "tools": chat(tools=[{"type": "function"}] * 30_000),
    "30,000 messages": chat(messages=_turns(30_000)),
    "special tokens": chat(messages=[{"role": "user", "content": _within("<|im_end|>")}]),
    "90,000 unknown fields": chat(**{f"f{n}": n % 10 for n in range(80_000)}),
}
"""For `/v1/chat/completions`."""

RESPONSES: dict[str, bytes] = {
    "special tokens": response(input=_within("<|im_end|>")),
    "long instructions": response(instructions=_within("漢")),
    "30,000 messages": response(input=_turns(30_000)),
    "20,000 parts": response(
        input=[{"role": "user", "content": [{"type": "input_text", "text": "a"}] * 20_000}]
    ),
    "parts of wrong types": response(input=[{"role": "user", "content": [{"type": 1}] * 60_000}]),
    "items of no type": response(input=[{"type": n} for n in range(60_000)]),
    "reasoning": response(input=[{"type": "reasoning", "summary": [], "id": "r"}] * 20_000),
    "texts": response(input=["a"] * 100_000),
    "metadata": response(metadata={f"k{n}": "v" for n in range(60_000)}),
    "tools": response(tools=[{"type": "function"}] * 30_000),
    "includes": response(include=["reasoning.encrypted_content"] * 30_000),
    "90,000 unknown fields": response(**{f"f{n}": n % 10 for n in range(80_000)}),
}
"""For `/v1/responses`."""
