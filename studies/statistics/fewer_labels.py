"""What saves labels: those that no loss depends on, and prediction-powered tests.

    python -m studies.statistics.fewer_labels [TRACES ...] [--smoke]

First, the share of problems that need a label (`calibration.simulation.labels`), for the default
policies and for those with λ2 at or above a threshold, which is how far a chain comes down.

Then, sequential tests of one policy each: with a label of every problem; with labels of a quarter,
drawn evenly, where predicted losses stand for the others (PPI, arXiv 2301.09633); and where
doubtful problems are drawn more often, none with less than four fifths of a quarter (active
inference, arXiv 2403.03208). The test and the predictions are those of the package
(`calibration.testing.anytime`, `calibration.simulation.predictions`).

Printed are the labels after which a level is certified at .033, in half and in 9 of 10 of 100
samples from the traces; inf for more than there are among 12,000 problems.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from calibration import Traces, read_traces
from calibration.policy.exit_rule import NEVER
from calibration.simulation.label_share import LabelShare
from calibration.simulation.labels import labels_needed
from calibration.simulation.losses import DrawnLabels, Losses
from calibration.simulation.predictions import predicted_losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import RISKS, Risk
from calibration.testing.anytime import units_until
from calibration.testing.families import full_budget
from calibration.testing.methods import Method, family_for
from calibration.testing.until import labels_among
from studies.smoke import study_parser

TRACES = ("embedded-test.parquet", "embedded-sft-calibration.parquet")
"""The second holds readings of a former probe of its model."""
FOLDER = Path(__file__).parents[1] / "traces"
HIGHS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, NEVER)
REACHED = (0.05, 0.5, 0.9)
ALPHAS = (0.05, 0.1, 0.2)
LEVEL = 0.1 / 3
MOST, REPEATS = 12_000, 100
SHARE, LEAST = 0.25, 0.2


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("traces", nargs="*", type=Path)
    options = parser.parse_args()
    for file in options.traces or [FOLDER / name for name in TRACES]:
        traces = first_rollouts(read_traces(file))
        if options.smoke:
            traces = traces.select(np.arange(traces.n_problems) < 60)
        print_needed(file.stem, traces)
        for risk in RISKS.values():
            print_tests(file.stem, traces, risk, 40 if options.smoke else MOST)
        if options.smoke:
            return


def first_rollouts(traces: Traces) -> Traces:
    """One rollout of each problem."""
    first_P = np.searchsorted(traces.problem_R, np.arange(traces.n_problems))
    names = [field.name for field in fields(Traces) if field.name.endswith(("_R", "_RC"))]
    columns: dict[str, Any] = {name: getattr(traces, name) for name in names}
    first: dict[str, Any] = {name: None if c is None else c[first_P] for name, c in columns.items()}
    return replace(traces, **first)


def print_needed(name: str, traces: Traces) -> None:
    for risk in (RISKS["selective"], RISKS["regret"]):
        policies = family_for(
            Method.CHAINS, risk, Procedure(), ALPHAS, LEVEL, 0.05,
            grid=None, order=None, recording=traces, n_units=traces.n_problems,
        ).policies  # fmt: skip
        for least in REACHED:
            tested = [policy for policy in policies if policy.lambda_high >= least]
            share = labels_needed(traces, tested, risk, Procedure()).mean()
            print(f"{name} | {risk.name} | λ2 >= {least:g} | {share:.0%} need a label", flush=True)


def print_tests(name: str, traces: Traces, risk: Risk, most: int) -> None:
    for high in HIGHS:
        answer = 0.0 if risk.answers_always else min(high, 0.99)
        policy = replace(full_budget(risk), lambda_high=high, lambda_answer=answer)
        losses = replay(traces, [policy], risk).losses
        predicted = predicted_losses(traces, [policy], risk)
        (at,) = losses.risk_T
        shares = None, LabelShare(SHARE, SHARE), LabelShare.aimed(SHARE, LEAST, predicted)
        for alpha in ALPHAS:
            if not 0.35 * alpha < at < 0.8 * alpha:
                continue
            cells = [ends(losses, predicted, alpha, most, share) for share in shares]
            shown = " | ".join(f"{half:g} / {nearly:g}" for half, nearly in cells)
            print(
                f"{name} | {risk.name} | λ2 {high:g} | α {alpha:g} | {at:.3f} | {shown}", flush=True
            )


def ends(
    losses: Losses, predicted: Losses, alpha: float, most: int, share: LabelShare | None
) -> tuple[float, float]:
    """Labels until the level is certified, in half and in 9 of 10 of the samples."""
    rng = np.random.default_rng(0)
    drawn_UR = rng.integers(losses.n_units, size=(most, REPEATS))
    sampled = Losses(losses.loss_UT[drawn_UR, 0], losses.weight_UT[drawn_UR, 0])
    labelled_UR = np.ones(drawn_UR.shape, dtype=np.bool_)
    if share is not None:
        probability_UR = share.probabilities(predicted)[drawn_UR, 0]
        labelled_UR = rng.random(drawn_UR.shape) < probability_UR
        sampled = sampled.with_labels(
            DrawnLabels(labelled_UR, probability_UR, share.least, predicted.loss_UT[drawn_UR, 0])
        )
    units_R = units_until(sampled, alpha, np.full(REPEATS, LEVEL))
    labels_R = labels_among(units_R, labelled_UR)
    half, nearly = np.quantile(labels_R, (0.5, 0.9), method="higher")
    return float(half), float(nearly)


if __name__ == "__main__":
    main()
