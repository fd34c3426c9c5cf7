"""Three services on one database, killed in turn under load; everything is accounted for."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from rlcm_serve.api.server.http_server import listen
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.caller import Limits, Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import JobState
from rlcm_serve.store.keys import Keys
from studies.serving.siege.results import Results
from studies.serving.siege.service import PROGRAM, Siege
from training.tasks.problems import Split, sample_problems

SERVICES = 3
SCRIPTED = (sys.executable, "-m", "tests.service.scripted_rlcm")
"""What runs as `rlcm` with a scripted engine in place of vLLM."""
CLIENTS = {"free": 4, "limited": 4}
"""Connections of each key; the second key asks more than it may."""
ROLLOUTS = 2
FINE = (200, 429, 503)
LONGEST_PAUSE = 6.0
"""Seconds between two kills, at most, and between two changes of what is active."""
PATIENCE = 900.0
"""Seconds for a service to be ready, and for all jobs to end once nothing is killed any more."""
FOLLOWED = 2.0
"""Seconds after which no answer is given under a certificate that was deactivated."""


@dataclass(frozen=True)
class Plan:
    """How large a run is.

    Attributes:
        per_minute: requests that the limited key may begin.
        jobs: calibration jobs that are posted, evenly over the rounds.
        problems: of each job.
    """

    rounds: int
    per_minute: int = 60
    jobs: int = 6
    problems: int = 40
    seed: int = 1


@dataclass
class Account:
    """What came of everything.

    Attributes:
        outcomes: by key, how its questions ended; `lost` had no response, because of a kill.
        lags: of answers under a certificate that was not active, the seconds since it was
            deactivated.
        seconds: for which the limited key asked.
        share: what the limited key got, as a share of what one bucket would have given it; with
            and without the questions that were lost, of which some had begun.
    """

    rounds: int = 0
    outcomes: dict[str, Counter[str]] = field(
        default_factory=lambda: {key: Counter() for key in CLIENTS}
    )
    changes: int = 0
    under: int = 0
    lags: list[float] = field(default_factory=list)
    jobs: int = 0
    recordings: int = 0
    seconds: float = 0.0
    share: tuple[float, float] = (0.0, 0.0)
    wrong: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All of it, with the longest lag only."""
        longest = max(self.lags, default=0.0)
        found = vars(self) | {"lags": len(self.lags), "longest_lag": longest}
        return found | {"outcomes": {key: dict(of) for key, of in self.outcomes.items()}}


def run(results: Results, plan: Plan, database: str | None, *, scripted: bool) -> bool:
    """Runs the rounds, with the embedded model or a scripted engine; prints what came of them."""
    with tempfile.TemporaryDirectory() as folder:
        url = database or f"sqlite:///{folder}/state/rlcm.db"
        account = kill_in_turn(Path(folder), url, plan, SCRIPTED if scripted else PROGRAM)
    results.save("replicas-scripted" if scripted else "replicas", account.to_json())
    results.show(iter([json.dumps(account.to_json(), indent=2)]))
    return not account.wrong


def kill_in_turn(
    folder: Path,
    database: str,
    plan: Plan,
    program: Sequence[str] = PROGRAM,
    followed: float = FOLLOWED,
) -> Account:
    """Starts the services, kills one in each round, and accounts for everything at the end.

    Args:
        folder: of the state and of the logs, which the services share.
        database: its URL; it holds nothing else.
        plan: how large the run is.
        program: what runs in place of `rlcm`.
        followed: seconds after which an answer under a certificate that was deactivated is wrong.
    """
    with _services(folder, database, plan, program) as services:
        account = asyncio.run(_Run(services, plan, database, followed).run())
        errors = [line[:1000] for line in services[0].errors() if "Traceback" in line]
    account.wrong += errors
    return account


