"""Fixtures for all tests."""

from collections.abc import Iterator

import pytest

from tests.served import Served, serving, set_traps


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as vLLM does; one loop, so that one engine serves them all."""
    return "asyncio"


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for all tests that leave it as it was, in a folder with traps in it."""
    folder = tmp_path_factory.mktemp("served")
    set_traps(folder)
    with serving(folder) as running:
        yield running
