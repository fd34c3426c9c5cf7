"""Rounds of killed and stopped processes under load; every request is accounted for."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from studies.serving.siege.results import Results
from studies.serving.siege.service import COMPARES, ENGINE, FITS, Siege, besieged
from studies.serving.siege.wire import Answer, NoStatus, Wire, post_bytes
from training.tasks.problems import Split, sample_problems

PROBLEMS = [one.question for one in sample_problems(Split.VALIDATION, 200, seed=21)]
ARGUMENTS = ("--hang-s", "20", "--drain-s", "5", "--fit-timeout-s", "20", "--timeout-s", "60")
LIMIT = 180.0
"""Seconds within which each response must have ended."""
PAUSE = 3.0
"""Seconds of load before each fault, and of a stopped service."""
ENDING = 60.0
"""Seconds within which a service that was told to stop must have ended, and its children."""
RECOVERY = 300.0
"""Seconds within which a question must be answered again."""
JOB_PROBLEMS = 4000
"""Of the calibration job: more than it records meanwhile."""
REFUSALS = (422, 429, 503, 504)
SERVICE = "service"


@dataclass(frozen=True)
class Fault:
    """A signal to one kind of process."""

    kind: str
    signal: signal.Signals

    def __str__(self) -> str:
        names = {ENGINE: "engine core", COMPARES: "answer worker", FITS: "fit worker"}
        return f"{self.signal.name} {names.get(self.kind, self.kind)}"


FAULTS = (
    *(Fault(COMPARES, signal.SIGKILL), Fault(FITS, signal.SIGKILL)),
    *(Fault(ENGINE, signal.SIGKILL), Fault(SERVICE, signal.SIGKILL)),
    *(Fault(ENGINE, signal.SIGSTOP), Fault(COMPARES, signal.SIGSTOP)),
    *(Fault(FITS, signal.SIGSTOP), Fault(SERVICE, signal.SIGSTOP)),
    Fault(SERVICE, signal.SIGTERM),
)


@dataclass
class Round:
    """One fault: outcomes of the requests, seconds until a question was answered again, job."""

    fault: str
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    recorded: int = 0
    wrong: list[str] = field(default_factory=list)


def run(results: Results, rounds: int) -> bool:
    """Runs the rounds, stores each, prints a table; returns whether all was well."""
    with besieged(*ARGUMENTS) as siege:
        done = asyncio.run(_rounds(siege, rounds, results))
    results.show(table(done))
    return not any(one.wrong for one in done)


async def _rounds(siege: Siege, rounds: int, results: Results) -> list[Round]:
    job, done = await asyncio.to_thread(_start_job, siege), [Round("none")]
    over = asyncio.Event()
    clients = [Client(siege, kind, at, done, over) for at, kind in enumerate(CLIENTS)]
    asking = [asyncio.create_task(client.ask()) for client in clients]
    for fault in itertools.islice(itertools.cycle(FAULTS), rounds):
        await asyncio.sleep(PAUSE)
        if done[-1].fault == "none":
            done.pop()
        done.append(Round(str(fault)))
        began = time.monotonic()
        await _noted(_strike(siege, fault), done)
        await _noted(_recover(siege), done)
        done[-1].seconds = time.monotonic() - began
        await asyncio.sleep(PAUSE)
        await _noted(asyncio.to_thread(_check_job, siege, job, done), done)
        results.save("kill", {"rounds": [vars(one) for one in done]})
        sys.stderr.write(f"{done[-1]}\n")
    over.set()
    await asyncio.gather(*asking)
    done[-1].wrong += [line[:1000] for line in siege.errors() if "Traceback" in line]
    results.save("kill", {"rounds": [vars(one) for one in done]})
    return done


async def _noted(step: Awaitable[None], rounds: list[Round]) -> None:
    """Awaits a step; what goes wrong is a finding, and the siege goes on."""
    try:
        await step
    except Exception as error:  # noqa: BLE001
        rounds[-1].wrong.append(repr(error))


async def _strike(siege: Siege, fault: Fault) -> None:
    """Sends the signal; a service that ended is started again, a stopped one goes on."""
    if fault.kind != SERVICE:
        (await _found(siege, fault.kind)).send_signal(fault.signal)
        return
    children = siege.family()
    siege.process.send_signal(fault.signal)
    if fault.signal == signal.SIGSTOP:
        await asyncio.sleep(PAUSE)
        siege.process.send_signal(signal.SIGCONT)
        return
    began = time.monotonic()
    try:
        status: int | None = await asyncio.to_thread(siege.process.wait, ENDING)
    except subprocess.TimeoutExpired:
        status = None
    seconds = time.monotonic() - began
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, ENDING)
    await asyncio.to_thread(siege.stop)
    siege.start()
    if alive or status != (-signal.SIGKILL if fault.signal == signal.SIGKILL else 0):
        raise RuntimeError(f"after {seconds:.0f} s its status was {status}; it left {alive}")


async def _found(siege: Siege, kind: str) -> psutil.Process:
    """A process of this kind, as soon as there is one."""
    async with asyncio.timeout(90):
        while True:
            if found := await asyncio.to_thread(siege.family, kind):
                return found[0]
            await asyncio.sleep(0.01)


async def _recover(siege: Siege) -> None:
    """Waits until a question is answered.

    Raises:
        RuntimeError: none is within `RECOVERY` seconds.
    """
    deadline = time.monotonic() + RECOVERY
    asked = {"problem": "1 + 1 = ?", "alpha": 0.2}
    async with httpx.AsyncClient(base_url=siege.url, headers=siege.bearer(), timeout=90) as client:
        while time.monotonic() < deadline:
            try:
                if (await client.post("/solve", json=asked)).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.5)
    raise RuntimeError(f"no answer {RECOVERY:g} s after the fault")


def _start_job(siege: Siege) -> str:
    rows = sample_problems(Split.CALIBRATION, JOB_PROBLEMS, seed=5)
    lines = "".join(
        json.dumps({"problem": one.question, "answer": str(one.answer)}) + "\n" for one in rows
    )
    headers = siege.bearer("admin") | {"Content-Type": "application/x-ndjson"}
    response = httpx.post(f"{siege.url}/calibrations", content=lines, headers=headers, timeout=60)
    return str(response.raise_for_status().json()["id"])


def _check_job(siege: Siege, job: str, done: list[Round]) -> None:
    """Its progress never falls, and is that of the database, where each rollout is stored once."""
    before = _stored(siege)
    url = f"{siege.url}/calibrations/{job}"
    found = httpx.get(url, headers=siege.bearer("admin"), timeout=60).json()
    counted, after = found["done"], _stored(siege)
    done[-1].recorded = counted
    earlier = max((one.recorded for one in done[:-1]), default=0)
    if not max(before, earlier) <= counted <= after or found["state"] == "failed":
        said = f"{found['state']}, {counted} counted, {before} to {after} stored, {earlier} before"
        done[-1].wrong.append(f"the job is {said}: {found['error']}")


def _stored(siege: Siege) -> int:
    """The job's rollouts in the database; no other job is run."""
    distinct = "SELECT DISTINCT job, problem, rollout FROM rlcm_calibration_recordings"
    with closing(sqlite3.connect(siege.state / "rlcm.db")) as database:
        (count,) = database.execute(f"SELECT COUNT(*) FROM ({distinct})").fetchone()
    return int(count)


