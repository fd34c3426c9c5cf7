"""Commands that call a service, before any service is called."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from rlcm_serve.commands.calling import client
from tests.rlcm_serve.command_line import Rlcm

COMMANDS = (
    "feedback labels.jsonl",
    "audit",
    "recalibrate 571b667eda0c",
    "rehearsal 571b667eda0c",
    "activate 571b667eda0c --dry-run",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("address", ["localhost", "localhost:8000", "http://", "http://h:port"])
def test_an_address_that_is_none_is_named(rlcm: Rlcm, command: str, address: str) -> None:
    Path("labels.jsonl").write_text('{"id": "a", "right": true}\n')
    status, out, error = rlcm(f"{command} --service {address}")
    assert (status, out) == (1, "")
    assert f"the address of the service is '{address}': give one with http:// or https://" in error


@pytest.mark.parametrize("key", ["schlüssel", "rlcm_0123abcd_secret\r"])
def test_a_key_that_no_header_carries_is_refused(
    rlcm: Rlcm, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLCM_API_KEY", key)
    status, out, error = rlcm("audit")
    assert (status, out) == (1, "")
    assert "the API key has characters that no key has: give one that begins with rlcm_" in error
    assert "secret" not in error


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("page", ["<html>log in</html>", "[1]", '{"ok": true}'])
def test_what_is_no_rlcm_serve_is_said(
    rlcm: Rlcm, command: str, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("labels.jsonl").write_text('{"id": "a", "right": true}\n')
    another = httpx.MockTransport(lambda request: httpx.Response(200, text=page))
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=another))
    status, out, error = rlcm(f"{command} --service http://proxy.example")
    assert (status, out) == (1, "")
    assert "what answers at http://proxy.example is no rlcm-serve: give the address of one" in error


def test_a_recalibration_outlives_a_restart_of_the_service(
    rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on, so a 503 or a lost connection says nothing about it."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(client, "sleep", lambda seconds: None)
    job = {"id": "cal_1", "state": "recording", "certificate": None, "error": None, "log": []}
    done = job | {"state": "done", "certificate": "571b667eda0c"}
    busy = httpx.Response(503, headers={"Retry-After": "5"}, json={"detail": "starting"})
    said: list[httpx.Response | Exception] = [
        httpx.Response(202, json=job),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.Response(502, text="<html>bad gateway"),
        busy,
        httpx.Response(200, json=done),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(next_ := said.pop(0), Exception):
            raise next_
        return next_

    of_double = partial(httpx.Client, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(httpx, "Client", of_double)
    status, out, error = rlcm("recalibrate 571b667eda0c")
    assert (status, said) == (0, [])
    assert "job cal_1 is done: certificate 571b667eda0c" in out
    assert error.startswith("job cal_1\n")


def test_labelled_problems_that_do_not_exist_are_said(rlcm: Rlcm) -> None:
    status, _, error = rlcm("recalibrate 571b667eda0c --data no.jsonl")
    assert status == 2
    assert "'no.jsonl' does not exist" in error
