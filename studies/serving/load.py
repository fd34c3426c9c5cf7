"""Load test: many clients at a time lose no request and leave no resources in use.

    make serve &
    python -m studies.serving.load --clients 64 --seconds 60
    python -m studies.serving.load --smoke              # starts a service of its own

Every client asks one question after another: plain and streamed, one sample and four, `/solve` and
the chat interface; some clients disconnect early. Each request must end exactly once, complete and
with its own answer. Before and after, while the service is idle, the script measures service and
engine: memory, open files, threads, requests still running.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from studies.serving.ports import free_port
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

HANG_UPS = 0.15
"""Share of requests whose client disconnects early."""
QUIET = ("rlcm_http_requests_in_flight", "rlcm_queue_running", "rlcm_engine_requests")


class Lost(AssertionError):
    """A request that did not end exactly once and as expected."""


def _unasked() -> Iterator[str]:
    """Questions that no other run asks, none twice: a repeated one may get no guarantee."""
    asked: set[str] = set()
    for seed in itertools.count(time.time_ns()):
        drawn = (one.question for one in sample_problems(Split.VALIDATION, 1000, seed=seed))
        fresh = [question for question in drawn if question not in asked]
        asked.update(fresh)
        yield from fresh


_QUESTIONS = _unasked()


@dataclass
class Tally:
    """Outcomes of the requests, by kind, and the seconds of answered requests."""

    answered: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return self.answered.total() + self.left.total() + len(self.lost)


@dataclass(frozen=True)
class Footprint:
    """Resources of an idle service: memory in MiB, open files, threads, running requests."""

    service_mib: float
    engine_mib: float
    files: int
    threads: int
    requests: int

    @classmethod
    def of(cls, process: psutil.Process, url: str) -> Footprint:
        """Measures the service and its child processes, after waiting until it is idle."""
        deadline = time.monotonic() + 30
        while (requests := under_way(url)) and time.monotonic() < deadline:
            time.sleep(0.05)
        children = process.children(recursive=True)
        return cls(
            service_mib=process.memory_info().rss / 2**20,
            engine_mib=sum(child.memory_info().rss for child in children) / 2**20,
            files=process.num_fds() + sum(child.num_fds() for child in children),
            threads=process.num_threads() + sum(child.num_threads() for child in children),
            requests=requests,
        )


def under_way(url: str) -> int:
    """Requests, questions and samples that are still running, except this request."""
    page = metrics(url)
    return int(sum(page[name] for name in QUIET)) - 1


def metrics(url: str) -> dict[str, float]:
    """The value of every metric, summed over its series."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        for sample in family.samples:
            found[sample.name] += sample.value  # type: ignore[assignment]
    return dict(found)


async def load(
    url: str,
    clients: int,
    seconds: float,
    seed: int = 0,
    headers: Mapping[str, str] | None = None,
) -> Tally:
    """Runs the clients for `seconds`, one request at a time each, then waits for the last one.

    Args:
        url: of the service.
        clients: how many; each has a connection of its own.
        seconds: how long they begin requests.
        seed: of the requests.
        headers: of every request, such as a key.
    """
    tally, until = Tally(), time.monotonic() + seconds
    every = [Client(url, tally, random.Random(f"{seed}/{n}"), headers) for n in range(clients)]
    await asyncio.gather(*(one.ask_until(until) for one in every))
    return tally


