"""What `rlcm serve --rehearse CERT` says and does where CERT cannot be rehearsed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.rlcm_serve.api.serving import PATIENCE, Running, serving, starting
from tests.rlcm_serve.api.test_rehearsals import CANDIDATE, said, settings, until_running

pytestmark = pytest.mark.anyio


async def start_on_demand(running: Running) -> None:
    """A rehearsal that another process starts is followed here."""
    await running.client.post("/certificates", json=CANDIDATE.to_json())
    rehearsals = running.context.rehearsals
    assert rehearsals is not None
    rehearsals.stored.start(CANDIDATE.digest, None)
    await until_running(running)


async def test_a_file_that_is_no_certificate_is_named_and_others_are_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    async with serving(settings=settings(tmp_path, rehearse=str(bad))) as running:
        assert f"{bad} is not JSON" in await said(caplog, "is not rehearsed")
        await start_on_demand(running)


async def test_a_missing_file_is_said_to_be_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = str(tmp_path / "candidat.json")
    async with serving(settings=settings(tmp_path, rehearse=missing)) as running:
        message = await said(caplog, "is not rehearsed")
        await start_on_demand(running)
    assert f"there is no file '{missing}'" in message


async def test_an_unexpected_failure_is_logged_once_and_not_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcm_serve.api.monitoring.rehearsals.FOLLOW_EVERY", 0.01)
    async with serving(settings=settings(tmp_path, rehearse=None)) as running:
        rehearsals = running.context.rehearsals
        assert rehearsals is not None
        right, looks = rehearsals.stored.running, 0

        def wrong() -> list[str]:
            nonlocal looks
            looks += 1
            raise ZeroDivisionError("a mistake of ours")

        rehearsals.stored.running = wrong  # type: ignore[method-assign]
        await said(caplog, "a mistake of ours")
        async with asyncio.timeout(PATIENCE):
            while looks < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        rehearsals.stored.running = right  # type: ignore[method-assign]
        await start_on_demand(running)
    assert sum("a mistake of ours" in message for message in caplog.messages) == 1


async def test_nothing_is_written_before_the_engine_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcm_serve.api.monitoring.rehearsals.FOLLOW_EVERY", 0.01)
    async with starting(settings=settings(tmp_path)) as running:
        await asyncio.sleep(0.3)
        assert running.context.certificates.all(None) == []
        await running.until_settled()
        await until_running(running)
