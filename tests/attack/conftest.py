"""One service for all attacks that it survives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attack.target import Target, attacked


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The real service with keys on. A test that ends it or changes its settings starts its own."""
    with attacked(tmp_path_factory.mktemp("attacked")) as running:
        yield running
