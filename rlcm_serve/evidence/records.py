"""One record: what it says of an answer, its canonical form, and its hash.

A record's hash is the SHA-256 of its canonical form without the field `hash`. `previous` is the
hash of the record before it, so no record can be changed, removed or inserted without changing all
later ones.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from calibration.canonical import canonical_json
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.core import CancelledSample, Question, Reading, Sample, Solution
from rlcm_serve.solving.asking import HowAsked
from rlcm_serve.solving.fingerprints import ServedProcedure

NOTHING = "0" * 64
"""`previous` of the first record of a chain."""
ID_PREFIXES = ("chatcmpl-", "resp_")
"""Of OpenAI's chat completions, and of its responses."""
_MS_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer or an abstention, with what its record needs to know.

    Attributes:
        id: of the answer.
        key: id of the API key that asked; None where no key is needed.
        question: as it was asked.
        solution: what came of it.
        certificate: digest of the certificate that covers it; None without a guarantee.
        engine: fingerprint of the engine.
        departures: why its conversation or its schema is not the profile's.
    """

    id: str
    key: str | None
    question: Question
    solution: Solution
    certificate: str | None
    engine: Fingerprint
    departures: tuple[str, ...] = ()


def new_id(prefix: str = ID_PREFIXES[0]) -> str:
    """An id for an answer: one of the prefixes, the time in milliseconds, and 80 random bits."""
    return f"{prefix}{time.time_ns() // 1_000_000:0{_MS_DIGITS}x}{secrets.token_hex(10)}"


def time_in(id_: str) -> float | None:
    """The time in seconds at which this id was made; None if it is no id."""
    digits = next((id_.removeprefix(one) for one in ID_PREFIXES if id_.startswith(one)), "")
    if len(digits) != _MS_DIGITS + 20 or not set(digits) <= set("0123456789abcdef"):
        return None
    return int(digits[:_MS_DIGITS], 16) / 1000


def sealed(record: Mapping[str, Any]) -> tuple[bytes, str]:
    """The line of a record with its hash, and the hash."""
    # Encoded once: the hash is put where its name stands in the order of names.
    before = canonical_json({name: value for name, value in record.items() if name < "hash"})[1:-1]
    after = canonical_json({name: value for name, value in record.items() if name > "hash"})[1:-1]
    plain = b",".join(part for part in (before, after) if part)
    digest = hashlib.sha256(b"{" + plain + b"}").hexdigest()
    shown = b'"hash":"%s"' % digest.encode()
    line = b",".join(part for part in (before, shown, after) if part)
    return b"{" + line + b"}\n", digest


def now() -> str:
    """The time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def digest_of_engine(engine: Fingerprint) -> str:
    """SHA-256 of a fingerprint's canonical form."""
    return hashlib.sha256(canonical_json(engine.to_json())).hexdigest()


def record_of(answered: Answered, *, texts: bool) -> dict[str, Any]:
    """The record of an answer, without its place in the chain.

    `prompt_sha256` is of the canonical form of `{"messages": [{"content", "role"}, ...]}`,
    `answer_sha256` of the answer in UTF-8, `text_sha256` of its whole text. With `texts` all three
    are in it too.
    """
    question, solution = answered.question, answered.solution
    prompt = {"messages": [{"role": str(m.role), "content": m.content} for m in question.messages]}
    guarantee = solution.guarantee
    record: dict[str, Any] = {
        "kind": "answer",
        "time": now(),
        "id": answered.id,
        "key": answered.key,
        "prompt_sha256": hashlib.sha256(canonical_json(prompt)).hexdigest(),
        "answer_sha256": _digest(solution.answer),
        "text_sha256": _digest(solution.text),
        "abstained": solution.abstained,
        "confidence": _number(solution.confidence),
        "exit": None if solution.exit is None else solution.exit.value,
        "asked": _asked(answered),
        "policy": None if solution.policy is None else solution.policy.to_scalars(),
        "certificate": answered.certificate,
        "alpha_certified": None if guarantee is None else guarantee.alpha_certified,
        "verified": None if guarantee is None else str(guarantee.verified),
        "no_guarantee_reason": solution.no_guarantee_reason,
        "familiarity": _number(solution.familiarity),
        "engine": digest_of_engine(answered.engine),
        "tokens": dict(solution.tokens_by_kind),
        "samples": [_sample(sample) for sample in solution.samples],
    }
    shown = {"answer": solution.answer, "text": solution.text}
    return record | prompt | shown if texts else record


def _asked(answered: Answered) -> dict[str, Any]:
    """How a question was asked, as plain values; what it does not name is left out or None."""
    question, departures = answered.question, answered.departures
    return {
        "alpha": question.alpha,
        "risk": str(question.risk),
        "n": question.samples,
        "vote": str(question.vote),
        "max_tokens": question.max_tokens,
        "temperature": question.temperature,
        "top_p": question.top_p,
        "seed": question.seed,
        **({} if question.kind is None else {"kind": question.kind}),
        **({"departures": list(departures)} if departures else {}),
    }


def how_asked(asked: Mapping[str, Any], engine: Fingerprint) -> HowAsked:
    """How the question of a record was asked of its engine.

    Older records do not say whether its conversation and its schema were the profile's, and count
    as if they were.
    """
    max_tokens = asked["max_tokens"] or engine.max_tokens
    kind = asked.get("kind")
    procedure = ServedProcedure(asked["risk"], asked["n"], asked["vote"], max_tokens, kind)
    chosen = asked["temperature"], asked["top_p"], asked["seed"]
    return HowAsked(procedure, *chosen, tuple(asked.get("departures", ())))


def engine_record(engine: Fingerprint) -> dict[str, Any]:
    """The record that says which engine a digest stands for."""
    return {
        "kind": "engine",
        "time": now(),
        "engine": digest_of_engine(engine),
        "fingerprint": engine.to_json(),
    }


def _sample(sample: Sample | CancelledSample) -> dict[str, Any]:
    if isinstance(sample, CancelledSample):
        return {
            "exit": "cancelled",
            "tokens": sample.tokens,
            "answer_sha256": None,
            "readings": _readings(sample.readings),
        }
    return {
        "exit": sample.rollout.exit.value,
        "tokens": len(sample.rollout.tokens),
        "answer_sha256": _digest(sample.answer),
        "readings": _readings(sample.rollout.readings),
    }


def _readings(readings: tuple[Reading, ...]) -> list[list[Any]]:
    """Tokens and confidence of each reading."""
    return [[reading.tokens, _number(reading.confidence)] for reading in readings]


def _number(value: float | None) -> float | None:
    """JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


def _digest(text: str | None) -> str | None:
    if text is None:
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
