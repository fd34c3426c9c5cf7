"""What a record costs an answer: the same questions with and without evidence, 64 at a time.

    python -m studies.serving.evidence_cost [--smoke]

Records are written to the disk of the current folder, as the service writes them. No engine runs:
what is measured is the wait for the record alone, and what one process can record in a second.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from calibration import ExitPolicy, ExitReason
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.core import Question, Reading, Rollout, Sample, Solution
from rlcm_serve.evidence.log import EvidenceLog
from rlcm_serve.evidence.records import Answered, new_id
from studies.smoke import study_parser

AT_A_TIME = 64
READINGS = 30
TURNS = 100
ENGINE = Fingerprint(
    model="m",
    probe="p",
    tokenizer="t",
    chat_template="c",
    temperature=1.0,
    top_p=1.0,
    checkpoint_interval=32,
    max_tokens=960,
    answer_max_tokens=64,
    forced_suffix="",
    grader="g",
    samples=1,
    vote="confidence",
)


def answered(samples: int) -> Answered:
    """An answer of so many samples, each with 30 readings."""
    readings = tuple(Reading(32 * (n + 1), 0.123456789 + n / 100) for n in range(READINGS))
    rollout = Rollout((1,) * 960, "", ExitReason.BUDGET, readings)
    solution = Solution(
        answer="8",
        confidence=0.9,
        exit=ExitReason.BUDGET,
        samples=(Sample(rollout, "8", 4),) * samples,
        policy=ExitPolicy(),
        guarantee=None,
        no_guarantee_reason="none",
    )
    question = Question("A dial shows 3. A up 5.", 0.1, samples=samples)
    return Answered(new_id(), "9f2c01ab", question, solution, None, ENGINE)


async def measure(samples: int, *, smoke: bool) -> None:
    """Prints the wait for a record, and the records per second."""
    waits: list[float] = []

    async def ask_in_turn(log: EvidenceLog) -> None:
        for _ in range(1 if smoke else TURNS):
            one = answered(samples)
            began = time.perf_counter()
            await log.keep(one)
            waits.append(time.perf_counter() - began)

    with (
        tempfile.TemporaryDirectory(dir=None if smoke else Path.cwd()) as folder,
        closing(EvidenceLog(Path(folder))) as log,
    ):
        began = time.perf_counter()
        await asyncio.gather(*(ask_in_turn(log) for _ in range(AT_A_TIME)))
        seconds = time.perf_counter() - began
        size = sum(path.stat().st_size for path in log.chain.glob("*.jsonl"))
    median, worst = statistics.median(waits) * 1000, max(waits) * 1000
    sys.stdout.write(
        f"n = {samples}: {len(waits) / seconds:.0f} records/s, {size / len(waits):.0f} bytes each; "
        f"wait {median:.1f} ms (median), {worst:.1f} ms (longest)\n"
    )


def main() -> None:
    """Measures one sample and eight."""
    options = study_parser(__doc__).parse_args()
    for samples in (1, 8):
        asyncio.run(measure(samples, smoke=options.smoke))


if __name__ == "__main__":
    main()
