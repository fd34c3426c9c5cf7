"""An engine whose rollouts depend only on the problem, and labelled problems for it."""

import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from calibration import ExitPolicy
from rlcm_serve.core import Delta, GenerationSettings, Message, Reading, Rollout, TokenIds
from rlcm_serve.recording.problems import LabelledProblem
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine

RIGHT = Script(confidences=(0.6, 0.97), c_end=0.98, ends_at=64, own=r"It is \boxed{7}.")
WRONG = Script(
    confidences=(0.3, 0.1), c_end=0.05, ends_at=None, own=r"It is \boxed{8}.", forced="8}"
)
SCRIPTS = (RIGHT, RIGHT, WRONG, RIGHT, RIGHT)


def problems(count: int) -> list[LabelledProblem]:
    return [LabelledProblem(f"p{number}", f"Problem {number}", "7") for number in range(count)]


class ProblemEngine(ScriptedEngine):
    """Problem k follows script k, in any order.

    `begun` lists the numbers of the problems that it received; a `diary` file also stores them, so
    that they outlive the process. With a `limit`, only that many problems get a rollout.
    """

    def __init__(
        self, *scripts: Script, diary: Path | None = None, limit: float = float("inf")
    ) -> None:
        super().__init__(*(scripts or SCRIPTS))
        self.started.set()
        self.begun: list[int] = []
        self.diary, self.limit = diary, limit

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        (message,) = messages
        word, number = message.content.split()[:2]
        return (int(number),) * (101 if word == "Long" else 5)

    async def think(
        self,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        *,
        thought: TokenIds = (),
        text: bool = False,
    ) -> AsyncGenerator[Delta | Reading | Rollout]:
        assert not thought, "a recording is never interrupted"
        self.check(prompt, generation)
        if len(self.begun) >= self.limit:
            await self.killed.wait()
        self._note(prompt[0])
        self.policies.append(policy)
        self.drawings.append(generation)
        self.thinking += 1
        try:
            number = prompt[0] % len(self.scripts)
            rollout = self._run(number, policy, generation.budget.thinking)
            for checkpoint in rollout.readings:
                await self._wait_if_held(number, checkpoint)
                await self.check_health()
                yield checkpoint
            yield rollout
        finally:
            self.thinking -= 1

    def _note(self, number: int) -> None:
        self.begun.append(number)
        if self.diary is not None:
            file = os.open(self.diary, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
            os.write(file, f"{number}\n".encode())
            os.close(file)
