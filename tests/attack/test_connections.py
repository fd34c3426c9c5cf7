"""No accepted request ends without a status, however many wait and whatever they send."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.settings import Settings
from tests.attack.crowd import ask_all
from tests.rlcm_serve.api.serving import PROBLEM
from tests.rlcm_serve.scripted_engine import ScriptedEngine
from tests.service.listening import listening

pytestmark = pytest.mark.attack


class BusyEngine(ScriptedEngine):
    """Takes seconds for every question, so that nobody knows at first how long the queue takes."""

    async def think(self, *given: Any, **named: Any) -> Any:
        await asyncio.sleep(4)
        async for event in super().think(*given, **named):
            yield event


async def test_a_thousand_clients_that_wait_as_told_are_all_answered(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, max_running=400, max_waiting=100)
    with listening(tmp_path, settings=settings, engine=BusyEngine()) as (url, _):
        body = {"problem": PROBLEM, "alpha": 0.1, "on_infeasible": "full_budget"}
        crowd = await ask_all(url, 1000, body)
    sys.stdout.write(f"{crowd}\n")
    assert crowd.unanswered.total() == 0, str(crowd)
    assert crowd.statuses[200] == 1000
    assert crowd.statuses.keys() == {200, 429}
