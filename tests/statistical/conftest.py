"""What a full run found is kept, under runs/."""

from collections.abc import Iterator

import pytest

from tests.statistical.report import Found, write


@pytest.fixture(scope="session")
def findings() -> Iterator[list[Found]]:
    """Whatever tests append is written down at the end, also if some fail."""
    found: list[Found] = []
    yield found
    write(found)
