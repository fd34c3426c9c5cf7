"""What the vote stop saves: tokens and right answers of several samples, with and without it.

    python -m studies.statistics.vote_stop_study [--smoke]

For each recording, number of samples, vote and way of ending samples early, a policy is chosen on
half of the problems and measured on the other half, 20 times. Under `regret` the choice is the λ2
with the fewest tokens and a regret of at most alpha; under `selective` it is the λ2 and required
share of the vote with the most right answers, and a share of wrong answers of at most alpha. The
choice takes the risks of its half as they are, without the margin of a certificate, so the risks on
the other half are a little above alpha on average.

The ways are `exits` (every sample thinks to its exit), `lead` (the vote stop, by its lead), and
under `regret` also `certain` (samples that can change nothing are ended) and `forced`: the lead
among the answers that all samples would give now, forced at every fourth checkpoint, and paid.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration import FULL_BUDGET, ExitPolicy, Procedure, Traces, read_traces
from calibration.files import write_text
from calibration.policy.exit_rule import NEVER
from calibration.simulation.procedure import simulate
from calibration.simulation.replay import outcomes
from studies.smoke import study_parser
from studies.statistics.early_votes import certain_ends, forced_leads, samples_at

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "studies/traces"
RESULT = ROOT / "studies/results/vote-stop.json"
SAMPLES = (4, 8)
HIGHS = (NEVER, 0.999, 0.99, 0.98, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3)
LEADS = (NEVER, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
SHARES = (0.95, 0.9, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.0)
ALPHAS = (0.01, 0.02, 0.05)
SPLITS = 20

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """Draws (D) under the policies (T) of one way: tokens as shares of the full budget's mean."""

    answered_DT: Bools
    right_DT: Bools
    regret_DT: Bools
    tokens_DT: Floats

    def beside(self, other: "Measured") -> "Measured":
        """The policies of both."""
        return Measured(
            *(
                np.concatenate([getattr(self, name), getattr(other, name)], axis=1)
                for name in self.__dataclass_fields__
            )
        )


@dataclass(frozen=True, slots=True)
class Result:
    """Means over splits, on the problems that did not choose.

    Attributes:
        saved: share of the full budget's tokens.
        right: share of the questions answered and right.
        risk: the realised risk; of `selective`, of the questions answered.
    """

    model: str
    samples: int
    vote: str
    risk_name: str
    way: str
    alpha: float
    saved: float
    right: float
    risk: float


def replayed(traces: Traces, procedure: Procedure, policies: Sequence[ExitPolicy]) -> Measured:
    """The draws of a procedure under policies, by the replay that certificates are fitted with."""
    found = outcomes(traces, policies, procedure)
    return Measured(
        found.answered_DT,
        found.correct_DT,
        found.full_correct_D[:, None] & ~found.correct_DT,
        found.tokens_DT / found.full_tokens_D.mean(),
    )


def ways_of_regret(traces: Traces, procedure: Procedure) -> Iterator[tuple[str, Measured]]:
    """Every way, with one policy for each λ2."""
    full = replace(FULL_BUDGET, answer_on_low=True)
    for lead in LEADS:
        policies = [replace(full, lambda_high=high, lambda_stop=lead) for high in HIGHS]
        yield name_of(lead), replayed(traces, procedure, policies)
    draws = simulate(traces, procedure)
    whole = outcomes(traces, [full], procedure)
    right_D, tokens = whole.full_correct_D, whole.full_tokens_D.mean()
    at = [samples_at(traces, draws, high, procedure.vote) for high in HIGHS]
    ways = {"certain": [certain_ends(one) for one in at]}
    for lead in LEADS[1:]:
        ways[f"forced {lead:g}"] = [forced_leads(one, lead) for one in at]
    for way, ends in ways.items():
        correct_DT = np.stack([correct_D for correct_D, _ in ends], axis=1)
        tokens_DT = np.stack([tokens_D for _, tokens_D in ends], axis=1)
        yield (
            way,
            Measured(
                np.ones_like(correct_DT),
                correct_DT,
                right_D[:, None] & ~correct_DT,
                tokens_DT / tokens,
            ),
        )


