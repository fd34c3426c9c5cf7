"""Names and ports in headers."""

from __future__ import annotations

import pytest

from rlcm_serve.api.server.hosts import Authority, is_same_origin


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("localhost", "localhost", None),
        ("LocalHost:8000", "localhost", 8000),
        ("rlcm.example.", "rlcm.example", None),
        ("rlcm.example.:80", "rlcm.example", 80),
        ("127.0.0.1:", "127.0.0.1", None),
        ("[::1]:8000", "::1", 8000),
        ("[0:0:0:0:0:0:0:1]", "::1", None),
    ],
)
def test_a_host_has_one_form(text: str, name: str, port: int | None) -> None:
    assert Authority.parse(text) == Authority(name, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "::1",
        "[::1",
        "[::g]",
        "a:b",
        "a:1:2",
        "me@localhost",
        "localhost/x",
        "localhost, a",
        "localhost evil.example",
        "localhost:123456",
        "b\u00fccher.example",
    ],
)
def test_what_is_no_host_is_seen(text: str) -> None:
    assert Authority.parse(text) is None


@pytest.mark.parametrize(
    ("name", "is_loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_loopback_is_known_by_name_and_address(name: str, is_loopback: bool) -> None:
    found = Authority.parse(name)
    assert found is not None
    assert found.is_loopback == is_loopback


@pytest.mark.parametrize(
    ("origin", "host", "is_same"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("http://LOCALHOST:8000", "localhost.:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("https://rlcm.example", "rlcm.example", True),
        ("https://rlcm.example", "rlcm.example:443", True),
        ("http://localhost", "localhost:80", True),
        ("https://rlcm.example", "rlcm.example:80", False),
        ("http://localhost:8001", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("https://evil.example", "localhost:8000", False),
        ("https://localhost:8000.evil.example", "localhost:8000", False),
        ("null", "localhost:8000", False),
        ("", "localhost:8000", False),
        ("http://[", "localhost:8000", False),
        ("file://", "localhost", False),
    ],
)
def test_an_origin_is_compared_with_the_host(origin: str, host: str, is_same: bool) -> None:
    assert is_same_origin(origin, host) == is_same
