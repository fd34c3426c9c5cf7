"""What saves labels: those that no loss depends on, and prediction-powered tests.

    python -m studies.statistics.fewer_labels [TRACES ...] [--smoke]

First, the share of problems that need a label (`calibration.simulation.labels`), for the default
policies and for those with λ2 at or above a threshold, which is how far a chain comes down.

Then, prediction-powered anytime tests of one policy each: the confidence predicts the loss, and the
predicted loss of unlabelled questions is subtracted from that of the labelled ones (PPI,
arXiv 2301.09633). The test bets on alpha * weight - loss + l (f - m), with f the predicted loss of
the labelled unit, m that of the unlabelled ones, and l in 0, 1/4, 1/2, 3/4, 1: gamblers for all
pairs of a bet and l. Every bet is small enough that no loss costs more than all of the wealth, so
the test is valid at all times for any predictions. m is exact ("all"), or the mean of 10 unlabelled
questions for each labelled one ("10"). Predicted is 1 - the confidence of an answer that is given;
under `regret`, the final confidence if the early answer is another one than the final answer.

Printed are the labels after which a level is certified at .033, in half and in 9 of 10 of 200
samples from the traces; inf for more than 1,500.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Traces, read_traces
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.labels import labels_needed
from calibration.simulation.procedure import Procedure
from calibration.simulation.risks import RISKS, Risk
from calibration.simulation.simulator import Simulator
from calibration.testing.anytime import BETS
from calibration.testing.families import NEVER, full_budget
from calibration.testing.methods import Method, family_for
from studies.smoke import study_parser

TRACES = ("embedded-test.parquet", "embedded-sft-calibration.parquet")
FOLDER = Path(__file__).parents[1] / "traces"
HIGHS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, NEVER)
REACHED = (0.05, 0.5, 0.9)
ALPHAS = (0.05, 0.1, 0.2)
LEVEL = 0.1 / 3
TRUSTS = np.array([0, 0.25, 0.5, 0.75, 1])
MOST, REPEATS = 1500, 200
PER_LABEL = 10

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """Loss, weight and predicted loss of the problems under one policy."""

    loss_U: Array
    weight_U: Array
    predicted_U: Array


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
        units = units_of(traces, policy, risk)
        at = units.loss_U.sum() / max(units.weight_U.sum(), 1)
        for alpha in ALPHAS:
            if not 0.35 * alpha < at < 0.8 * alpha:
                continue
            cells = [ends(units, alpha, most, each) for each in ("none", "all", "10")]
            shown = " | ".join(f"{half:g} / {nearly:g}" for half, nearly in cells)
            print(
                f"{name} | {risk.name} | λ2 {high:g} | α {alpha:g} | {at:.3f} | {shown}", flush=True
            )


def units_of(traces: Traces, policy: ExitPolicy, risk: Risk) -> Units:
    rows_R = np.arange(traces.n_rollouts)
    stopped = Simulator(traces, [policy], "confidence").stopped(rows_R)
    outcomes = stopped.outcomes(rows_R[:, None])
    loss, weight = risk.loss(outcomes)
    loss_U = np.asarray(loss, dtype=np.float64)[:, 0]
    weight_U = np.ones_like(loss_U) if weight is None else np.asarray(weight, float)[:, 0]
    if risk.name != "regret":
        return Units(loss_U, weight_U, weight_U * (1 - outcomes.confidence_DT[:, 0]))
    early_U = stopped.outcomes_of.class_RS[rows_R, stopped.stop_RT[:, 0]]
    final_U = traces.answer_class_RC[rows_R, traces.final_R]
    sure_U = traces.confidence_RC[rows_R, traces.final_R]
    return Units(loss_U, weight_U, (early_U != final_U) * sure_U)


def ends(units: Units, alpha: float, most: int, unlabelled: str) -> tuple[float, float]:
    """Labels until the level is certified, in half and in 9 of 10 of the samples."""
    rng = np.random.default_rng(0)
    n = len(units.loss_U)
    drawn_UR = rng.integers(n, size=(most, REPEATS))
    surplus_UR, trusts, lost = np.zeros(drawn_UR.shape), np.zeros(1), 0.0
    if unlabelled != "none":
        mean_UR: Array | float = units.predicted_U.mean()
        lost = float(mean_UR)
        if unlabelled != "all":
            others = rng.integers(n, size=(PER_LABEL, most, REPEATS))
            mean_UR, lost = units.predicted_U[others].mean(axis=0), 1.0
        surplus_UR, trusts = units.predicted_U[drawn_UR] - mean_UR, TRUSTS
    trust_G, share_G = (grid.ravel() for grid in np.meshgrid(trusts, BETS))
    bet_G1 = (share_G / (1 - alpha + trust_G * lost))[:, None]
    wealth_GR = np.full((len(bet_G1), REPEATS), 1 / len(bet_G1))
    log_wealth_R, until_R = np.zeros(REPEATS), np.full(REPEATS, np.inf)
    gain_UR = alpha * units.weight_U[drawn_UR] - units.loss_U[drawn_UR]
    for seen, (gain_R, surplus_R) in enumerate(zip(gain_UR, surplus_UR, strict=True), 1):
        wealth_GR *= np.maximum(1 + bet_G1 * (gain_R + trust_G[:, None] * surplus_R), 0)
        growth_R = wealth_GR.sum(axis=0)
        wealth_GR /= growth_R
        log_wealth_R += np.log(growth_R)
        until_R[(log_wealth_R >= -np.log(LEVEL)) & np.isinf(until_R)] = seen
    half, nearly = np.quantile(until_R, (0.5, 0.9), method="higher")
    return float(half), float(nearly)


if __name__ == "__main__":
    main()
