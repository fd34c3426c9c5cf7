"""What other processes activate arrives here, whatever the database says in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from calibration import ExitPolicy
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.store import activation
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate

MADE = certificate({0.1: ExitPolicy(lambda_high=0.9)})


class Threads:
    async def check(self, work: Callable[..., Any], *given: Any) -> Any:
        return work(*given)

    read = check


class Store:
    """A store whose table is missing at the first two looks, as while it is restored."""

    def __init__(self) -> None:
        self.threads, self.changing = Threads(), asyncio.Lock()
        self.looks = 0

    def decided(self) -> int:
        self.looks += 1
        if self.looks < 3:
            raise LookupError("no such table")
        return 1

    def current(self, identities: Any) -> Guarantees:
        return Guarantees(identities, [MADE])


class Service:
    def __init__(self) -> None:
        self.guarantees = Guarantees([IDENTITY], [])

    def use(self, guarantees: Guarantees) -> None:
        self.guarantees = guarantees


async def test_an_unexpected_error_does_not_end_it_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A withdrawal would never reach this process."""
    monkeypatch.setattr(activation, "FOLLOW_EVERY", 0.01)
    store, service = Store(), Service()
    following = asyncio.create_task(activation.follow(store, service))  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        async with asyncio.timeout(10):
            while not service.guarantees.certificates:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    following.cancel()
    assert service.guarantees.certificates == (MADE,)
    assert caplog.text.count("cannot be read; trying again") == 1
