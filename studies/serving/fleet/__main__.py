"""From 1 to 100 replicas: the questions they answer, how long these wait, what gives out first.

    python -m studies.serving.fleet --measure --database postgresql://...   # ten minutes
    python -m studies.serving.fleet                                         # a minute

The first command measures an engine's steps, the store, and what one service asks of it, into
studies/results/fleet.json. The second simulates replicas with these figures, for questions drawn
from the recorded rollouts of the embedded model under its certificates, and prints the tables.
`--step-ms A B` prints what comes out with steps of A + B x samples milliseconds instead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from calibration import Certificate, Traces, read_traces
from calibration.files import write_text
from rlcm_serve.admission.rates import PAUSE
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from studies.serving.fleet.measure import engine_steps, service_use, store_speed
from studies.serving.fleet.simulation import Fleet, Router, StepSeconds, simulate_fleet
from studies.serving.fleet.work import Work, at_full_budget, under_certificate
from studies.smoke import study_parser

RESULT = Path(__file__).parents[2] / "results" / "fleet.json"
TRACES = Path(__file__).parents[2] / "traces" / "embedded-test.parquet"
REPLICAS = (1, 3, 10, 30, 100)
SAMPLES = (1, 4, 8)
ALPHA = 0.1
MAX_RUNNING = 64
LOAD = 0.8
"""Share of what the replicas can do at most."""
PER_REPLICA = 2_000
"""Questions that are simulated for each replica."""
HTTP_CPU_S = 0.002
"""What HTTP adds to a question: docs/studies/service.md."""


SETTLED_PER_S = 1 / PAUSE
"""Transactions of a replica at most, where keys have limits per minute."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a replica: seconds of a step; CPU seconds of its front end; transactions of the store.

    `store_per_s` is what the store takes of all replicas together.
    """

    step_seconds: StepSeconds
    cpu_s_per_token: float
    store_per_s: float
    idle_per_s: float
    per_question: float


def costs(measured: dict[str, Any], step_ms: Sequence[float] | None) -> Costs:
    """The measured ones, but for steps that are given."""
    steps, store, service = measured["steps"], measured["store"], measured["service"]
    if step_ms is None:
        running = [row["running"] for row in steps]
        seconds = [row["step_ms"] / 1000 for row in steps]
        step_seconds: StepSeconds = partial(_between, running, seconds)
    else:
        fixed, each = (one / 1000 for one in step_ms)
        step_seconds = partial(_line, fixed, each)
    return Costs(
        step_seconds,
        cpu_s_per_token=steps[-1]["front_end_cpu_ms_per_token"] / 1000,
        # One write to each read; services read more.
        store_per_s=2 / (1 / store["reads_per_s"] + 1 / store["writes_per_s"]),
        idle_per_s=service["idle_transactions_per_s"],
        per_question=service["transactions_per_question"],
    )


def _between(running: list[float], seconds: list[float], samples: int) -> float:
    """Between measured numbers of samples along lines; beyond the last, in proportion."""
    for (low, first), (high, last) in pairwise(zip(running, seconds, strict=True)):
        if samples <= high:
            return first + (last - first) * max(samples - low, 0) / (high - low)
    return seconds[-1] * samples / running[-1]


def _line(fixed: float, each: float, samples: int) -> float:
    return fixed + each * samples


def most_questions(work: Work, step_seconds: StepSeconds) -> float:
    """Questions a second that one replica answers at most, with all its places taken."""
    fleet = Fleet(1, MAX_RUNNING, step_seconds, Router.IN_TURN, rate=1e9)
    found = simulate_fleet(fleet, work, PER_REPLICA, np.random.default_rng(1))
    ended_Q = np.sort(found.seconds_Q)
    # Places fill in the first tenth, and empty in the last.
    first, last = len(ended_Q) // 10, len(ended_Q) * 9 // 10
    return float((last - first) / (ended_Q[last] - ended_Q[first]))


def waits(fleet: Fleet, work: Work, questions: int) -> dict[str, float]:
    """Seconds of a question at `LOAD`, without the first fifth, who found the replicas empty."""
    found = simulate_fleet(fleet, work, questions, np.random.default_rng(2))
    seconds_Q, queued_Q = found.seconds_Q[questions // 5 :], found.queued_Q[questions // 5 :]
    return {
        "median_s": round(float(np.median(seconds_Q)), 3),
        "p99_s": round(float(np.quantile(seconds_Q, 0.99)), 3),
        "queued_p99_s": round(float(np.quantile(queued_Q, 0.99)), 3),
    }


def shares(rate: float, replicas: int, work: Work, own: Costs) -> dict[str, float]:
    """What share of the front ends and of the store so many questions a second take."""
    front_end = HTTP_CPU_S + own.cpu_s_per_token * work.mean_tokens
    store = replicas * own.idle_per_s + rate * own.per_question
    return {
        "front_end": round(rate / replicas * front_end, 3),
        "store": round(store / own.store_per_s, 3),
        "store_per_s": round(store, 1),
    }


def simulate_all(own: Costs, *, smoke: bool) -> dict[str, Any]:
    """Every table, by the number of samples."""
    traces = read_traces(TRACES)
    return {
        str(samples): _simulated(samples, traces, own, smoke=smoke)
        for samples in (SAMPLES[:1] if smoke else SAMPLES)
    }


def _simulated(samples: int, traces: Traces, own: Costs, *, smoke: bool) -> dict[str, Any]:
    file = EMBEDDED_MODEL / CERTIFICATE_FOLDER / f"selective-{samples}.json"
    work = under_certificate(traces, Certificate.load(file), ALPHA)
    full = at_full_budget(traces, samples)
    most, most_full = (most_questions(one, own.step_seconds) for one in (work, full))
    rows: list[dict[str, Any]] = []
    each = own.idle_per_s + most * own.per_question
    for replicas in REPLICAS[:2] if smoke else REPLICAS:
        row: dict[str, Any] = {"replicas": replicas, "questions_per_s": round(replicas * most, 1)}
        for router in Router:
            fleet = Fleet(replicas, MAX_RUNNING, own.step_seconds, router, LOAD * replicas * most)
            questions = 100 if smoke else PER_REPLICA * replicas
            row[router.name.lower()] = waits(fleet, work, questions)
        rows.append(row | shares(replicas * most, replicas, work, own))
    return {
        "tokens_per_question": round(work.mean_tokens, 1),
        "tokens_at_full_budget": round(full.mean_tokens, 1),
        "declined": round(float(work.declined_Q.mean()), 3),
        "questions_per_s_at_full_budget": round(most_full, 2),
        "replicas_that_fill_the_store": int(own.store_per_s / each),
        "with_limits_per_minute": int(own.store_per_s / (each + SETTLED_PER_S)),
        "rows": rows,
    }


def main() -> None:
    """Measures or simulates, and prints."""
    parser = study_parser(__doc__)
    parser.add_argument("--measure", action="store_true", help="measure first")
    parser.add_argument("--database", help="of an empty PostgreSQL, for --measure")
    parser.add_argument("--step-ms", type=float, nargs=2, help="milliseconds: fixed, each sample")
    options = parser.parse_args()
    stored = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if options.measure:
        if not options.database:
            parser.error("--measure needs --database, the URL of an empty PostgreSQL")
        stored["measured"] = {
            "steps": asyncio.run(engine_steps(seconds=8, rounds=3)),
            "store": store_speed(options.database, seconds=15),
            "service": service_use(options.database, seconds=30, questions=100),
        }
        write_text(RESULT, json.dumps(stored, indent=1) + "\n")
    own = costs(stored["measured"], options.step_ms)
    found = simulate_all(own, smoke=options.smoke)
    if options.step_ms is None and not options.smoke:
        write_text(RESULT, json.dumps(stored | {"simulated": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
