"""Time and memory of a calibration, from recorded traces to p-values.

    python -m studies.statistics.calibration_speed [--smoke]

Every setting runs in its own process, so that peak memory is measured per setting. The traces are
synthetic and made in memory; making them is not timed. Prints Markdown: wall seconds for the
replay, for the p-values at one level and for both; CPU seconds of all threads, which estimate the
time on an idle machine; and the process's peak resident memory, including traces and interpreter.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import time

import numpy as np

from calibration import ExitPolicy, Traces
from calibration.simulation.replay import replay
from calibration.simulation.risks import risk_named
from calibration.testing.p_values import PValue, p_values
from studies.smoke import study_parser

ROLLOUTS = 8
CHECKPOINTS = 64
INTERVAL = 32
ALPHA = 0.1
SETTINGS = (
    # problems, policies, risk
    (10_000, 4_096, "selective"),
    (10_000, 4_096, "regret"),
    (5_000, 4_096, "selective"),
    (10_000, 2_048, "selective"),
)
SMOKE_SETTINGS = ((100, 16, "selective"), (100, 16, "regret"))


def main() -> None:
    """Prints a table of all settings, or measures one."""
    parser = study_parser(__doc__)
    parser.add_argument("--one", nargs=3, metavar=("PROBLEMS", "POLICIES", "RISK"))
    options = parser.parse_args()
    if options.one:
        problems, policies, risk = options.one
        print(measure(int(problems), int(policies), risk))
        return
    print(f"{ROLLOUTS} rollouts of {CHECKPOINTS} checkpoints, {os.cpu_count()} cores\n")
    print("| problems | policies | risk | replay, s | p-values, s | both, s | processor, s | GB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for setting in SMOKE_SETTINGS if options.smoke else SETTINGS:
        module = ["-m", "studies.statistics.calibration_speed"]
        subprocess.run([sys.executable, *module, "--one", *map(str, setting)], check=True)


def measure(n_problems: int, n_policies: int, risk: str) -> str:
    """One row of the table."""
    traces = synthetic_traces(n_problems)
    policies = grid(n_policies, abstains=risk == "selective")
    start, processor = time.perf_counter(), time.process_time()
    losses = replay(traces, policies, risk_named(risk)).losses
    replayed = time.perf_counter()
    p_values(losses, ALPHA, PValue.BETTING)
    tested = time.perf_counter()
    processor = time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"| {n_problems} | {n_policies} | {risk} | {replayed - start:.1f} | "
        f"{tested - replayed:.1f} | {tested - start:.1f} | {processor:.1f} | {peak:.1f} |"
    )


def synthetic_traces(n_problems: int, seed: int = 0) -> Traces:
    """Confidence is a random walk in the logit, and calibrated: it is the chance to be right."""
    rng = np.random.default_rng(seed)
    shape = (n_problems * ROLLOUTS, CHECKPOINTS + 1)
    steps_RC = rng.normal(0, 0.3, shape)
    steps_RC[:, 0] += np.repeat(rng.normal(0, 1, n_problems), ROLLOUTS)
    confidence_RC = 1 / (1 + np.exp(-steps_RC.cumsum(axis=1)))
    correct_RC = rng.random(shape) < confidence_RC
    final_R = rng.integers(CHECKPOINTS // 2, CHECKPOINTS + 1, shape[0])
    columns = np.arange(CHECKPOINTS + 1)
    tokens_RC = np.where(
        columns < final_R[:, None], INTERVAL * (columns + 1), INTERVAL * final_R[:, None] + 1
    )
    return Traces(
        fingerprint=None,
        problem_ids=tuple(f"p{i:06d}" for i in range(n_problems)),
        groups=(None,) * n_problems,
        problem_R=np.repeat(np.arange(n_problems), ROLLOUTS),
        rollout_R=np.tile(np.arange(ROLLOUTS), n_problems),
        natural_R=final_R < CHECKPOINTS,
        final_R=final_R,
        tokens_RC=tokens_RC,
        confidence_RC=confidence_RC,
        answer_class_RC=np.where(correct_RC, 0, 1),
        answer_tokens_RC=np.full(shape, 8),
        correct_RC=correct_RC,
    )


def grid(n_policies: int, abstains: bool) -> list[ExitPolicy]:
    """The first `n_policies` of 4,096 over λ1, patience, λ2, and λa (or the form of λ1)."""
    answers = np.linspace(0, 0.7, 8)
    policies = []
    for low, patience, high, k in itertools.product(
        np.linspace(0.02, 0.3, 8), (32, 64, 128, 256), np.linspace(0.7, 0.99, 16), range(8)
    ):
        form = (
            {"lambda_answer": float(answers[k])}
            if abstains
            else {"low_rise": 0.02, "low_slope": 0.01, "low_shift": 128.0 * (k + 1)}
        )
        policies.append(
            ExitPolicy(
                lambda_low=float(low),
                patience=patience,
                lambda_high=float(high),
                answer_on_low=not abstains,
                **form,
            )
        )
    return policies[:n_policies]


if __name__ == "__main__":
    main()
