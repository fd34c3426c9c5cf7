"""The self-test passes where readings are right, and finds faults that were put in on purpose."""

from __future__ import annotations

import pytest

from rlcm_serve.engine.clients import arguments
from rlcm_serve.engine.diagnosis import self_test as module
from rlcm_serve.engine.diagnosis.self_test import QUESTIONS, self_test
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.errors import EngineDead, RlcmError, UnsupportedVllm

pytestmark = pytest.mark.engine

BROKEN = "tests.rlcm_serve.engine.diagnosis.broken"


async def test_the_embedded_model_passes(engine: VllmEngine) -> None:
    passed = await self_test(engine, ModelFiles.read(EMBEDDED_MODEL))
    assert passed is not None
    assert passed.reference == "transformers"
    assert passed.readings == 2 * len(QUESTIONS)
    assert passed.worst is not None
    assert passed.worst < 1e-4
    assert passed.worst_state is None, "this engine records no states"


async def test_a_model_that_is_too_large_is_not_tested_without_states(engine: VllmEngine) -> None:
    assert await self_test(engine, ModelFiles.read(EMBEDDED_MODEL), limit=1000) is None


async def test_states_are_compared_with_vllms_own_where_transformers_is_left_out() -> None:
    engine = VllmEngine(EngineSettings(record_inputs=True))
    files = ModelFiles.read(EMBEDDED_MODEL)
    await engine.start()
    try:
        in_vllm = await self_test(engine, files, limit=1000)
        in_process = await self_test(engine, files)
    finally:
        engine.stop()
    assert in_vllm is not None
    assert in_process is not None
    assert (in_vllm.reference, in_vllm.worst) == ("vLLM", None)
    assert in_process.reference == "transformers"
    for passed in (in_vllm, in_process):
        assert passed.worst_state is not None
        assert passed.worst_state < 1e-4


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        ("NeverActs", EngineDead, "vLLM does not call the exit processor"),
        ("WrongRows", UnsupportedVllm, "but a forward pass of the same tokens gives"),
        ("OneStepLate", UnsupportedVllm, "but a forward pass of the same tokens gives"),
        ("ForcesNothing", UnsupportedVllm, "no stop id was forced"),
    ],
)
async def test_a_processor_with_a_fault_ends_the_start(
    fault: str, kind: type[RlcmError], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(arguments._PROCESSORS, "v1", f"{BROKEN}:{fault}")
    engine = VllmEngine(EngineSettings(self_test=True))
    with pytest.raises(kind, match=says):
        await engine.start()
    assert engine.running is None, "vLLM was to be stopped"


async def test_a_model_that_keeps_no_states_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = "vllm.model_executor.models.qwen3:Qwen3ForCausalLM"
    monkeypatch.setattr(arguments, "override", lambda architecture: {architecture: plain})
    # Where somebody else chose the class, as the facts have it here, nothing would be compared.
    monkeypatch.setattr(module, "_forward", lambda engine, files, limit: object())
    engine = VllmEngine(EngineSettings(self_test=True))
    with pytest.raises(UnsupportedVllm, match="the model that keeps its states"):
        await engine.start()


async def test_without_the_self_test_a_fault_goes_unnoticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(arguments._PROCESSORS, "v1", f"{BROKEN}:WrongRows")
    engine = VllmEngine(EngineSettings(record_inputs=True))
    await engine.start()
    try:
        with pytest.raises(UnsupportedVllm, match="has the state of another token"):
            await self_test(engine, ModelFiles.read(EMBEDDED_MODEL), limit=1000)
    finally:
        engine.stop()


def test_questions_differ_in_length() -> None:
    assert len({len(question) for question in module.QUESTIONS}) == len(QUESTIONS)
