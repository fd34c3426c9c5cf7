"""The CPU time that live monitoring takes for each question: row, draw, label, monitors.

    python -m studies.serving.monitoring_cost [--database URL] [--smoke]

No engine runs. Each question is a solution that is handed to monitoring, 64 at a time; a share of
the answers is drawn and gets its label, and the monitors look as often as in a service. The
CPU time is that of this process, all threads, less what the same loop takes without monitoring, in
pairs of runs that take turns; what PostgreSQL's server takes is not in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from calibration import ExitPolicy, ExitReason
from calibration.monitoring.reference import ReferenceCounts
from rlcm_serve.core import Guarantee, Question, Reading, Rollout, Sample, Solution
from rlcm_serve.errors import NotReady
from rlcm_serve.evidence.records import new_id
from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.monitoring.records import Label, MonitorKind
from rlcm_serve.monitoring.running.betting import LOOK_EVERY, Betting
from rlcm_serve.monitoring.running.live import LiveMonitoring
from rlcm_serve.settings import Settings
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.store.answers.monitors import Watched
from rlcm_serve.store.caller import ANYONE
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from studies.smoke import study_parser

AT_A_TIME = 64
CASES = ((128, 0.05), (16, 0.05))
"""Questions in a second, and the share that is drawn."""
SECONDS = 19
"""Of one run: two looks of the monitors with news, and one before."""
PAIRS = 3
ALPHAS = tuple(round(0.02 * number, 2) for number in range(1, 9))
DIGEST = "0123456789ab" + "0" * 52
QUESTION = Question("A dial shows 3. A up 5. What does it show now?", 0.1)


def solution(number: int) -> Solution:
    """An answer at one of eight levels; one in ten is wrong, one in ten declined."""
    draw = random.Random(number)
    confidence, tokens = draw.random(), 32 * draw.randint(1, 10)
    rollout = Rollout((1,) * tokens, "", ExitReason.HIGH, (Reading(tokens, confidence),))
    answer = None if draw.random() < 0.1 else "8"
    guarantee = Guarantee(
        risk="selective",
        alpha_requested=0.1,
        alpha_certified=ALPHAS[number % len(ALPHAS)],
        delta=0.1,
        promise="simultaneous",
        certificate=DIGEST[:12],
        statement="",
        n_problems=1600,
        method="",
        covers="",
        does_not_cover=(),
    )
    return Solution(
        answer=answer,
        confidence=None if answer is None else confidence,
        exit=ExitReason.HIGH,
        samples=(Sample(rollout, answer, 4),),
        policy=ExitPolicy(),
        guarantee=guarantee,
        no_guarantee_reason=None,
        familiarity=random.Random(-number).random(),
    )


def levels() -> list[Watched]:
    """The monitors of eight levels, with the readings of 1600 calibration problems."""
    known = {
        "declined": np.arange(1600) < 160,
        "familiarity": np.linspace(0, 1, 1600),
        "confidence": np.linspace(0.001, 0.999, 1600),
        "tokens": 4 + 32 * (1 + np.arange(1600) % 10),
    }
    reference = {name: ReferenceCounts.of(name, one).by_bin() for name, one in known.items()}
    return [
        Watched(
            Monitor(
                DIGEST, alpha, what, "selective", 0.1 / len(ALPHAS), reference, 0.0, 0, {}, None
            ),
            slot="",
            whole_delta=0.1,
        )
        for alpha in ALPHAS
        for what in (MonitorKind.RISK, MonitorKind.DRIFT)  # no shadow runs
    ]


def _no_engine() -> Guarantees:
    raise NotReady("no engine")


async def cpu_of(monitoring: LiveMonitoring | None, questions: int, rate: float) -> float:
    """CPU seconds of the whole process for so many questions, at this rate a second."""
    numbers = iter(range(questions))

    async def ask_in_turn() -> None:
        for number in numbers:
            await asyncio.sleep(AT_A_TIME / rate)
            given, id_ = solution(number), new_id()
            if monitoring is None:
                continue
            digests, asked = {DIGEST[:12]: DIGEST}, hashlib.sha256(id_.encode()).digest()
            now = time.time()
            if monitoring.given(id_, None, QUESTION, asked, given, digests, now).audited:
                await monitoring.writer.written()
                label = Label(id_, number % 10 > 0, None)
                await monitoring.threads.write(monitoring.answers.label, [label], ANYONE)

    before = time.process_time()
    ended = asyncio.Event()
    looking = None
    if monitoring is not None:
        looking = asyncio.create_task(_look(monitoring.betting, ended))
    await asyncio.gather(*(ask_in_turn() for _ in range(AT_A_TIME)))
    if monitoring is not None and looking is not None:
        await monitoring.writer.written()
        ended.set()
        await looking
    return time.process_time() - before


async def _look(betting: Betting, ended: asyncio.Event) -> None:
    """Looks as often as a service, and once at the end: so the monitors see every answer."""
    while not ended.is_set():
        await asyncio.to_thread(betting.work, _no_engine)
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), LOOK_EVERY)
    await asyncio.to_thread(betting.work, _no_engine)


async def measure(url: str, state: Path, questions: int, rate: int, share: float) -> None:
    """Prints the CPU time of a question: median and quartiles over the pairs."""
    database = Database(url)
    settings = Settings(state=state, audit_share=share)
    monitoring = LiveMonitoring(database, settings, CertificateStore(database))
    monitoring.betting.monitors.register(levels())
    await cpu_of(monitoring, AT_A_TIME, 128)  # compiles the statements
    spent = []
    for _ in range(PAIRS):
        without = await cpu_of(None, questions, rate)
        spent.append(1000 * (await cpu_of(monitoring, questions, rate) - without) / questions)
    low, middle, high = statistics.quantiles(spent, n=4)
    sys.stdout.write(f"| {rate} | {share:g} | {middle:.2f} ({low:.2f} to {high:.2f}) |\n")
    database.close()


def main() -> None:
    """Measures SQLite, or the database at the given URL."""
    parser = study_parser(__doc__)
    parser.add_argument("--database", help="an empty database; by default a new SQLite file")
    options = parser.parse_args()
    sys.stdout.write("| questions a second | share drawn | CPU per question, ms |\n|---|---|---|\n")
    for rate, share in CASES[:1] if options.smoke else CASES:
        questions = AT_A_TIME if options.smoke else rate * SECONDS
        with tempfile.TemporaryDirectory() as folder:
            url = options.database or f"sqlite:///{folder}/rlcm.db"
            asyncio.run(measure(url, Path(folder), questions, rate, share))


if __name__ == "__main__":
    main()
