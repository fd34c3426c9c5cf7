"""One certificate for all questions, or one for each kind: risks and answers of each kind.

    python -m studies.statistics.kinds [--smoke]

Half of the problems fit, the other half measures; this is repeated for several random halves. The
levels of the tasks, 1 to 6, are the kinds. Then ways to divide delta among the kinds are compared.
Results go to studies/results/kinds.json.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import (
    SELECTIVE,
    Certificate,
    ExitPolicy,
    Graph,
    InfeasibleAlpha,
    Procedure,
    Promise,
    PValue,
    Replay,
    Traces,
    certify,
    certify_kinds,
    certify_levels,
    evaluate,
    read_traces,
    replay,
)
from calibration.certificate.fitting.tested import target_level
from calibration.files import write_text
from calibration.testing.families import Family
from calibration.testing.learned_path import TOKEN_PRICE, choose_certified
from calibration.testing.methods import Method, family_for
from calibration.testing.p_values import p_value_table
from studies.smoke import study_parser
from studies.statistics.power_data import probe_readings

ALPHAS, DELTA = (0.05, 0.1, 0.2), 0.1
SIZES = (300, 600, 1200)
MODELS = {"embedded": "embedded-calibration-8", "embedded-sft": "embedded-sft-calibration-4"}
SPLITS = 8
ROOT = Path(__file__).resolve().parents[2]
TRACES, SHIPPED = ROOT / "studies/traces", ROOT / "rlcm_serve/models"
RESULT = ROOT / "studies/results/kinds.json"


def with_kinds(traces: Traces) -> Traces:
    """The embedded traces with the level of each task, 1 to 6, as its kind."""
    return replace(traces, kinds=tuple(id_.split("-")[1] for id_ in traces.problem_ids))


def policy_at(alpha: float, certificate: Certificate) -> ExitPolicy | None:
    """The policy that is served; None if the level is infeasible."""
    try:
        return certificate.level_for(alpha).policy
    except InfeasibleAlpha:
        return None


def measure(traces: Traces, order: Traces | None, splits: int) -> list[dict[str, Any]]:
    """A row for each way, alpha and kind: risk, answered and right, over all splits together."""
    kinds = sorted(set(filter(None, traces.kinds or ())))
    sums: defaultdict[tuple[str, float, str], NDArray[np.float64]]
    sums = defaultdict(lambda: np.zeros(4))
    for seed in range(splits):
        fitting, testing = traces.split(0.5, seed)
        one = certify(fitting, alphas=ALPHAS, delta=DELTA, order=order)
        pooled, *single = certify_kinds(fitting, alphas=ALPHAS, delta=DELTA, order=order)
        own = {made.about: made for made in single}
        for kind in kinds:
            asked = testing.of_kind(kind)
            for way, certificate in (("one", one), ("kinds", own.get(kind, pooled))):
                for alpha in ALPHAS:
                    policy = policy_at(alpha, certificate)
                    sums[way, alpha, kind] += _counts(asked, policy)
    return [
        {
            "way": way,
            "alpha": alpha,
            "kind": kind,
            "risk": None if not answered else (answered - right) / answered,
            "answered": answered / n,
            "right": right / n,
            "certified": served / splits,
        }
        for (way, alpha, kind), (n, answered, right, served) in sums.items()
    ]


def _counts(asked: Traces, policy: ExitPolicy | None) -> NDArray[np.float64]:
    """Questions, those answered, those answered right, and whether a policy serves them."""
    n = float(asked.n_problems)
    if policy is None:
        return np.array([n, 0.0, 0.0, 0.0])
    (found,) = evaluate([policy], asked)
    return np.array([n, n * found.answered_share, n * found.right_share, 1.0])


Certify = Callable[[list[Family], list[NDArray[np.float64]]], list[NDArray[np.bool_]]]


def _apart(share: float, families: list[Family], p: list[NDArray[np.float64]]) -> list[Any]:
    """Every kind is tested for itself at this delta."""
    how = share, Promise.SIMULTANEOUS
    return [
        certify_levels(p_LT, ALPHAS, family.weights_LT or (), family.graph or Graph(()), *how)
        for family, p_LT in zip(families, p, strict=True)
    ]


def _graph(families: list[Family], p: list[NDArray[np.float64]]) -> list[Any]:
    """One graph over all kinds: what leaves a level goes to all kinds at the other levels."""
    edges: list[tuple[tuple[int, float], ...]] = []
    weights_LT, ends = [np.array([]) for _ in ALPHAS], []
    for family in families:
        graph = family.graph or Graph(())
        edges += [tuple((to + len(edges), w) for to, w in heirs) for heirs in graph.edges]
        for level, row in enumerate(family.weights_LT or ()):
            weights_LT[level] = np.append(weights_LT[level], np.array(row) / len(families))
        ends.append(len(edges))
    whole = certify_levels(
        np.hstack(p), ALPHAS, weights_LT, Graph(tuple(edges)), DELTA, Promise.SIMULTANEOUS
    )
    return np.split(whole, ends[:-1], axis=1)


def divide(
    traces: Traces, order: Traces | None, draws: int, sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """How often a level of a kind is certified, and what it answers right, by way and n."""
    kinds = sorted(set(filter(None, traces.kinds or ())))
    ways: Mapping[str, Certify] = {
        "each kind at delta, not valid together": partial(_apart, DELTA),
        "equal parts": partial(_apart, DELTA / len(kinds)),
        "one graph": _graph,
    }
    rows = []
    for n in sizes:
        found: dict[str, list[list[tuple[bool, float]]]] = {way: [] for way in ways}
        for seed in range(draws):
            part, _ = traces.split(n / traces.n_problems, seed)
            tested = [_tested(part.of_kind(kind), order, len(kinds)) for kind in kinds]
            for way, certified in ways.items():
                passed = certified([one[0] for one in tested], [one[2] for one in tested])
                found[way] += [
                    [_served(measured, row) for row in rows_LT]
                    for (_, measured, _), rows_LT in zip(tested, passed, strict=True)
                ]
        for way, levels in found.items():
            shares = np.array(levels).mean(axis=0)
            rows += [
                {"way": way, "n": n, "alpha": alpha, "certified": certified, "right": right}
                for alpha, (certified, right) in zip(ALPHAS, shares.tolist(), strict=True)
            ]
    return rows


def _tested(
    traces: Traces, order: Traces | None, n_kinds: int
) -> tuple[Family, Replay, NDArray[np.float64]]:
    """The family of a kind, its replay, and its p-values at the share of delta of a kind."""
    share, procedure = DELTA / n_kinds, Procedure()
    family = family_for(
        Method.AUTO, SELECTIVE, procedure, ALPHAS, share / len(ALPHAS), TOKEN_PRICE,
        grid=None, order=order, recording=traces, n_units=traces.n_units,
    )  # fmt: skip
    measured = replay(traces, family.policies, SELECTIVE, procedure)
    target_LT = np.empty((len(ALPHAS), len(family.policies)))
    for level in range(len(ALPHAS)):
        target_LT[level] = target_level(family, level, ALPHAS, share, Promise.SIMULTANEOUS)
    seed = int(traces.digest[:8], 16)
    p_LT = p_value_table(measured.losses, ALPHAS, PValue.BETTING, seed, target_LT)
    above = measured.losses.risk_T >= np.array(ALPHAS)[:, None]
    return family, measured, np.where(above, 1.0, p_LT)


def _served(measured: Replay, certified_T: NDArray[np.bool_]) -> tuple[bool, float]:
    chosen = choose_certified(measured, certified_T, TOKEN_PRICE)
    return (False, 0.0) if chosen is None else (True, float(measured.right_T[chosen]))


def main(argv: Sequence[str] | None = None) -> None:
    """Prints all rows, and writes them as JSON."""
    smoke = study_parser(__doc__).parse_args(argv).smoke
    splits, models = (1, ("embedded",)) if smoke else (SPLITS, tuple(MODELS))
    found: dict[str, Any] = {"splits": splits, "delta": DELTA}
    for model in models:
        traces = with_kinds(read_traces(TRACES / f"{MODELS[model]}.parquet"))
        order = probe_readings(SHIPPED / model, traces)
        sizes = SIZES[:1] if smoke else SIZES
        found[model] = {
            "kinds": measure(traces, order, splits),
            "delta": divide(traces, order, splits, sizes),
        }
        for row in [*found[model]["kinds"], *found[model]["delta"]]:
            sys.stdout.write(f"{model} {json.dumps(row)}\n")
    if not smoke:
        write_text(RESULT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
