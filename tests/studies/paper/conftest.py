"""Fixtures for the tests of the paper's runs and their report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from studies.paper.result import Result
from tests.studies.paper.made_results import made_results


@pytest.fixture(scope="session")
def every_result() -> list[Result]:
    """Shared, as making them takes a second and no test changes them."""
    return made_results()


@pytest.fixture
def kept(tmp_path: Path, every_result: Sequence[Result]) -> Path:
    """A folder with the results of a few runs."""
    folder = tmp_path / "results"
    for result in every_result[:2]:
        result.write(folder)
    return folder
