"""Comparison with MAPIE 1.6: equal p-values and certified sets, and the time they take.

    python -m studies.statistics.mapie_comparison [--smoke]

The data are losses of 1,000 problems under policies on a one-dimensional grid of rising risk.
Hoeffding-Bentkus p-values (averaged losses) and exact binomial ones (losses of 0 or 1) are compared
with `compute_hoeffding_bentkus_p_value`, each correction with `control_fwer`, and the whole for
three alphas with `ltt_procedure`. Runs alternate, so that other load on the machine affects both;
the report has the median of the pairs' ratios. The script stops if a result differs.
"""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from mapie.risk_control._base_controller import ltt_procedure
from mapie.risk_control.fwer_control import control_fwer
from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value
from numpy.typing import NDArray

from calibration.simulation.losses import Losses
from calibration.testing.fwer import bonferroni, fixed_sequence, holm
from calibration.testing.p_values import PValue, p_value_table, p_values
from studies.smoke import study_parser

Result = TypeVar("Result")

PROBLEMS = 1000
ROLLOUTS = 8
ALPHAS = (0.05, 0.1, 0.2)
DELTA = 0.1
CORRECTIONS = {"bonferroni": bonferroni, "bonferroni_holm": holm, "fixed_sequence": fixed_sequence}


def main() -> None:
    smoke = study_parser(__doc__).parse_args().smoke
    rows = ["| step | policies | ours, ms | MAPIE, ms | ours / MAPIE |", "|---|--:|--:|--:|--:|"]
    for n_policies in (10,) if smoke else (10, 100, 1000, 4096):
        for binary in (False, True):
            rows += compare_p_values(grid_losses(n_policies, PROBLEMS, binary), binary)
        losses = grid_losses(n_policies, PROBLEMS, binary=False)
        rows += [compare_correction(losses, name) for name in CORRECTIONS]
        rows += [compare_all(losses, name) for name in CORRECTIONS]
    print("\n".join(rows))
    print("\nThe p-values agree to 1e-12. All certified sets are the same.", whole_sums())


def grid_losses(n_policies: int, n_problems: int, binary: bool) -> Losses:
    """Losses along the grid: a falling threshold stops more and more rollouts too early."""
    rng = np.random.default_rng(n_policies)
    rollouts = 1 if binary else ROLLOUTS
    fails_at_UR = rng.beta(2, 1, n_problems)[:, None] + rng.normal(0, 0.2, (n_problems, rollouts))
    grid_T = np.linspace(-0.5, 0.8, n_policies)
    loss_UT = (fails_at_UR[:, :, None] < grid_T).mean(axis=1)
    return Losses.unweighted(loss_UT)


def compare_p_values(losses: Losses, binary: bool) -> list[str]:
    kind = PValue.BINOMIAL if binary else PValue.HOEFFDING_BENTKUS
    alpha = ALPHAS[1]
    ours, theirs, times = race(
        lambda: p_values(losses, alpha, kind),
        lambda: compute_hoeffding_bentkus_p_value(
            losses.loss_UT.mean(axis=0), losses.n_units, alpha, binary
        ).ravel(),
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    return [row(f"{kind.value} p-values", losses.n_policies, times)]


def compare_correction(losses: Losses, name: str) -> str:
    p_T = p_values(losses, ALPHAS[1], PValue.HOEFFDING_BENTKUS)
    ours, theirs, times = race(
        lambda: np.flatnonzero(CORRECTIONS[name](p_T, DELTA)),
        lambda: control_fwer(p_T, DELTA, name),
    )
    assert 0 < theirs.size < losses.n_policies
    assert np.array_equal(ours, theirs)
    return row(f"{name}, given p-values", losses.n_policies, times)


def compare_all(losses: Losses, name: str) -> str:
    def ours() -> list[list[int]]:
        p_LT = p_value_table(losses, ALPHAS, PValue.HOEFFDING_BENTKUS)
        return [np.flatnonzero(CORRECTIONS[name](p_T, DELTA)).tolist() for p_T in p_LT]

    def theirs() -> list[list[Any]]:
        risk_1T = losses.loss_UT.mean(axis=0)[None]
        n_1T = np.full_like(risk_1T, losses.n_units)
        found = ltt_procedure(risk_1T, np.array([ALPHAS]), DELTA, n_1T, fwer_method=name)
        valid: list[list[Any]] = found[0]
        return valid

    found, expected, times = race(ours, theirs)
    assert found == expected
    return row(f"three alphas, p-values and {name}", losses.n_policies, times)


def race(
    ours: Callable[[], Result], theirs: Callable[[], Result]
) -> tuple[Result, Result, NDArray[np.float64]]:
    """Both results, and the seconds of alternating runs, shape (runs, 2): ours, theirs."""
    results = ours(), theirs()
    seconds: list[tuple[float, float]] = []
    while len(seconds) < 5 or (sum(map(sum, seconds)) < 1 and len(seconds) < 200):
        started = time.perf_counter()
        ours()
        between = time.perf_counter()
        theirs()
        seconds.append((between - started, time.perf_counter() - between))
    return *results, np.array(seconds)


def row(step: str, n_policies: int, times: NDArray[np.float64]) -> str:
    ratio = statistics.median(times[:, 0] / times[:, 1])
    ours, theirs = 1000 * np.median(times, axis=0)
    return f"| {step} | {n_policies:,} | {ours:.3g} | {theirs:.3g} | {ratio:.2g} |"


def whole_sums() -> str:
    """Cases where n * (k / n) exceeds k in floating point, so that MAPIE counts k + 1 losses."""
    off = {
        n: [k for k in range(n + 1) if math.ceil(n * (k / n)) != k] for n in (100, 300, 1000, 3000)
    }
    n, k = 100, off[100][0]
    losses = Losses.unweighted((np.arange(n) < k).astype(float)[:, None])
    ours = p_values(losses, 0.2, PValue.HOEFFDING_BENTKUS)[0]
    theirs = compute_hoeffding_bentkus_p_value(losses.loss_UT.mean(axis=0), n, 0.2).item()
    counts = ", ".join(f"{len(sums)} of {n + 1} at n = {n:,}" for n, sums in off.items())
    return (
        "Left out: sums of losses that MAPIE rounds up to the next whole number, which "
        f"is on the safe side ({counts}; {k} losses of {n} at alpha = 0.2: p = {ours:.4f} here, "
        f"{theirs:.4f} there)."
    )


if __name__ == "__main__":
    main()