class Client:
    """One connection that asks one thing after another, and counts into the last round."""

    def __init__(
        self, siege: Siege, kind: str, at: int, rounds: list[Round], over: asyncio.Event
    ) -> None:
        self._siege, self._make, self._rounds, self._over = siege, MAKERS[kind], rounds, over
        self._kind, self._numbers = kind, itertools.count(1000 * at)

    async def ask(self) -> None:
        """Asks until it is over."""
        wire = Wire(self._siege.port)
        while not self._over.is_set():
            outcome = await self._outcome(wire, next(self._numbers))
            now = self._rounds[-1]
            now.outcomes[outcome] += 1
            is_lost = outcome == "lost" and now.fault != "SIGKILL service"
            if is_lost or outcome.startswith("wrong"):
                now.wrong.append(f"{self._kind}: {outcome}")
                sys.stderr.write(f"{now.fault}: {now.wrong[-1]}\n")
            if not outcome.startswith("answered"):
                wire.hang_up()
                await asyncio.sleep(0.3)
        wire.hang_up()

    async def _outcome(self, wire: Wire, number: int) -> str:
        try:
            answer = await wire.ask(self._make(self._siege, number), LIMIT)
        except ConnectionRefusedError:
            return "not connected"
        except NoStatus:
            return "lost"
        except TimeoutError:
            return f"wrong: no answer within {LIMIT:g} s"
        return _judged(answer, number)