class Client:
    """One connection that sends one request after another."""

    def __init__(
        self,
        url: str,
        tally: Tally,
        rng: random.Random,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._headers = headers
        self._tally = tally
        self._rng = rng

    async def ask_until(self, until: float) -> None:
        """Sends requests until the time `until`."""
        client = httpx.AsyncClient(base_url=self._url, timeout=120, headers=self._headers)
        async with client:
            while time.monotonic() < until:
                question = Ask.draw(self._rng)
                began = time.monotonic()
                try:
                    is_whole = await question.put_to(client)
                except (Lost, httpx.HTTPError) as error:
                    self._tally.lost.append(f"{question.kind}: {error!r}")
                    continue
                (self._tally.answered if is_whole else self._tally.left)[question.kind] += 1
                if is_whole:
                    self._tally.seconds.append(time.monotonic() - began)


@dataclass(frozen=True)
class Ask:
    """One request. Its unique `alpha` identifies its answer; `leaves` None: it does not leave."""

    kind: str
    path: str
    body: dict[str, Any]
    alpha: float
    samples: int
    leaves: float | None

    @classmethod
    def draw(cls, rng: random.Random) -> Ask:
        """A random request of any kind, with a question of its own."""
        is_chat, stream = rng.random() < 0.3, rng.random() < 0.5
        samples = rng.choice((1, 4))
        alpha = 0.1 + 0.1 * rng.random()  # served at the certified level below it
        problem = next(_QUESTIONS)
        body: dict[str, Any] = {"alpha": alpha, "stream": stream}
        if is_chat:
            turn = {"role": "user", "content": problem}
            body |= {"model": "embedded", "messages": [turn], "n_votes": samples}
        else:
            body |= {"problem": problem, "n": samples}
            if stream:
                body["stream_tokens"] = rng.random() < 0.5
        leaves = rng.uniform(0, 1.5) if rng.random() < HANG_UPS else None
        kind = f"{'chat' if is_chat else 'solve'}, {'streamed' if stream else 'plain'}, n={samples}"
        path = "/v1/chat/completions" if is_chat else "/solve"
        return cls(kind, path, body, alpha, samples, leaves)

    async def put_to(self, client: httpx.AsyncClient) -> bool:
        """Returns whether the request was answered; False if its client left before.

        Raises:
            Lost: the request did not end as expected.
        """
        try:
            async with asyncio.timeout(self.leaves):
                await self._whole(client)
        except TimeoutError:
            if self.leaves is None:
                raise Lost("no answer within the time of the client") from None
            return False
        return True

    async def _whole(self, client: httpx.AsyncClient) -> None:
        name = uuid.uuid4().hex
        headers = {"X-Request-ID": name}
        async with client.stream("POST", self.path, json=self.body, headers=headers) as response:
            if response.status_code != 200:
                raise Lost(f"status {response.status_code}: {(await response.aread())[:300]!r}")
            if response.headers["x-request-id"] != name:
                raise Lost("an answer to another request")
            if self.body["stream"]:
                solution = self._solution_of([event async for event in _events(response)])
            else:
                found = json.loads(await response.aread())
                solution = found.get("rlcm", found)
        self._check(solution)

    def _solution_of(self, events: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The solution at the end of a complete stream."""
        names = [name for name, _ in events]
        if self.path == "/solve":
            if names[0] != "start" or names[-1] != "done" or names.count("done") != 1:
                raise Lost(f"the events are {Counter(names)}, the last is {events[-1]}")
            if names.count("sample") != self.samples:
                raise Lost(f"{names.count('sample')} samples of {self.samples}")
            solution: dict[str, Any] = json.loads(events[-1][1])
            return solution
        data = [text for _, text in events]
        if data[-1] != "[DONE]" or data.count("[DONE]") != 1:
            raise Lost(f"the last chunk is {data[-1]}")
        carried = [chunk["rlcm"] for chunk in map(json.loads, data[:-1]) if chunk.get("rlcm")]
        if len(carried) != 1:
            raise Lost(f"{len(carried)} solutions in one stream")
        only: dict[str, Any] = carried[0]
        return only

    def _check(self, solution: dict[str, Any]) -> None:
        if len(solution["samples"]) != self.samples:
            raise Lost(f"{len(solution['samples'])} samples of {self.samples}")
        guarantee = solution["guarantee"]
        if solution["no_guarantee_code"] == "unfamiliar":
            return  # as three of a thousand questions like the calibration's are
        if guarantee is None:
            raise Lost(f"an answer without a guarantee: {solution['no_guarantee_reason']}")
        if guarantee["alpha_requested"] != self.alpha:
            raise Lost("the answer to another question")


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, str]]:
    name = ""
    async for line in response.aiter_lines():
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, value


def listener_at(url: str) -> psutil.Process:
    """The process that listens at this address."""
    for process in psutil.process_iter():
        try:
            connections = process.net_connections("tcp")
        except psutil.AccessDenied:
            continue
        for one in connections:
            if one.status == psutil.CONN_LISTEN and one.laddr.port == urlsplit(url).port:
                return process
    raise SystemExit(f"nothing of yours listens at {url}: start `make serve`")


def main() -> None:
    """Prints the requests, their outcomes, and the service's resources before and after."""
    parser = study_parser(__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=30, help="seconds of load before that")
    options = parser.parse_args()
    if options.smoke:
        with own_service() as url:
            measure(url, clients=2, seconds=4, warm_up=1)
    else:
        measure(options.url, options.clients, options.seconds, options.warm_up)


@contextmanager
def own_service(*arguments: str) -> Iterator[str]:
    """The address of a new service with these options, which ends with the block."""
    port = free_port()
    rlcm = "from rlcm_serve.cli import main; main()"
    with tempfile.TemporaryDirectory() as state, Path(state, "service.log").open("w") as log:
        command = [sys.executable, "-c", rlcm, "serve", "--port", str(port)]
        command += ["--state", state, "--engine-log", f"{state}/engine.log", *arguments]
        service = subprocess.Popen(command, stderr=log)
        try:
            yield ready(service, f"http://127.0.0.1:{port}", "/readyz", Path(log.name))
        finally:
            service.terminate()
            service.wait()


def ready(server: subprocess.Popen[bytes], url: str, route: str, log: Path) -> str:
    """Waits until the server answers at the route with success; returns its address.

    Raises:
        SystemExit: it has ended; the message has the end of its log.
    """
    while server.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(url + route).is_success:
                return url
        time.sleep(0.2)
    raise SystemExit(f"the server ended with {server.returncode}: {log.read_text()[-4000:]}")


def measure(url: str, clients: int, seconds: float, warm_up: float) -> None:
    """Puts the service under load and prints the results."""
    process = listener_at(url)
    asyncio.run(load(url, clients, warm_up, seed=1))
    before, counted = Footprint.of(process, url), metrics(url)
    tally = asyncio.run(load(url, clients, seconds))
    after, recounted = Footprint.of(process, url), metrics(url)

    print("| requests | answered | left early |\n|---|---|---|")
    for kind in sorted(tally.answered | tally.left):
        print(f"| {kind} | {tally.answered[kind]} | {tally.left[kind]} |")
    print(f"| all | {tally.answered.total()} | {tally.left.total()} |\n")
    print(f"lost: {len(tally.lost)} {tally.lost[:5]}")
    gone = "rlcm_http_clients_gone_total"
    print(f"clients that the service saw leave: {recounted[gone] - counted.get(gone, 0):.0f}")
    waits = sorted(tally.seconds)
    median, slow = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    print(f"answered per second: {len(waits) / seconds:.1f}")
    print(f"seconds until the whole answer: median {median:.2f}, 99th percentile {slow:.2f}\n")
    print("| | before | after |\n|---|---|---|")
    for name, value in asdict(before).items():
        print(f"| {name} | {value:.0f} | {asdict(after)[name]:.0f} |")


if __name__ == "__main__":
    main()
