"""What a full run found is kept, under runs/."""

from collections.abc import Iterator

import pytest

from tests.statistical.report import Findings


@pytest.fixture(scope="session")
def findings() -> Iterator[Findings]:
    """Whatever tests add is written down at the end, also if some fail."""
    found = Findings()
    yield found
    found.write()