@contextmanager
def _services(
    folder: Path, database: str, plan: Plan, program: Sequence[str]
) -> Iterator[list[Siege]]:
    keys = _make_keys(database, plan)
    shared = ("--log-format", "json", "--database", database, "--unanswered-s", "0.001")
    sockets = [listen("127.0.0.1", 0)[0] for _ in range(SERVICES)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    services = [Siege(folder, port, shared, keys, tuple(program)) for port in ports]
    try:
        for service in services:
            service.start()
        for service in services:
            service.await_ready(PATIENCE)
        yield services
    finally:
        for service in services:
            service.stop()


def _make_keys(url: str, plan: Plan) -> dict[str, str]:
    database = Database(url)
    keys = Keys(database)
    limited = Limits(requests_per_minute=plan.per_minute)
    made = {
        "free": keys.create("free", [Scope.SOLVE]),
        "limited": keys.create("limited", [Scope.SOLVE], limited),
        "admin": keys.create("admin", [Scope.ADMIN]),
    }
    database.close()
    return {role: key for role, (key, _) in made.items()}


class _Run:
    """One run: who asks, who changes what is active, who posts jobs, and who kills."""

    def __init__(self, services: list[Siege], plan: Plan, database: str, followed: float) -> None:
        self._services, self._plan = services, plan
        self._database, self._followed = database, followed
        self._random = random.Random(plan.seed)
        self._account = Account()
        self._over = asyncio.Event()
        self._client = httpx.AsyncClient(timeout=180)
        self._off_since: float | None = None
        self._posted: list[str] = []

    async def run(self) -> Account:
        """Everything at once, until the last round is over and every job has ended."""
        certificate = await self._certificate()
        numbers = itertools.count()
        began = time.monotonic()
        asking = [
            asyncio.create_task(self._ask(key, certificate, numbers))
            for key, count in CLIENTS.items()
            for _ in range(count)
        ]
        changing = asyncio.create_task(self._change(certificate))
        for number in range(self._plan.rounds):
            due = self._plan.jobs * (number + 1) // self._plan.rounds
            for _ in range(due - len(self._posted)):
                self._posted.append(await self._post_job(len(self._posted)))
            await asyncio.sleep(self._random.uniform(0, LONGEST_PAUSE))
            service = self._random.choice(self._services)
            await asyncio.to_thread(service.stop)
            service.start()
            self._account.rounds += 1
            sys.stderr.write(f"{self._account.to_json()}\n")
        for service in self._services:
            await asyncio.to_thread(service.await_ready, PATIENCE)
        await self._until_all_was_seen()
        self._over.set()
        await asyncio.gather(*asking)
        self._account.seconds = time.monotonic() - began  # what changes may still sleep for long
        await changing
        await self._until_jobs_end()
        self._check_limit()
        self._check_lags()
        await asyncio.to_thread(self._check_jobs)
        await self._client.aclose()
        return self._account

    async def _certificate(self) -> str:
        found = await self._admin("GET", "/certificates")
        active = [one["id"] for one in found.json()["certificates"] if one["active"]]
        return str(active[0])

    async def _ask(self, key: str, certificate: str, numbers: Iterator[int]) -> None:
        """Asks one question after another, each time any of the services."""
        outcomes = self._account.outcomes[key]
        while not self._over.is_set():
            service = self._random.choice(self._services)
            problem = f"{next(numbers)}: {PROBLEM}"
            body = {"problem": problem, "alpha": 0.2}
            try:
                response = await self._client.post(
                    f"{service.url}/solve", json=body, headers=service.bearer(key)
                )
            except httpx.ConnectError:
                outcomes["not connected"] += 1
                await asyncio.sleep(0.2)
                continue
            except httpx.TransportError:
                outcomes["lost"] += 1
                continue
            outcomes[str(response.status_code)] += 1
            if response.status_code not in FINE:
                self._account.wrong.append(f"{response.status_code}: {response.text[:300]}")
            elif response.status_code != 200:
                await asyncio.sleep(0.05)
            else:
                self._note_answer(response.json()["guarantee"], certificate)

    def _note_answer(self, guarantee: dict[str, Any] | None, certificate: str) -> None:
        if guarantee is not None and guarantee["certificate"] == certificate:
            self._account.under += 1
            if self._off_since is not None:
                self._account.lags.append(time.monotonic() - self._off_since)

    async def _change(self, certificate: str) -> None:
        """Deactivates the certificate and activates it again, at any service that takes it."""
        while not self._over.is_set():
            await asyncio.sleep(self._random.uniform(0, LONGEST_PAUSE))
            # A service that was killed may have done it: then the repeat is a conflict.
            await self._admin("POST", f"/certificates/{certificate}/deactivate", 200, 409)
            self._off_since = time.monotonic()
            await asyncio.sleep(self._random.uniform(self._followed, LONGEST_PAUSE))
            self._off_since = None
            await self._admin("POST", f"/certificates/{certificate}/activate", 200)
            self._account.changes += 1

    async def _post_job(self, number: int) -> str:
        lines = "".join(
            json.dumps({"problem": one.question, "answer": str(one.answer)}) + "\n"
            for one in sample_problems(Split.CALIBRATION, self._plan.problems, seed=number)
        )
        headers = {"content-type": "application/x-ndjson", "idempotency-key": secrets.token_hex(8)}
        path = f"/calibrations?rollouts={ROLLOUTS}&alphas=0.2&activate=false"
        posted = await self._admin("POST", path, 202, content=lines, headers=headers)
        return str(posted.json()["id"])

    async def _admin(self, method: str, path: str, *expected: int, **sent: Any) -> httpx.Response:
        """Sends a request until a service returns one of these statuses."""
        headers = self._services[0].bearer("admin") | sent.pop("headers", {})
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            service = self._random.choice(self._services)
            try:
                url = f"{service.url}{path}"
                response = await self._client.request(method, url, headers=headers, **sent)
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code in (expected or (200,)):
                return response
            if response is not None and response.status_code not in FINE:
                self._account.wrong.append(f"{path}: {response.status_code} {response.text[:300]}")
            await asyncio.sleep(0.2)
        raise TimeoutError(f"{method} {path} was never answered as expected")

    async def _until_all_was_seen(self) -> None:
        """Waits for an answer under the certificate, and a refusal for the limit."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self._account.under and self._account.outcomes["limited"]["429"]:
                return
            await asyncio.sleep(0.1)
        self._account.wrong.append("no answer under the certificate, or no refusal for the limit")

    async def _until_jobs_end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        for id_ in self._posted:
            while time.monotonic() < deadline:
                job = (await self._admin("GET", f"/calibrations/{id_}")).json()
                if job["state"] in ("done", "failed", "cancelled"):
                    break
                await asyncio.sleep(0.5)

    def _check_limit(self) -> None:
        """Some of the questions that were lost had begun, and some had not."""
        outcomes = self._account.outcomes["limited"]
        whole = self._plan.per_minute * (1 + self._account.seconds / 60)
        least, most = outcomes["200"] / whole, (outcomes["200"] + outcomes["lost"]) / whole
        self._account.share = (least, most)
        asks_much = outcomes["429"] > outcomes["200"]  # else it did not want all that it may
        one = 1 / whole  # what flowed in of the next question
        if least > 1.1 + one or (most < 0.9 - one and asks_much):
            self._account.wrong.append(
                f"the limited key got {least:.3f} to {most:.3f} of its limit"
            )

    def _check_lags(self) -> None:
        late = [lag for lag in self._account.lags if lag > self._followed]
        if late:
            said = f"{len(late)} answers under a certificate up to {max(late):.1f} s after its end"
            self._account.wrong.append(said)

    def _check_jobs(self) -> None:
        """Every job that was accepted is done, and each of its rollouts is stored once."""
        database = Database(self._database)
        store = CalibrationStore(database)
        jobs = store.all()
        if {job.id for job in jobs} != {*self._posted} or len(jobs) != len(self._posted):
            self._account.wrong.append(f"{len(self._posted)} jobs were posted, {len(jobs)} stored")
        for job in jobs:
            keys = [(one.problem_id, one.rollout) for one in store.recordings(job)]
            if job.state is not JobState.DONE:
                self._account.wrong.append(f"job {job.id} is {job.state}: {job.error}")
            if len(keys) != len({*keys}) or len(keys) != self._plan.problems * ROLLOUTS:
                self._account.wrong.append(f"job {job.id} has {len(keys)} recordings")
            self._account.jobs += 1
            self._account.recordings += len(keys)
        database.close()


PROBLEM = "A dial shows 3. A up 5. B down 3. A up 4. What does it show now?"
