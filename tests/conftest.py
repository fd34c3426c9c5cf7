"""Fixtures for all tests, and the selection of tests: lanes and samples."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.lanes import lane_of, names_paths, sample

if TYPE_CHECKING:
    from tests.served import Served

# Property tests draw the same examples in every run, and a slow machine fails none of them.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# So that failures show values.
pytest.register_assert_rewrite("tests.rlcm_serve.engine.crowd", "tests.rlcm_serve.api.serving")

LANE_OF = pytest.StashKey[dict[str, str]]()
"""The lane of every collected test, selected or not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes")
    group.addoption("--sample", type=_share, metavar="FRACTION", help="run this share of each lane")
    group.addoption("--seed", default="0", help="decides which tests are in the sample (default 0)")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ArgumentTypeError(f"{text} is no share of the tests: give one above 0, at most 1")
    return share


def pytest_configure(config: pytest.Config) -> None:
    named = names_paths(config.args, config.invocation_params.dir, Path(__file__).parent)
    if not (config.option.markexpr or named):
        config.option.markexpr = "fast"


def pytest_report_header(config: pytest.Config) -> str:
    lanes = f"lanes: {config.option.markexpr or 'all'}"
    if config.option.sample is None:
        return lanes
    return f"{lanes}, a sample of {config.option.sample:g} with --seed {config.option.seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Marks every test with its lane, lets pytest apply `-m`, and samples the rest."""
    lanes = config.stash.setdefault(LANE_OF, {})
    for item in items:
        try:
            lane = lane_of(mark.name for mark in item.iter_markers())
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
        lanes[item.nodeid] = lane
        item.add_marker(lane)
        if lane != "fast":
            item.add_marker("slow")
    yield
    if config.option.sample is not None:
        tests = [(lanes[item.nodeid], item) for item in items]
        items[:], left_out = sample(tests, config.option.sample, config.option.seed)
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def lanes(pytestconfig: pytest.Config) -> dict[str, str]:
    """The lane of every collected test."""
    return pytestconfig.stash[LANE_OF]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as vLLM does; one loop, so that one engine serves them all."""
    return "asyncio"


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """For clients that ask at the same time."""
    with ThreadPoolExecutor(32) as pool:
        yield pool


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for all tests that do not change it, in a folder with traps (`set_traps`)."""
    from tests.served import serving, set_traps  # takes seconds, which few tests need

    folder = tmp_path_factory.mktemp("served")
    set_traps(folder)
    with serving(folder) as running:
        yield running
