"""A model that marks no thinking: read over its whole completion, and nothing is closed for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from calibration import ExitReason
from rlcm_serve.answers.extraction import BOXED
from rlcm_serve.answers.extraction.boxed import last_boxed
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.asking import forced_answers, generation, think, user
from tests.rlcm_serve.engine.crowd import Forward, compare_inputs_with_transformers
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine


@pytest.fixture
def thoughtless(tmp_path: Path) -> Path:
    """The embedded model with its two thinking tokens under names that mean nothing."""
    folder = Path(shutil.copytree(EMBEDDED_MODEL, tmp_path / "thoughtless"))
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("</think>", "<|b|>").replace("<think>", "<|a|>"))
    return folder


async def test_readings_cover_the_whole_completion(thoughtless: Path) -> None:
    engine = VllmEngine(
        EngineSettings(model=str(thoughtless), record_signals=True, record_inputs=True)
    )
    await engine.start()
    try:
        (problem,) = sample_problems(Split.VALIDATION, 1, seed=5, levels=(1,))
        prompt = engine.prompt(user(problem.question))
        told = await think(engine, prompt, text=True)
        (forced,) = await forced_answers(engine, prompt, (), generation(engine))
        assert await engine.entropy_after(prompt, (), generation(engine)) is None
    finally:
        engine.stop()
    rollout, readings = told.rollout, told.checkpoints
    assert told.text == rollout.text
    assert "</think>" not in engine.identity.forced_suffix
    assert BOXED.close(forced.text) is not None

    assert rollout.exit is ExitReason.NATURAL
    assert last_boxed(rollout.answer_text or "") is not None
    assert rollout.answer_tokens == 0, "the completion is counted once, as reasoning"
    length = len(rollout.tokens)
    interval = engine.identity.checkpoint_interval
    assert [r.tokens for r in readings] == [*range(interval, length + 1, interval), length]
    assert [r.is_final for r in readings] == [False] * (len(readings) - 1) + [True]

    forward = Forward(engine.stop_ids)
    compared = [(prompt, rollout)]
    assert compare_inputs_with_transformers(compared, forward) > 2

    signals_after = forward.signals(prompt, rollout.tokens, interval)
    for reading in readings:
        signals = signals_after[reading.tokens - 1] | {"probe": reading.confidence}
        assert reading.signals == pytest.approx(signals, abs=1e-4)
