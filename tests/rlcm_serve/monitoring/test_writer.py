"""The batched writer of answers."""

import asyncio
from collections.abc import Sequence

import pytest

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.monitoring import writer as module
from rlcm_serve.monitoring.records import GivenAnswer
from rlcm_serve.monitoring.writer import AnswerWriter

pytestmark = pytest.mark.anyio


def answer(number: int) -> GivenAnswer:
    return GivenAnswer(
        id=f"chatcmpl-{number}",
        key_id=None,
        started=0.0,
        time=1.0,
        profile="default",
        kind=None,
        certificate="c" * 64,
        alpha=0.1,
        risk="selective",
        answered=True,
        confidence=0.9,
        tokens=100,
        familiarity=None,
        audited=True,
        audit_share=1.0,
        due=1e12,
        answer="7",
    )


async def test_answers_are_written_in_order_and_in_batches() -> None:
    batches: list[list[str]] = []

    async def write(answers: Sequence[GivenAnswer]) -> None:
        await asyncio.sleep(0)
        batches.append([one.id for one in answers])

    writer = AnswerWriter(write)
    for number in range(1200):
        writer.put(answer(number))
    await writer.written()
    in_order = [id_ for batch in batches for id_ in batch]
    assert in_order == [answer(number).id for number in range(1200)]
    assert len(batches) == 3


async def test_an_answer_is_written_once_the_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    tries: list[list[str]] = []

    async def write(answers: Sequence[GivenAnswer]) -> None:
        tries.append([one.id for one in answers])
        if len(tries) < 3:
            writer.put(answer(10 * len(tries)))
            raise DatabaseRefused("gone")

    writer = AnswerWriter(write)
    writer.put(answer(1))
    await writer.written()
    assert tries[-1] == ["chatcmpl-1", "chatcmpl-10", "chatcmpl-20"]
    assert writer.lost == 0


async def test_what_waits_is_bounded_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    written: list[str] = []

    async def write(answers: Sequence[GivenAnswer]) -> None:
        written.extend(one.id for one in answers)

    writer = AnswerWriter(write)
    for number in range(5):
        writer.put(answer(number))
    await writer.written()
    assert written == ["chatcmpl-2", "chatcmpl-3", "chatcmpl-4"]
    assert writer.lost == 2


async def test_only_answers_taken_before_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under steady traffic there is always one that is not stored yet."""
    monkeypatch.setattr(module, "LINGER", 0.0)
    stored: list[str] = []

    async def write(answers: Sequence[GivenAnswer]) -> None:
        await asyncio.sleep(0.01)
        stored.extend(one.id for one in answers)
        writer.put(answer(len(stored) + 1))  # the next one comes while this one is written

    writer = AnswerWriter(write)
    writer.put(answer(1))
    await asyncio.sleep(0.03)
    last = writer._waiting[-1].id
    async with asyncio.timeout(2):
        await writer.written(60)
    assert last in stored
    assert writer._waiting
    if writer._writing is not None:
        writer._writing.cancel()
