"""What is read of states and tokens equals a fresh forward, whatever the scheduler did."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity
from tests.rlcm_serve.engine.crowd import (
    INTERVAL,
    Forward,
    compare_inputs_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
)
from tests.rlcm_serve.engine.familiarities import compare_familiarity, save_familiarity
from tests.rlcm_serve.engine.probes import probe_of_both

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def of_both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model with a probe of the state and the tokens, and a familiarity reading."""
    folder = tmp_path_factory.mktemp("models") / "of-both"
    shutil.copytree(EMBEDDED_MODEL, folder)
    probe_of_both().save(folder / PROBE_FOLDER, checkpoint_interval=INTERVAL)
    save_familiarity(folder)
    return folder


@pytest.fixture(scope="module")
async def cramped(of_both: Path) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(cramped_settings(model=str(of_both), record_inputs=True))
    await engine.start()
    yield engine
    engine.stop()


async def test_inputs_match_under_chunks_preemption_priorities_and_aborts(
    cramped: VllmEngine, of_both: Path
) -> None:
    finished = [run for run in await crowd(cramped) if run is not None]
    assert preemptions(of_both) > 0, "the cache was to be too small"
    forward = Forward(cramped.stop_ids)
    assert compare_inputs_with_transformers(finished, probe_of_both(), forward, 1e-4) > 300
    p_values = compare_familiarity(
        finished, Familiarity.load(of_both / FAMILIARITY_FOLDER), forward
    )
    assert len({*p_values}) > 10, "the questions were to differ in familiarity"
    ends = [rollout.readings[-1].confidence for _, rollout in finished]
    assert max(ends) - min(ends) > 0.2, "the probe was to tell them apart"