def ways_of_selective(traces: Traces, procedure: Procedure) -> Iterator[tuple[str, Measured]]:
    """The vote stop at each lead, with a policy for each λ2 and required share."""
    for lead in LEADS:
        measured: Measured | None = None
        for high in HIGHS[3::2]:
            policies = [
                replace(FULL_BUDGET, lambda_high=high, lambda_stop=lead, lambda_vote=share)
                for share in SHARES
            ]
            more = replayed(traces, procedure, policies)
            measured = more if measured is None else measured.beside(more)
        assert measured is not None
        yield name_of(lead), measured


def name_of(lead: float) -> str:
    """The way of a vote stop at this lead."""
    return "exits" if lead > 1 else f"lead {lead:g}"


def choose(measured: Measured, of_half_D: Bools, risk_name: str, alpha: float) -> int | None:
    """The policy chosen on these draws; None if none keeps alpha there."""
    right_T = measured.right_DT[of_half_D].mean(axis=0)
    tokens_T = measured.tokens_DT[of_half_D].mean(axis=0)
    kept_T = risk_of(measured, of_half_D, risk_name) <= alpha
    if not kept_T.any():
        return None
    best_T = tokens_T if risk_name == "regret" else tokens_T - 1000 * right_T
    return int(np.where(kept_T, best_T, np.inf).argmin())


def risk_of(measured: Measured, of_half_D: Bools, risk_name: str) -> Floats:
    """The risk of each policy on these draws; 1 where nothing is answered."""
    if risk_name == "regret":
        return np.asarray(measured.regret_DT[of_half_D].mean(axis=0))
    answered_T = measured.answered_DT[of_half_D].sum(axis=0)
    wrong_T = answered_T - measured.right_DT[of_half_D].sum(axis=0)
    return np.where(answered_T > 0, wrong_T / np.maximum(answered_T, 1), 1.0)


def results(
    measured: Measured, problem_D: NDArray[np.intp], risk_name: str, splits: int
) -> Iterator[tuple[float, Floats]]:
    """For each alpha: saved, right and risk, means over the splits."""
    rng = np.random.default_rng(0)
    n_problems = int(problem_D.max()) + 1
    halves = [rng.permutation(n_problems) < n_problems // 2 for _ in range(splits)]
    for alpha in ALPHAS:
        rows = []
        for half_P in halves:
            of_half_D = half_P[problem_D]
            t = choose(measured, of_half_D, risk_name, alpha)
            if t is None:
                rows.append((0.0, 0.0, 0.0))
                continue
            rows.append(
                (
                    1 - float(measured.tokens_DT[~of_half_D, t].mean()),
                    float(measured.right_DT[~of_half_D, t].mean()),
                    float(risk_of(measured, ~of_half_D, risk_name)[t]),
                )
            )
        yield alpha, np.mean(rows, axis=0)


def study(path: Path, traces: Traces, n: int, vote: str, splits: int) -> Iterator[Result]:
    """All results of one recording, number of samples and vote."""
    procedure = Procedure(n, vote)
    problem_D = simulate(traces, procedure).problem_D
    ways = [("regret", *way) for way in ways_of_regret(traces, procedure)]
    ways += [("selective", *way) for way in ways_of_selective(traces, procedure)]
    for risk_name, way, measured in ways:
        for alpha, (saved, right, risk) in results(measured, problem_D, risk_name, splits):
            figures = (round(float(figure), 4) for figure in (saved, right, risk))
            model = path.stem.rsplit("-", 2)[0]
            yield Result(model, n, vote, risk_name, way, alpha, *figures)


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="the folder of the recordings")
    asked = parser.parse_args()
    smoke = asked.smoke
    found: list[Result] = []
    for path in sorted(asked.traces.glob("embedded*-calibration-[48].parquet"))[
        : 1 if smoke else None
    ]:
        traces = read_traces(path)
        if smoke:
            traces, _ = traces.split(0.05)
        for n, vote in product(SAMPLES, ("confidence", "majority")):
            if n <= traces.rollouts_P.min():
                found += study(path, traces, n, vote, 2 if smoke else SPLITS)
                print(path.stem, n, vote, flush=True)
    for one in found:
        if one.vote == "confidence":
            print(
                f"{one.model:14s} n={one.samples} {one.risk_name:9s} {one.way:10s} "
                f"{one.alpha:4g}: saved {one.saved:5.1%} right {one.right:5.1%} risk {one.risk:.4f}"
            )
    if not smoke:
        write_text(RESULT, json.dumps([asdict(one) for one in found], separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
