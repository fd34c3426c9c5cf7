"""The findings of a full run are kept in runs/."""

from collections.abc import Iterator

import pytest

from tests.statistical.report import Findings


@pytest.fixture(scope="session")
def findings() -> Iterator[Findings]:
    """The findings that tests add; written at the end, even if some tests fail."""
    found = Findings()
    yield found
    found.write()
