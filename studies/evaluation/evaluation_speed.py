"""Time and memory of scoring recorded rollouts, with all metrics and intervals.

    python -m studies.evaluation.evaluation_speed [--smoke]

The rollouts are synthetic and calibrated, 32 for each problem, with up to 8 different answers to a
problem; making them is not timed. All metrics and the votes of n = 1 .. 32 rollouts have intervals
of 1,000 resamples. Confidences are tied only in settings with 100 distinct values.

Every setting runs in its own process, so that peak memory is measured per setting. Prints Markdown:
wall seconds for metrics, for votes and for both, CPU seconds of all threads, and the process's peak
resident memory, including rollouts and interpreter. Timings are medians of RUNS runs; for `both`,
the slowest run is also given.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.resampling import RESAMPLES, THREADS
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.vote_curves import vote_curves
from calibration.policy.voting import NO_ANSWER
from studies.smoke import study_parser

ROLLOUTS = 32
ANSWERS = 8
RUNS = 3
SETTINGS = (
    # problems, distinct confidences (0: all differ), groups of problems (0: no groups)
    (31_250, 0, 0),
    (31_250, 100, 0),
    (31_250, 0, 1_000),
    (3_125, 0, 0),
    (30, 0, 0),
)


def main() -> None:
    """Prints a table of all settings, or measures one."""
    parser = study_parser(__doc__)
    parser.add_argument("--one", nargs=3, type=int, metavar=("PROBLEMS", "CONFIDENCES", "GROUPS"))
    parser.add_argument(
        "--most", type=int, default=SETTINGS[0][0], help="largest number of problems"
    )
    options = parser.parse_args()
    if options.one:
        print(measure(*options.one))
        return
    print(f"{RESAMPLES} resamples, {THREADS} threads, {os.cpu_count()} cores\n")
    print("| rollouts | confidences | groups | metrics, s | votes, s | both, s | CPU, s | GB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    most = SETTINGS[-1][0] if options.smoke else options.most
    for setting in SETTINGS:
        if setting[0] <= most:
            module = ["-m", "studies.evaluation.evaluation_speed"]
            subprocess.run([sys.executable, *module, "--one", *map(str, setting)], check=True)


def measure(n_problems: int, n_confidences: int, n_groups: int) -> str:
    """One row of the table."""
    made = synthetic_rollouts(n_problems, n_confidences, n_groups)
    metrics, votes, processor = [], [], []
    for _ in range(RUNS):
        began, began_processor = time.perf_counter(), time.process_time()
        scored = replace(made)  # its checks are timed too
        estimate_metrics(scored)
        between = time.perf_counter()
        vote_curves(scored, range(1, ROLLOUTS + 1))
        metrics.append(between - began)
        votes.append(time.perf_counter() - between)
        processor.append(time.process_time() - began_processor)
    both = [first + second for first, second in zip(metrics, votes, strict=True)]
    seconds = [f"{statistics.median(each):.1f}" for each in (metrics, votes, both, processor)]
    seconds[2] += f" (at most {max(both):.1f})"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    names = (f"{n_problems * ROLLOUTS:,}", n_confidences or "all", n_groups or "none")
    return f"| {' | '.join(map(str, (*names, *seconds, f'{peak:.1f}')))} |"


def synthetic_rollouts(
    n_problems: int, n_confidences: int, n_groups: int, seed: int = 0
) -> ScoredRollouts:
    """Rollouts in random order."""
    rng = np.random.default_rng(seed)
    problem_R = rng.permutation(np.repeat(np.arange(n_problems), ROLLOUTS))
    logit_R = rng.normal(0, 1.5, n_problems)[problem_R] + rng.normal(0, 0.7, problem_R.size)
    confidence_R = 1 / (1 + np.exp(-logit_R))
    if n_confidences:
        confidence_R = np.rint(confidence_R * (n_confidences - 1)) / (n_confidences - 1)
    correct_R = rng.random(problem_R.size) < confidence_R
    wrong_R = rng.integers(1, ANSWERS, problem_R.size)
    wrong_R[rng.random(problem_R.size) < 0.05] = NO_ANSWER
    unit_P = np.arange(n_problems) % n_groups if n_groups else None
    answer_R = np.where(correct_R, 0, wrong_R)
    return ScoredRollouts(problem_R, correct_R, confidence_R, answer_R, unit_P)


if __name__ == "__main__":
    main()
