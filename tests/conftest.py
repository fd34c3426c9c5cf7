"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.served import Served


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as vLLM does; one loop, so that one engine serves them all."""
    return "asyncio"


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for all tests that leave it as it was, in a folder with traps in it."""
    # Here, because a server's libraries take a second to import and most tests need none of them.
    from tests.served import serving, set_traps

    folder = tmp_path_factory.mktemp("served")
    set_traps(folder)
    with serving(folder) as running:
        yield running
