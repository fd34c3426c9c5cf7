"""Fuzzed requests: the same for the same seed and number, over every route of the service."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from studies.serving.siege import mutations

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "x")
OUTSIDE = (
    "/",
    "/page/about",
    "/page/demo",
    "/page/{name}",
    "/openapi.json",
    "/docs",
    "/{name}",
    "/v1/{name}",
)
"""Paths that the OpenAPI document leaves out; they are read with GET."""
BROKEN = ("none", "wrong", "malformed", "revoked")
ROLES = ("admin",) * 8 + ("solve",) * 4 + ("other", "metrics", "label", *BROKEN)
ASKS = {"POST /solve", "POST /v1/chat/completions", "POST /v1/responses", "POST /aggregate"}
FOR_ADMIN = {
    *("POST /certificates", "POST /calibrations", "DELETE /calibrations/{id}"),
    *("POST /certificates/{id}/activate", "POST /certificates/{id}/deactivate"),
    *("POST /certificates/{id}/rehearsal", "DELETE /certificates/{id}/rehearsal"),
    *("POST /certificates/{id}/restore", "GET /calibrations/{id}/traces"),
}
PROBLEM = "A dial shows 3. A up 5. B down 3. What does it show now?"
_TURN = {"role": "user", "content": PROBLEM}
_ROWS = [
    {"problem_id": "p", "answer": "1", "confidence": 0.9, "reference": "1"},
    {"problem_id": "p", "answer": "2", "confidence": 0.3},
]
_JSON, _LINES = "application/json", "application/x-ndjson"
_FORM = "multipart/form-data; boundary=siege"


@dataclass(frozen=True)
class Shot:
    """One request.

    Attributes:
        route: method and path as in the OpenAPI document, or `other`.
        role: whose key it carries.
        framing: how the length of the body is told, and whether that is true.
        content: the bytes of the whole request, without the key.
    """

    number: int
    route: str
    method: str
    role: str
    framing: str
    line: str
    headers: tuple[str, ...]
    body: bytes

    def encode(self, keys: Mapping[str, str]) -> bytes:
        """The bytes to send."""
        headers = [*self.headers, *_key_line(self.role, keys)]
        body, length = self.body, len(self.body)
        match self.framing:
            case "chunked":
                headers.append("Transfer-Encoding: chunked")
                parts = [body[at : at + 999] for at in range(0, length, 999)]
                chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
                body = b"".join([*chunks, b"0\r\n\r\n"])
            case "bad chunks":
                headers.append("Transfer-Encoding: chunked")
                body = b"zz\r\n" + body
            case "both":
                headers += ["Transfer-Encoding: chunked", f"Content-Length: {length}"]
                body = b"0\r\n\r\n"
            case "short":
                headers.append(f"Content-Length: {length + 7}")
            case "long":
                headers.append(f"Content-Length: {max(length - 5, 0)}")
            case "negative":
                headers.append("Content-Length: -1")
            case _:
                headers.append(f"Content-Length: {length}")
        head = "\r\n".join([self.line, *headers]) + "\r\n\r\n"
        return head.encode("latin-1", "replace") + body

    @property
    def may_be_dropped(self) -> bool:
        """Whether the client itself leaves before its request is whole."""
        return self.framing == "short"

    @property
    def ends_connection(self) -> bool:
        """Whether what follows on the connection would not be understood."""
        return self.framing in ("short", "long", "bad chunks", "both", "negative")


class Shooter:
    """Makes requests for a service with this OpenAPI document.

    Args:
        document: of the service.
        ids: values for `{id}` by the name of the first part of the path.
    """

    def __init__(self, document: dict[str, Any], ids: Mapping[str, Sequence[str]]) -> None:
        self._ids = ids
        self._queries: dict[str, list[str]] = {"other": []}
        for path, item in document["paths"].items():
            for method, operation in item.items():
                named = operation.get("parameters", [])
                query = [one["name"] for one in named if one["in"] == "query"]
                self._queries[f"{method.upper()} {path}"] = query
        self.keyed = {
            f"{method.upper()} {path}"
            for path, item in document["paths"].items()
            for method, operation in item.items()
            if operation.get("security")
        }
        self._routes = [one for one in self._queries for _ in range(4 if one in ASKS else 1)]

    @cached_property
    def routes(self) -> list[str]:
        """Every route, `other` included."""
        return sorted(self._queries)

    def shot(self, seed: int, number: int) -> Shot:
        """The request of this seed and number; ids are those of the running service."""
        rng = random.Random(f"{seed}/{number}")
        route = rng.choice(self._routes)
        path = rng.choice(OUTSIDE) if route == "other" else route.partition(" ")[2]
        method = "GET" if route == "other" else route.partition(" ")[0]
        if rng.random() < 0.03:
            method, route = rng.choice(METHODS), "other"
        kind, body = _body_of(rng, route, self._ids.get("answers", ()))
        framing = rng.choices(
            ("length", "chunked", "short", "long", "both", "bad chunks", "negative"),
            (88, 5, 2, 2, 1, 1, 1),
        )[0]
        line = f"{method} {self._target(rng, route, path)} HTTP/1.1"
        headers = ("Host: localhost", *_headers(rng, kind))
        return Shot(number, route, method, rng.choice(ROLES), framing, line, headers, body)

    def _target(self, rng: random.Random, route: str, path: str) -> str:
        ids = [*self._ids.get(path.split("/")[1], ()), "deadbeefdead", mutations.text(rng)]
        for name in ("{id}", "{name}", "{model}"):
            path = path.replace(name, rng.choice(ids))
        names = self._queries[route]
        query = [
            f"{rng.choice(names or ['a'])}={mutations.text(rng)}"
            for _ in range(rng.choice((0, 0, 0, 1, 1, 3) if names else (0,) * 9 + (1,)))
        ]
        if route == "POST /calibrations" and rng.random() < 0.9:
            query.append("alphas=0.5")
        return path + ("?" + "&".join(query) if query else "")


def _body_of(rng: random.Random, route: str, answers: Sequence[str]) -> tuple[str, bytes]:
    """A content type and a body: as it should be, damaged as JSON, or damaged as bytes."""
    kind, parts = _labels(rng, answers) if route == "POST /feedback" else _valid(rng, route)
    how = rng.random()
    if how < 0.6 and parts:
        at = rng.randrange(len(parts))
        parts[at] = mutations.damaged(rng, parts[at])
    if kind == _FORM:
        fields = b"".join(
            b'--siege\r\nContent-Disposition: form-data; name="%s"; filename="a"\r\n\r\n%s\r\n'
            % (rng.choice((b"certificate",) * 20 + (b"signature", b"x")), mutations.written(part))
            for part in parts
        )
        body = fields + b"--siege--\r\n"
    else:
        body = b"\n".join(mutations.written(part) for part in parts)
    if 0.6 < how < 0.85:
        body = mutations.corrupted(rng, body)
    return kind, body


def _valid(rng: random.Random, route: str) -> tuple[str, list[Any]]:
    cheap = {"alpha": 0.1, "max_tokens": rng.choice((1, 4, 8)), "stream": rng.random() < 0.3}
    asked: dict[str, Any]
    match route:
        case "POST /solve":
            more = {"n": rng.choice((1, 1, 2)), "timeout_s": 5, "return_trace": True, "seed": 1}
            asked = {"problem": PROBLEM} if rng.random() < 0.5 else {"messages": [_TURN]}
            return _JSON, [cheap | asked | dict(rng.sample(sorted(more.items()), 2))]
        case "POST /v1/chat/completions":
            return _JSON, [{"model": "embedded", "messages": [_TURN], "n_votes": 1} | cheap]
        case "POST /v1/responses":
            del cheap["max_tokens"]
            asked = {"input": rng.choice((PROBLEM, [_TURN])), "max_output_tokens": 8}
            return _JSON, [{"model": "embedded", "n_votes": 1} | asked | cheap]
        case "POST /aggregate":
            if rng.random() < 0.5:
                return _LINES, [dict(row) for row in _ROWS]
            return _JSON, [{"rollouts": _ROWS, "vote": "majority"}]
        case "POST /calibrations":
            many = rng.choice((1, 2, 2, 2, 12))
            rows = [{"problem": f"{PROBLEM} {at}", "answer": "5"} for at in range(many)]
            return (_LINES, rows) if rng.random() < 0.7 else (_JSON, [rows])
        case "POST /certificates":
            name = rng.choice(("error-1.json", "selective-1.json", "regret-4.json"))
            stored = (EMBEDDED_MODEL / CERTIFICATE_FOLDER / name).read_bytes()
            return _FORM, [json.loads(stored)]
        case _:
            return _JSON, [{}] if rng.random() < 0.1 else []


def _labels(rng: random.Random, answers: Sequence[str]) -> tuple[str, list[Any]]:
    """Labels of these answers, and of one that is not known."""
    verdicts = ({"right": True}, {"right": False}, {"reference": "5"}, {"full_budget_right": True})
    ids = [*answers, "chatcmpl-0"]
    rows = [{"id": rng.choice(ids)} | rng.choice(verdicts) for _ in range(rng.choice((1, 2, 5)))]
    return (_LINES, rows) if rng.random() < 0.6 else (_JSON, [{"answers": rows}])


def _headers(rng: random.Random, kind: str) -> list[str]:
    """Headers beside Host, key and length."""
    kinds = ("", "text/plain", _JSON, _LINES, _FORM, "multipart/form-data", "a", "é/\x01", ";;;")
    chosen = kind if rng.random() < 0.9 else rng.choice(kinds)
    lines = [f"Content-Type: {chosen}"] if chosen or rng.random() < 0.5 else []
    if rng.random() < 0.15:
        lines.append(rng.choice(_ODD))
    if rng.random() < 0.02:
        lines.append("X-A: " + "a" * rng.choice((1000, 20_000, 70_000)))
    return lines


_ODD = (
    *("X-Request-ID: é", "X-Request-ID: " + "a" * 500, "X-Request-ID:", "Accept: text/html"),
    *("Accept: application/json;q=0", "Expect: 100-continue", "Expect: 200-maybe"),
    *("Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Origin: null"),
    *("Content-Encoding: gzip", "Transfer-Encoding: gzip", "Connection: close", "Connection: x"),
    *("Upgrade: h2c", "Upgrade: websocket", "Host: other", "Cookie: a=b", "Range: bytes=0-1"),
    *("If-None-Match: *", "X-HTTP-Method-Override: DELETE", "X-Forwarded-For: 1.2.3.4"),
    *("traceparent: 00-zz-zz-01", "Forwarded: for=x;host=y", "Last-Event-ID: 5", "Bad Name: x"),
    *(": empty", "X-NUL: a\x00b", "X-Long: " + "é" * 400, "Content-Length: 3", "folded: a\r\n b"),
)


def _key_line(role: str, keys: Mapping[str, str]) -> list[str]:
    match role:
        case "none":
            return []
        case "wrong":
            return [f"Authorization: Bearer rlcm_{'0' * 8}_{'0' * 64}"]
        case "malformed":
            return ["Authorization: Basic é\xff", "X-API-Key: rlcm_"]
        case "other":
            return [f"X-API-Key: {keys[role]}"]
        case _:
            return [f"Authorization: Bearer {keys[role]}"]
