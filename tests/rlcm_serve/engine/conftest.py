"""A real vLLM engine, shared because starting it takes most of these tests' time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


@pytest.fixture(scope="session")
def on_v2(pytestconfig: pytest.Config) -> None:
    """vLLM runs its V2 model runner. Where it does not, `-m v2` fails."""
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") != "1":
        refuse = pytest.fail if pytestconfig.option.markexpr == "v2" else pytest.skip
        refuse("vLLM runs its V1 model runner here: use `make test-v2`")


@pytest.fixture(scope="session")
async def engine() -> AsyncIterator[VllmEngine]:
    """The embedded model as it is served, with at most 1024 tokens in flight."""
    running = VllmEngine(EngineSettings())
    await running.start()
    yield running
    running.stop()


def start_vllm(flags: list[str]) -> AsyncLLM:
    """A vLLM as its own server starts it."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.engine.async_llm import AsyncLLM

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    arguments = AsyncEngineArgs.from_cli_args(parser.parse_args(flags))
    return AsyncLLM.from_engine_args(arguments)


@pytest.fixture(scope="session")
async def client() -> AsyncIterator[AsyncLLM]:
    """vLLM's client for the embedded model, started by vLLM's own command line."""
    model = ["--model", str(EMBEDDED_MODEL)]
    llm = start_vllm([*model, *VllmEngine(EngineSettings()).command_line()])
    yield llm
    llm.shutdown()


@pytest.fixture(scope="session")
async def adopted(client: AsyncLLM) -> AsyncIterator[VllmEngine]:
    """The embedded model on a vLLM that was started elsewhere, with readings fetched through it."""
    engine = VllmEngine(EngineSettings(shares_memory=False), client)
    await engine.start()
    yield engine
    engine.stop()
