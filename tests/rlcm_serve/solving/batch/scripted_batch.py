"""A process that answers a file of questions with a scripted engine; prints the MiB it grew by.

python -m tests.rlcm_serve.solving.batch.scripted_batch ordered|unordered QUESTIONS KEPT OUT
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Solution
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.batch.answers import solve_all, write_answers
from rlcm_serve.solving.batch.questions import QuestionFile
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine
from tests.rlcm_serve.solving.batch.test_answers import answering


class Forgetful(ScriptedEngine):
    """Keeps nothing of what it was asked. One sample in four abstains."""

    def __init__(self) -> None:
        super().__init__(*[Script()] * 3, Script(confidences=(0.0,)))

    async def think(self, *given: Any, **named: Any) -> Any:
        try:
            async for event in super().think(*given, **named):
                yield event
        finally:  # the solver leaves at an exit
            self.asked.clear()
            self.drawings.clear()
            if len(self.policies) % len(self.scripts) == 0:
                self.policies.clear()


def describe(solution: Solution) -> dict[str, Any]:
    return {"answer": solution.answer, "tokens": solution.tokens, "padding": "x" * 1000}


def main() -> None:
    """Solves as `rlcm solve --file` does, but for the engine."""
    mode, *paths = sys.argv[1:]
    file, kept, out = map(Path, paths)
    process = psutil.Process()
    with AnswerGrader() as grader:
        started = most = process.memory_info().rss

        def look(done: int, total: int) -> None:
            nonlocal most
            if done % 1000 == 0:
                most = max(most, process.memory_info().rss)

        asked = QuestionFile(file)
        how = {"file": asked.digest}
        with Journal(kept, how) if mode == "ordered" else Journal(out, how, kept) as journal:
            asyncio.run(solve_all(answering(Forgetful(), grader, describe), asked, journal, look))
            if mode == "ordered":
                write_answers(asked, journal, out)
        most = max(most, process.memory_info().rss)
    sys.stdout.write(json.dumps({"grown": (most - started) / 2**20}))


if __name__ == "__main__":
    main()
