"""What is read of states and tokens equals a fresh forward, whatever the scheduler did."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity
from tests.rlcm_serve.engine.crowd import (
    Forward,
    compare_inputs_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
)
from tests.rlcm_serve.engine.familiarities import compare_familiarity, save_familiarity

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model with a familiarity reading of chance."""
    folder = tmp_path_factory.mktemp("models") / "of-both"
    shutil.copytree(EMBEDDED_MODEL, folder)
    save_familiarity(folder)
    return folder


@pytest.fixture(scope="module")
async def launched(model_folder: Path) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(cramped_settings(model=str(model_folder), record_inputs=True))
    await engine.start()
    yield engine
    engine.stop()


async def test_inputs_match_under_chunks_preemption_priorities_and_aborts(
    cramped: VllmEngine, model_folder: Path
) -> None:
    finished = [run for run in await crowd(cramped) if run is not None]
    assert preemptions(str(model_folder)) > 0, "the cache was to be too small"
    forward = Forward(cramped.stop_ids)
    assert compare_inputs_with_transformers(finished, forward) > 300
    p_values = compare_familiarity(
        finished, Familiarity.load(model_folder / FAMILIARITY_FOLDER), forward
    )
    assert len({*p_values}) > 10, "the questions were to differ in familiarity"
    ends = [rollout.readings[-1].confidence for _, rollout in finished]
    assert max(ends) - min(ends) > 0.2, "the probe was to tell them apart"
