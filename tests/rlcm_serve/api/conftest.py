"""A certificate, the app under one, and OpenAI's client for that app.

With the variable TEST_THROUGH_RAY, clients reach the app through Ray (make test-ray).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from calibration import ExitPolicy
from tests.rlcm_serve.api import serving
from tests.rlcm_serve.scripted_engine import Script, certificate

if TYPE_CHECKING:
    from openai import AsyncOpenAI

if serving.THROUGH_RAY:
    from tests.ray import relay

    serving.client_of = relay.client_of  # before the tests import it

    @pytest.fixture(scope="session", autouse=True)
    def through_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with relay.relaying(tmp_path_factory.mktemp("relay")):
            yield


@pytest.fixture
def certified(tmp_path: Path) -> Path:
    """A certificate with one policy at two levels."""
    policy = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)
    certificate({0.1: policy, 0.2: policy}).save(tmp_path / "certificate.json")
    return tmp_path / "certificate.json"


@pytest.fixture
async def ready(one: Path) -> AsyncIterator[serving.Running]:
    """Served under the certificate `one` of the test file, with a sure answer."""
    async with serving.serving(Script(c_end=0.6), certificates=[one]) as running:
        yield running


@pytest.fixture
async def client(ready: serving.Running) -> AsyncIterator[AsyncOpenAI]:
    """OpenAI's client for that app."""
    from tests.rlcm_serve.api.openai_client import client_of  # few tests need it

    async with client_of(ready.app) as client:
        yield client
