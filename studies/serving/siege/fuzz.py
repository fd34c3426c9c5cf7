"""Fuzzed requests over every route: no fault of the service, none without a status, none late."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from studies.serving.siege.results import Results
from studies.serving.siege.service import Siege, besieged
from studies.serving.siege.shots import BROKEN, FOR_ADMIN, PROBLEM, Shooter, Shot
from studies.serving.siege.wire import Answer, NoStatus, Wire

ARGUMENTS = (
    *("--max-thinking-tokens", "32", "--max-n", "4"),
    *("--timeout-s", "15", "--fit-timeout-s", "60", "--job-concurrency", "1"),
    *("--max-upload-bytes", "4MiB", "--hang-s", "120"),
    *("--audit-share", "1", "--shadow-share", "1"),
)
LIMIT = 60.0
"""Seconds within which each response must have ended; a question may take 15, a vote 20."""
AT_A_TIME, BLOCK = 16, 2000
ALLOWED = (503, 504)
FOR_METRICS = frozenset(
    {
        *("GET /answers", "GET /monitoring", "GET /overview"),
        *("GET /rehearsals", "GET /certificates/{id}/rehearsal"),
    }
)
FOR_LABEL = frozenset({"POST /feedback", "GET /audit"})
OF_SCOPE = {"metrics": FOR_METRICS, "label": FOR_LABEL}
"""All routes that keys with this scope alone may use."""
CLIENT_LEFT = "left"


@dataclass
class Tally:
    """Outcomes so far. `requests` is also the number of the next request."""

    requests: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    routes: dict[str, Counter[str]] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    faults: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Tally:
        """The outcomes of an interrupted run."""
        tally = cls(**stored)
        tally.routes = {route: Counter(found) for route, found in tally.routes.items()}
        tally.refusals = Counter(tally.refusals)
        return tally

    def add(self, shot: Shot, outcome: str, answer: Answer | None) -> None:
        """Counts one request."""
        self.routes.setdefault(shot.route, Counter())[outcome] += 1
        if answer is not None:
            self.slowest = max(self.slowest, answer.seconds)
            if answer.status >= 500:
                self.refusals[f"{answer.status} {answer.type}"] += 1


def run(results: Results, requests: int, seed: int) -> bool:
    """Sends the requests and stores the counts after each block; returns whether all was well.

    It continues where an earlier run with the same seed ended.
    """
    stored = results.load("fuzz")
    same = stored is not None and stored.pop("seed") == seed and stored["requests"] < requests
    tally = Tally.of(stored) if same and stored else Tally()
    with besieged(*ARGUMENTS) as siege:
        while tally.requests < requests:
            numbers = range(tally.requests, min(tally.requests + BLOCK, requests))
            began = time.monotonic()
            asyncio.run(fire(siege, seed, numbers, tally))
            tally.seconds += time.monotonic() - began
            tally.requests = numbers.stop
            results.save("fuzz", {"seed": seed, **vars(tally)})
            rate = tally.requests / tally.seconds
            sys.stderr.write(
                f"{tally.requests} requests, {rate:.0f}/s, {len(tally.faults)} faults\n"
            )
        tally.faults += [{"log": line[-2000:]} for line in siege.errors()[:20]]
    results.save("fuzz", {"seed": seed, **vars(tally)})
    results.show(table(tally))
    return not tally.faults


def replay(seed: int, number: int) -> None:
    """Prints one request and its response."""
    with besieged(*ARGUMENTS) as siege:
        shot = _shooter(siege).shot(seed, number)
        sys.stdout.write(f"{shot.encode(_hidden(siege))[:4000]!r}\n")
        outcome, answer = asyncio.run(_send(Wire(siege.port), shot, siege.keys))
        sys.stdout.write(f"{outcome} {answer and answer.body[:4000]!r}\n")
        sys.stdout.write("\n".join(siege.errors()))


async def fire(
    siege: Siege,
    seed: int,
    numbers: range,
    tally: Tally,
    *,
    at_a_time: int = AT_A_TIME,
    pause: float = 0.0,
    without: frozenset[str] = frozenset(),
) -> None:
    """Sends the requests of these numbers.

    Args:
        siege: the service.
        seed: of the requests.
        numbers: of the requests.
        tally: counts them.
        at_a_time: connections.
        pause: seconds before each request of a connection.
        without: routes that are left alone.
    """
    shooter, left = await asyncio.to_thread(_shooter, siege), iter(numbers)

    async def work() -> None:
        wire = Wire(siege.port)
        for number in left:
            await asyncio.sleep(pause)
            shot = shooter.shot(seed, number)
            if shot.route in without:
                continue
            outcome, answer = await _send(wire, shot, siege.keys)
            tally.add(shot, outcome, answer)
            if fault := _fault(shooter, shot, outcome, answer):
                said = answer.body[:300].decode("utf-8", "replace") if answer else ""
                request = repr(shot.encode(_hidden(siege))[:600])
                tally.faults.append(
                    {"number": number, "fault": fault, "request": request, "said": said}
                )
                sys.stderr.write(f"{tally.faults[-1]}\n")
        wire.hang_up()

    await asyncio.gather(*(work() for _ in range(at_a_time)))


async def _send(wire: Wire, shot: Shot, keys: dict[str, str]) -> tuple[str, Answer | None]:
    """The outcome, such as `2xx`, `late`, `lost` or `left`, and the response if there is one."""
    is_endless = shot.route.endswith("/events")  # it lasts as long as the job
    head = is_endless or shot.method == "HEAD"
    try:
        answer = await wire.ask(shot.encode(keys), LIMIT, head=head, last=shot.may_be_dropped)
    except TimeoutError:
        wire.hang_up()
        return "late", None
    except (NoStatus, OSError):
        wire.hang_up()
        return CLIENT_LEFT if shot.may_be_dropped else "lost", None
    if shot.ends_connection or is_endless:
        wire.hang_up()
    return f"{answer.status // 100}xx", answer


def _fault(shooter: Shooter, shot: Shot, outcome: str, answer: Answer | None) -> str | None:
    """What is wrong with the outcome; None if nothing is."""
    if answer is None:
        return None if outcome == CLIENT_LEFT else outcome
    if answer.status >= 500 and answer.status not in ALLOWED:
        return f"status {answer.status}"
    granted = answer.status < 400
    if granted and shot.role in BROKEN and shot.route in shooter.keyed:
        return f"granted to a key that is {shot.role}"
    if granted and shot.role != "admin" and shot.route in FOR_ADMIN:
        return f"granted to the role {shot.role}"
    if granted and shot.route in shooter.keyed - OF_SCOPE.get(shot.role, shooter.keyed):
        return f"granted to the role {shot.role}"
    return None


def _shooter(siege: Siege) -> Shooter:
    """Requests that know the ids of a new job, of answers, and of certificates, one rehearsed."""
    with httpx.Client(base_url=siege.url, headers=siege.bearer("admin"), timeout=60) as client:
        for job in client.get("/calibrations").json()["calibrations"]:
            for _ in range(2):  # cancels, then deletes
                client.delete(f"/calibrations/{job['id']}")
        rows = "".join(f'{{"problem": "1 + {at} = ?", "answer": "{1 + at}"}}\n' for at in range(12))
        kind = {"Content-Type": "application/x-ndjson"}
        started = client.post("/calibrations?alphas=0.5", content=rows, headers=kind).json()
        listed = client.get("/certificates").json()["certificates"]
        ids = {"calibrations": [started["id"]], "certificates": [one["id"] for one in listed]}
        _rehearse(client, listed[0])
        asked = {"problem": PROBLEM, "alpha": 0.1, "max_tokens": 8}
        ids["answers"] = [client.post("/solve", json=asked).json()["id"] for _ in range(3)]
        ids["v1"] = ["embedded"]
        return Shooter(client.get("/openapi.json").json(), ids)


def _rehearse(client: httpx.Client, certificate: dict[str, Any]) -> None:
    """Leaves a rehearsal of the certificate, which stays active if it was."""
    path, was_active = f"/certificates/{certificate['id']}", certificate["active"]
    steps = ["deactivate", "rehearsal", "activate"] if was_active else ["rehearsal"]
    for step in steps:
        client.post(f"{path}/{step}").raise_for_status()


def _hidden(siege: Siege) -> dict[str, str]:
    return {role: f"KEY-OF-{role}" for role in siege.keys}


def table(tally: Tally) -> Iterator[str]:
    """The lines of a Markdown table: a row per route."""
    kinds = sorted({kind for found in tally.routes.values() for kind in found})
    yield f"| route | requests | {' | '.join(kinds)} |"
    yield "|---" * (len(kinds) + 2) + "|"
    for route, found in sorted(tally.routes.items()):
        cells = " | ".join(str(found[kind]) for kind in kinds)
        yield f"| `{route}` | {found.total()} | {cells} |"
    total = sum(tally.routes.values(), Counter[str]())
    cells = " | ".join(str(total[kind]) for kind in kinds)
    yield f"| all | {total.total()} | {cells} |"
    yield ""
    yield f"{len(tally.faults)} faults; slowest response {tally.slowest:.1f} s; "
    yield f"{tally.requests / tally.seconds:.0f} requests/s; 5xx: {dict(tally.refusals)}"
