"""`rlcm` with a scripted engine in place of vLLM, whose rollouts take some time.

It serves a certificate of its own unless it is given another.
"""

import asyncio
import sys
import zlib
from collections.abc import Sequence

from calibration import ExitPolicy
from rlcm_serve.api import composition
from rlcm_serve.cli import main
from rlcm_serve.core import Message, Reading, TokenIds
from rlcm_serve.own_files import scratch
from tests.rlcm_serve.jobs.problem_engine import ProblemEngine
from tests.rlcm_serve.scripted_engine import certificate

SECONDS = 0.02
"""Of each reading."""


class SlowEngine(ProblemEngine):
    """Any text is a problem; what it gets depends on the text alone."""

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        text = "\n".join(message.content for message in messages)
        return (zlib.crc32(text.encode()) % 1000,) * 5

    async def _wait_if_held(self, number: int, checkpoint: Reading) -> None:
        await asyncio.sleep(SECONDS)


if __name__ == "__main__":
    composition.VllmEngine = lambda *_: SlowEngine()  # type: ignore[misc, assignment]
    if "--certificate" not in sys.argv:
        file = scratch() / "certificate.json"
        certificate({0.1: ExitPolicy(lambda_high=0.9)}).save(file)
        sys.argv += ["--certificate", str(file)]
    main()
