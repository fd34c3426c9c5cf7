from collections.abc import Iterator

import pytest

from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.logs import Exchange


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    """A request that is being served."""
    exchange = Exchange("r1")
    token = logs.current.set(exchange)
    yield exchange
    logs.current.reset(token)