_SAME_QUESTION = b"another ask of the same question is still running"


def _judged(answer: Answer, number: int) -> str:
    if answer.status in REFUSALS:
        return f"refused {answer.status}"
    if answer.status != 200:
        return f"wrong: status {answer.status} {answer.body[:300]!r}"
    last = answer.body.rpartition(b"event: ")[2]
    if answer.headers["content-type"].startswith("text/event-stream"):
        if last.startswith(b"error\n"):
            return "error event"
        if not last.startswith(b"done\n"):
            return f"wrong: a stream ends with {last[:300]!r}"
    if _SAME_QUESTION in answer.body:  # without a guarantee, nothing in it says whose it is
        return "answered"
    mine = f'"alpha_requested":{_alpha(number)}'.encode() in answer.body
    mine |= f'"problem_id":"{number}"'.encode() in answer.body
    return "answered" if mine else f"wrong: the answer to another request {answer.body[:300]!r}"


def _alpha(number: int) -> float:
    """A level that names its request; it is served as the certified one below it."""
    return round(0.1 + number * 1e-6, 6)


def _solve(siege: Siege, number: int, *, stream: bool = False) -> bytes:
    problem = PROBLEMS[number % len(PROBLEMS)]
    body = {"problem": problem, "alpha": _alpha(number), "n": 1 + 3 * (number % 2)}
    return post_bytes("/solve", siege.bearer(), body | {"stream": stream})


def _aggregate(siege: Siege, number: int) -> bytes:
    """Answers that only the worker can compare, and that it has not seen."""
    answers = (rf"\sqrt{{{number}}}", rf"{number}^{{1/2}}", rf"\frac{{{number}}}{{7}}")
    rows: list[dict[str, Any]] = [
        {"problem_id": str(number), "answer": one, "confidence": 0.5} for one in answers
    ]
    return post_bytes("/aggregate", siege.bearer(), {"rollouts": rows})


def _upload(siege: Siege, number: int) -> bytes:
    """A certificate and traces that are refused once the worker has read them."""
    certificate = (EMBEDDED_MODEL / CERTIFICATE_FOLDER / "selective-1.json").read_bytes()
    parts = {"certificate": certificate, "traces": b"no Parquet %d" % number}
    request = httpx.Request("POST", f"{siege.url}/certificates", files=dict(parts))
    headers = siege.bearer("admin") | {"Content-Type": request.headers["content-type"]}
    content = request.read()
    head = post_bytes("/certificates", headers | {"Content-Length": str(len(content))})
    return head + content


MAKERS: dict[str, Callable[[Siege, int], bytes]] = {
    "solve": _solve,
    "stream": lambda siege, number: _solve(siege, number, stream=True),
    "aggregate": _aggregate,
    "upload": _upload,
}
CLIENTS = ("solve",) * 3 + ("stream",) * 3 + ("aggregate",) * 2 + ("upload",)


def table(rounds: list[Round]) -> Iterator[str]:
    """The lines of a Markdown table: a row per kind of fault."""
    kinds = sorted({kind for one in rounds for kind in one.outcomes})
    yield f"| fault | rounds | {' | '.join(kinds)} | until the next answer, s | wrong |"
    yield "|---" * (len(kinds) + 4) + "|"
    for fault in dict.fromkeys(one.fault for one in rounds):
        these = [one for one in rounds if one.fault == fault]
        total = sum((one.outcomes for one in these), Counter[str]())
        cells = " | ".join(str(total[kind]) for kind in kinds)
        seconds = ", ".join(f"{one.seconds:.0f}" for one in these)
        wrong = sum(len(one.wrong) for one in these)
        yield f"| {fault} | {len(these)} | {cells} | {seconds} | {wrong} |"
    yield ""
    total = sum((one.outcomes for one in rounds), Counter[str]())
    yield f"{total.total()} requests in {len(rounds)} rounds: {dict(total)}; "
    yield f"{rounds[-1].recorded} rollouts recorded"
