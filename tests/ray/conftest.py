"""Tests that need Ray, in the lane `ray` (make test-ray); without Ray they are left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("ray") else ["test_*.py"]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool
