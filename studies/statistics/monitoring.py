"""Both error rates of the monitors: false alarms, misses of the interval, and labels to an alarm.

    python -m studies.statistics.monitoring [--smoke]

Every cell simulates 2,000 services. False alarms and misses are shares of services, at any time
within the given number of answers. Figures of power are over the services without an alarm before
the change. Results go to studies/results/monitoring.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mapie.exchangeability_testing.bounds import conjugate_mixture_empirical_bernstein_bound

from calibration.files import write_text
from calibration.monitoring.drift_test import DriftTest
from calibration.monitoring.risk_test import risk_at
from calibration.monitoring.starts import Array
from studies.smoke import study_parser
from studies.statistics.drift_worlds import Questions, drift_of_all
from studies.statistics.monitoring_worlds import (
    FixedReference,
    adversary,
    binary,
    changing,
    drift_alarms,
    misses,
    normal,
    run,
    steady,
    two_kinds,
    varying,
)

RUNS = 2000
ALPHA, DELTA = 0.1, 0.1
LEVELS = (0.02, 0.05, 0.2, 0.3)
STATISTICS = 4
CHANGES = ((0.2, 0.0, 0), (0.15, 0.0, 0), (0.2, 0.07, 500))
"""The risk, the risk before, and labels before."""
RESULT = Path(__file__).resolve().parents[1] / "results/monitoring.json"

SHIFTING_SKILL = varying(
    lambda time: ALPHA, share=0.2, skill=lambda time: 2.0 if time % 200 < 100 else -2.0
)
WAVES = varying(lambda time: 0.15 + 0.1 * float(np.sin(time / 50)), share=0.5)
NULLS = {
    "every answer labelled": steady(ALPHA),
    "1 in 5 labelled, the confidence knows": steady(ALPHA, share=0.2, skill=2),
    "1 in 20 labelled, the confidence knows": steady(ALPHA, share=0.05, skill=2),
    "the confidence changes its meaning": SHIFTING_SKILL,
    "a worse kind is audited more": two_kinds(ALPHA),
    "an adversary knows the wealth": adversary(ALPHA, 0.5),
    "half of the wrong answers get no label": steady(ALPHA, share=0.5, missing=0.5),
}
CHANGED_QUESTIONS = {
    "harder by half a deviation": Questions(harder=0.5),
    "less familiar by half a deviation": Questions(unfamiliar=0.5),
    "the same, a quarter longer": Questions(longer=1.25),
}
MOVING = NULLS | {"the risk moves in waves": WAVES}

Row = dict[str, Any]


def risk_false_alarms(runs: int, steps: int) -> Iterator[Row]:
    """Services whose risk, given the past, never exceeds alpha."""
    for name, world in NULLS.items():
        _, alarm_M = run(world, steps, alpha=ALPHA, delta=DELTA, size=runs)
        yield false_alarm_row(name, ALPHA, DELTA, steps, alarm_M)
    for alpha in LEVELS:
        _, alarm_M = run(steady(alpha), steps, alpha=alpha, delta=DELTA, size=runs)
        yield false_alarm_row("every answer labelled", alpha, DELTA, steps, alarm_M)
    for delta in (0.01, 0.2):
        _, alarm_M = run(steady(ALPHA), steps, alpha=ALPHA, delta=delta, size=runs)
        yield false_alarm_row("every answer labelled", ALPHA, delta, steps, alarm_M)
    long = 5 * steps
    _, alarm_M = run(steady(ALPHA), long, alpha=ALPHA, delta=DELTA, size=runs)
    yield false_alarm_row("every answer labelled", ALPHA, DELTA, long, alarm_M)


def false_alarm_row(world: str, alpha: float, delta: float, steps: int, alarm_M: Array) -> Row:
    """One cell: the share of services that ever alarmed."""
    return {
        "part": "risk, false alarms",
        "world": world,
        "alpha": alpha,
        "delta": delta,
        "answers": steps,
        "alarmed": float(np.isfinite(alarm_M).mean()),
    }


def completion_order(runs: int, steps: int) -> Iterator[Row]:
    """Answers in the order in which they end, instead of that in which they were asked.

    Questions that run at once end in the order of their difficulty: within a burst the risk rises
    from 0 to twice alpha. Over all answers it is alpha.
    """
    for burst in (16, 64, 256, 1000):
        world = varying(lambda time, n=burst: 2 * ALPHA * ((time % n) + 0.5) / n)  # type: ignore[misc]
        _, alarm_M = run(world, steps, alpha=ALPHA, delta=DELTA, size=runs)
        row = false_alarm_row(f"bursts of {burst}", ALPHA, DELTA, steps, alarm_M)
        yield row | {"part": "risk, in order of completion"}


def interval_misses(runs: int, steps: int) -> Iterator[Row]:
    """How often the confidence sequence ever misses, and how wide it is at the end."""
    for name, world in MOVING.items():
        missed, width = misses(world, steps, alpha=ALPHA, delta=DELTA, size=runs)
        row = {"part": "interval, misses", "world": name, "delta": DELTA, "answers": steps}
        yield row | {"missed": missed, "width": width}


def risk_power(runs: int, steps: int) -> Iterator[Row]:
    """Labels until the alarm; with late changes, labels after the change."""
    for share, skill in ((1.0, 0.0), (0.2, 0.0), (0.2, 3.0), (0.05, 0.0), (0.05, 3.0)):
        for risk, before, at in CHANGES:
            good = steady(before, share=share, skill=skill)
            world = changing(round(at / share), good, steady(risk, share=share, skill=skill))
            answers = round((at + steps // 5) / share)
            _, alarm_M = run(world, answers, alpha=ALPHA, delta=DELTA, size=runs)
            row = {"share": share, "skill": skill, "risk": risk, "good_labels": at}
            yield power_row(ALPHA, DELTA, alarm_M * share, at) | row
    late = changing(10 * steps // 3, steady(0.07), steady(0.2))
    _, alarm_M = run(late, 4 * steps, alpha=ALPHA, delta=DELTA, size=runs)
    row = {"share": 1.0, "skill": 0.0, "risk": 0.2, "good_labels": 10 * steps // 3}
    yield power_row(ALPHA, DELTA, alarm_M, 10 * steps // 3) | row
    for alpha in (*LEVELS, ALPHA):
        for delta in (0.01, DELTA, 0.2):
            risk = risk_at(2.25, alpha)
            kl = risk * np.log(risk / alpha) + (1 - risk) * np.log((1 - risk) / (1 - alpha))
            fewest = float(np.log(1 / delta) / kl)
            _, alarm_M = run(steady(risk), round(3 * fewest), alpha=alpha, delta=delta, size=runs)
            row = {"share": 1.0, "skill": 0.0, "risk": risk, "good_labels": 0, "fewest": fewest}
            yield power_row(alpha, delta, alarm_M, 0) | row


def power_row(alpha: float, delta: float, label_M: Array, at: float) -> Row:
    """One cell: labels from the change to the alarm."""
    after_M = label_M[label_M > at] - at
    return {
        "part": "risk, power",
        "alpha": alpha,
        "delta": delta,
        "median_labels": finite(np.quantile(after_M, 0.5, method="lower")),
        "labels_for_90_percent": finite(np.quantile(after_M, 0.9, method="lower")),
        "alarmed_before": float((label_M <= at).mean()),
    }


def finite(value: np.floating[Any]) -> float | None:
    """None where fewer services alarmed within the simulated answers."""
    return float(value) if np.isfinite(value) else None


def risk_power_of_mapie(runs: int, steps: int) -> Iterator[Row]:
    """The same changes under the bound of MAPIE's `RiskMonitoring`, with the threshold alpha.

    Its default spends half of the level on the threshold, which is known here; all of it goes to
    the bound. It has no audit draw: every answer is labelled.
    """
    for risk, before, at in CHANGES:
        rng, label_M = np.random.default_rng(0), np.full(min(runs, 100), np.inf)
        for number in range(len(label_M)):
            risks = np.where(np.arange(at + steps // 3) < at, before, risk)
            losses = (rng.random(len(risks)) < risks).astype(float)
            bounds = conjugate_mixture_empirical_bernstein_bound(
                losses, v_opt=1, alpha=DELTA, bound_side="lower"
            )
            above = np.flatnonzero(np.asarray(bounds) > ALPHA)
            label_M[number] = above[0] + 1 if len(above) else np.inf
        row = power_row(ALPHA, DELTA, label_M, at) | {"risk": risk, "good_labels": at}
        yield row | {"part": "MAPIE's RiskMonitoring, power", "runs": len(label_M)}


def drift(runs: int, steps: int) -> Iterator[Row]:
    """Conformal martingales of one statistic, at its share of delta: both error rates."""
    steps = 2 * steps // 3
    share = DELTA / STATISTICS
    kinds = {"normal": normal(), "1 in 10 declined": binary(0.1)}
    for reference in (100, 300, 1000):
        for name, values in kinds.items():
            for test in (DriftTest, FixedReference):
                alarm_M = drift_alarms(
                    values, values, reference=reference, at=0, steps=steps, delta=share, size=runs,
                    kind=test,
                )  # fmt: skip
                yield {
                    "part": "drift, false alarms", "world": name, "reference": reference,
                    "broken": test is FixedReference, "delta": share, "readings": steps,
                    "alarmed": float(np.isfinite(alarm_M).mean()),
                }  # fmt: skip
    changes = {
        "shift of 0.3 deviations": (normal(), normal(0.3)),
        "shift of 0.5 deviations": (normal(), normal(0.5)),
        "shift of 1 deviation": (normal(), normal(1.0)),
        "deviation times 1.5": (normal(), normal(0.0, 1.5)),
        "declined 10% to 20%": (binary(0.1), binary(0.2)),
    }
    for (name, (before, after)), at in ((c, at) for c in changes.items() for at in (0, 500)):
        for reference in (300, 1000):
            alarm_M = drift_alarms(
                before, after, reference=reference, at=at, steps=at + steps // 2, delta=share,
                size=runs,
            )  # fmt: skip
            after_M = alarm_M[alarm_M > at] - at
            yield {
                "part": "drift, power", "world": name, "reference": reference, "good_readings": at,
                "delta": share, "within": steps // 2,
                "median_readings": finite(np.quantile(after_M, 0.5, method="lower")),
                "found": float(np.isfinite(after_M).mean()),
            }  # fmt: skip


def all_statistics(runs: int, steps: int) -> Iterator[Row]:
    """A level's whole drift monitor: four statistics of the same questions share delta."""
    steps, same = 2 * steps // 3, Questions()
    for problems in (100, 300, 1000):
        for is_pooled in (False, True):
            found = drift_of_all(
                same, same, problems=problems, steps=steps, delta=DELTA, size=runs,
                is_pooled=is_pooled,
            )  # fmt: skip
            yield {
                "part": "all statistics, false alarms", "problems": problems, "delta": DELTA,
                "broken": is_pooled, "readings": steps,
                "alarmed": float(np.isfinite(found.alarm_M).mean()),
            }  # fmt: skip
    for name, changed in CHANGED_QUESTIONS.items():
        for problems in (300, 1000):
            found = drift_of_all(
                same, changed, problems=problems, steps=steps // 2, delta=DELTA, size=runs
            )
            yield {
                "part": "all statistics, power", "world": name, "problems": problems,
                "delta": DELTA, "within": steps // 2,
                "median_readings": finite(np.quantile(found.alarm_M, 0.5, method="lower")),
                "found": float(np.isfinite(found.alarm_M).mean()),
                "named": {
                    name: float(np.isfinite(alarm_M).mean())
                    for name, alarm_M in found.by_statistic.items()
                },
            }  # fmt: skip


PARTS = {
    "power": risk_power,
    "mapie": risk_power_of_mapie,
    "false-alarms": risk_false_alarms,
    "completion": completion_order,
    "interval": interval_misses,
    "drift": drift,
    "all-statistics": all_statistics,
}


def main() -> None:
    """Write and print every cell; with `--only`, those of one part."""
    parser = study_parser(__doc__)
    parser.add_argument("--only", choices=PARTS, help="Simulate one part; keep the others' rows.")
    arguments = parser.parse_args()
    runs, steps = (20, 60) if arguments.smoke else (RUNS, 3000)
    done: dict[str, list[Row]] = {}
    if arguments.only:
        done = json.loads(RESULT.read_text("utf-8"))["parts"]
    for name in [arguments.only] if arguments.only else PARTS:
        done[name] = []
        for row in PARTS[name](runs, steps):
            done[name].append(row)
            print(json.dumps(row), flush=True)
        if not arguments.smoke:
            ordered = {part: done[part] for part in PARTS if part in done}
            write_text(RESULT, json.dumps({"runs": RUNS, "parts": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
