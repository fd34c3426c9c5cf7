"""Limits of uploads, within which one piece of them is parsed in one go."""

from __future__ import annotations

from io import BytesIO

import pytest

from rlcm_serve.api import uploads
from rlcm_serve.api.uploads import (
    LARGEST_CERTIFICATE,
    LONGEST_PROBLEM,
    MOST_LINES,
    parse_certificate,
)
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.api.serving import serving


async def test_a_certificate_has_a_limit_in_bytes() -> None:
    whole = b"[" * LARGEST_CERTIFICATE
    for sent in (
        {"content": whole + b"[", "headers": {"content-type": "application/json"}},
        {"files": {"certificate": whole + b"["}},
        {"files": {"certificate": b"{}", "signature": whole + b"["}},
    ):
        async with serving() as running:
            response = await running.client.post("/certificates", **sent)  # type: ignore[arg-type]
        assert response.status_code == 422
        assert f"give at most {LARGEST_CERTIFICATE}" in response.json()["detail"]


@pytest.mark.parametrize("content", [b"[" * 100_000, b"9" * 5_000, b"\xff", "{", b"nul"])
def test_a_certificate_is_json(content: bytes | str) -> None:
    with pytest.raises(RequestRefused, match=r"not JSON .*: send the file that `rlcm fit` saved"):
        parse_certificate(content)


def test_a_labelled_problem_has_a_limit_in_bytes() -> None:
    short = b"a" * (LONGEST_PROBLEM - 1) + b"\n"
    lines = uploads._short_lines(BytesIO(short + b"\n" + short + b"a" * (LONGEST_PROBLEM + 1)))
    assert [next(lines) for _ in range(3)] == [short, b"\n", short]
    with pytest.raises(RequestRefused, match=f"line 4: give at most {LONGEST_PROBLEM} bytes"):
        next(lines)
    many = uploads._short_lines(BytesIO(b"\n" * (MOST_LINES + 1)))
    with pytest.raises(RequestRefused, match=f"the body has over {MOST_LINES} lines: send fewer"):
        list(many)
