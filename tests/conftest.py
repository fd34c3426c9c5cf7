"""Fixtures for all tests."""

from collections.abc import Iterator

import pytest

from tests.served import Served, serving, set_traps

SHARED = ("served", "engine")
"""Fixtures that take most of a minute to start."""


@pytest.hookimpl(tryfirst=True)  # xdist's own hook reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes test (`pytest -n`), each file is one's, and so is what is shared."""
    for item in items:
        shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        group = shared[0] if shared else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


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
