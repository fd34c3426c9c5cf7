"""Tables of the power study, in Markdown, from the cells that `power_study.py` measured.

    python -m studies.statistics.power_tables [FILE or FOLDER]

Figures are means over draws of problems. A level that is not certified counts as the full budget:
it saves nothing, and if the service may abstain, it answers no question. "Points behind" is the
difference to the best valid way of certifying, in percentage points of tokens saved. If the service
may abstain, it is also in points of questions answered and right; tokens are then compared only
with ways that answer as many questions right, give or take 2 points.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from studies.smoke import study_parser
from studies.statistics.power_study import RESULTS

METHODS = ("auto", "fixed-sequence", "chains", "rescaled-chains", "split", "holm", "plain")
PROMISES = ("pointwise", "simultaneous")
RISKS = ("regret", "selective", "error")
INVALID = "clt"
ONE_ROLLOUT = "binomial, one rollout"
APART = ", 1 of 8"
NEAR = 0.02
HELD_TO, HELD_TO_FEW, FEW = 0.02, 0.04, 300
"""How far behind any other method the default may be: from `FEW` units on, and below."""
HELD_TO_POINTWISE = 0.05
"""How far the simultaneous promise may be behind the pointwise one."""
ONE_SIDED_95 = 1.645
ALWAYS, NEVER = 0.95, 0.05
"""Between these shares of certified fits, a mean is a share of all or nothing."""

Row: TypeAlias = Sequence[object]


@dataclass(frozen=True)
class Fit:
    """The figures of one way of certifying at one level."""

    method: str
    p_value: str
    values: dict[str, Any]
    level: int

    def __getitem__(self, name: str) -> float:
        return float(self.values[name][self.level])


@dataclass(frozen=True)
class Level:
    """One level of a cell under one promise, with all ways of certifying it."""

    cell: dict[str, Any]
    promise: str
    number: int
    fits: tuple[Fit, ...]

    @property
    def alpha(self) -> float:
        return float(self.cell["alphas"][self.number])

    @property
    def measures(self) -> tuple[str, ...]:
        return ("utility", "right", "saved") if self.cell["risk"] == "selective" else ("saved",)

    def of(self, method: str) -> Fit | None:
        """The fit of a method, or of "default", with the method's default p-value."""
        method = "auto" if method == "default" else method
        return next((fit for fit in self.fits if fit.method == method), None)

    def behind(self, fit: Fit, measure: str) -> tuple[float, Fit]:
        """The points that a fit is behind the best valid one, and that best one."""
        rivals = [
            rival
            for rival in self.fits
            if rival.p_value != INVALID
            and (measure == "right" or rival["right"] >= fit["right"] - NEAR
                 or "right" not in self.measures)
        ]  # fmt: skip
        best = max(rivals, key=lambda rival: rival[measure])
        return best[measure] - fit[measure], best

    @property
    def best(self) -> dict[str, float]:
        """The figures of the best policy with a true risk of at most alpha."""
        none = {"saved": 0.0, "right": 0.0, "answered": 0.0, "utility": 0.0}
        return self.cell["best"][self.number] or none


Cell: TypeAlias = list[Level]
"""All levels of a cell under one promise."""


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("measured", type=Path, nargs="?", default=RESULTS)
    parser.add_argument("--list", action="store_true", help="every level that is behind")
    options = parser.parse_args()
    cells = read_cells(options.measured)
    if options.list:
        print_behind(cells, count=None)
    else:
        print_tables(cells)


def read_cells(measured: Path) -> list[Cell]:
    """The cells in the file of all of them, or in the folder of a run that goes on."""
    if measured.is_file():
        return levels_of(json.loads(measured.read_text()))
    return levels_of([json.loads(path.read_text()) for path in measured.glob("*.json")])


def print_tables(cells: Sequence[Cell]) -> None:
    print_real_trace(cells)
    for risk in RISKS:
        print_methods(cells, risk)
    print_promises(cells)
    print_p_values(cells)
    print_samples(cells)
    print_ranking(cells)
    print_behind(cells, count=25)
    print_held_to(cells)
    print_broken(cells)


def levels_of(found: Iterable[dict[str, Any]]) -> list[Cell]:
    """Sorted by data set, risk and number of problems; single rollouts beside their averages."""
    found = sorted(found, key=lambda cell: (cell["data"], RISKS.index(cell["risk"]), cell["n"]))
    by_name = {(cell["data"], cell["risk"], cell["n"]): cell for cell in found}
    return [
        [
            Level(cell, promise, number, tuple(_fits(cell, by_name, promise, number)))
            for number in range(len(cell["alphas"]))
        ]
        for cell in found
        for promise in PROMISES
    ]


def _fits(
    cell: dict[str, Any], by_name: dict[tuple[str, str, int], Any], promise: str, number: int
) -> Iterable[Fit]:
    for values in cell["fits"]:
        if values["promise"] == promise:
            yield Fit(values["method"], values["p_value"], values, number)
    for values in by_name.get((cell["data"] + APART, cell["risk"], cell["n"]), {"fits": []})[
        "fits"
    ]:
        if values["promise"] == promise and values["method"] == "auto":
            yield Fit(values["method"], ONE_ROLLOUT, values, number)


def print_real_trace(cells: Sequence[Cell]) -> None:
    rows: list[Row] = []
    if not _chosen(cells, data="gpqa", risk="regret"):
        return
    for cell in _chosen(cells, data="gpqa", risk="regret"):
        for method in METHODS:
            fits = [level.of(method) for level in cell]
            share = _numbers([fit["broken"] for fit in fits if fit])
            certified = _numbers([fit["certified"] for fit in fits if fit])
            rows.append((cell[0].promise, method, _figures(cell, method), certified, share))
        best = _numbers([level.best["saved"] for level in cell])
        rows.append((cell[0].promise, "best, in hindsight", best, "", ""))
    title = "The real trace, regret, 132 problems to calibrate and 66 to measure on"
    head = ("promise", "method", "saved, %", "certified, %", "above alpha on the 66, %")
    _print(f"{title}; alpha = {_alphas(cells, 'gpqa', 'regret')}", head, rows)


def print_methods(cells: Sequence[Cell], risk: str) -> None:
    methods = METHODS
    rows: list[Row] = []
    for cell in _chosen(cells, risk=risk, promise="pointwise"):
        first = cell[0].cell
        if APART in first["data"]:
            continue
        name, n = first["data"], f"{first['n']:,}"
        for measure in cell[0].measures:
            figures = [_figures(cell, method, measure) for method in methods]
            best = _numbers([level.best[measure] for level in cell])
            rows.append((name, n, *([measure] * (risk == "selective")), *figures, best))
    what = {"selective": "answered and right, and tokens saved"}.get(risk, "tokens saved")
    head = ("data", "n", *(["%"] * (risk == "selective")), *methods, "best that keeps alpha")
    _print(f"{risk}, pointwise, {what}, % at the three levels", head, rows)


def print_promises(cells: Sequence[Cell]) -> None:
    rows: list[Row] = []
    for cell in _chosen(cells, data="embedded"):
        first = cell[0].cell
        rows.append(
            (
                first["risk"],
                f"{first['n']:,}",
                cell[0].promise,
                _figures(cell, "default", "certified"),
                _figures(cell, "default", "saved"),
                _figures(cell, "default", "right"),
                _numbers([level.best["saved"] for level in cell]),
                _numbers([level.best["right"] for level in cell]),
            )
        )
    head = (
        "risk", "n", "promise", "certified", "saved", "answered and right", "best: saved",
        "best: right",
    )  # fmt: skip
    _print("The default on the embedded model, %", head, rows)


def print_p_values(cells: Sequence[Cell]) -> None:
    kinds = ("betting", "hoeffding-bentkus", ONE_ROLLOUT, INVALID)
    rows: list[Row] = []
    for cell in _chosen(cells, promise="pointwise"):
        first = cell[0].cell
        if not any(fit.p_value == INVALID for fit in cell[0].fits):
            continue
        for measure in cell[0].measures:
            figures = []
            for kind in kinds:
                fits = [
                    fit
                    for level in cell
                    for fit in level.fits
                    if fit.p_value == kind and fit.method == "auto"
                ]
                figures.append(_numbers([fit[measure] for fit in fits]))
            rows.append((first["data"], first["risk"], f"{first['n']:,}", measure, *figures))
    head = ("data", "risk", "n", "%", *kinds[:-1], "clt (asymptotic)")
    _print("Averaged losses: p-values under the default, pointwise", head, rows)


def print_samples(cells: Sequence[Cell]) -> None:
    rows: list[Row] = []
    for name in ("embedded", "embedded, vote of 4", "embedded, vote of 8"):
        for cell in _chosen(cells, data=name, risk="selective", promise="pointwise"):
            first = cell[0].cell
            fits = [level.of("default") for level in cell]
            tokens = [first["full_tokens"] * (1 - fit["saved"]) for fit in fits if fit]
            rows.append(
                (
                    name,
                    f"{first['n']:,}",
                    _figures(cell, "default", "answered"),
                    _figures(cell, "default", "right"),
                    " / ".join(f"{value:.0f}" for value in tokens),
                    f"{first['full_tokens']:.0f}",
                    _numbers([level.best["right"] for level in cell]),
                )
            )
    head = (
        "data", "n", "answered, %", "answered and right, %", "tokens per question", "full budget",
        "best: right, %",
    )  # fmt: skip
    _print("Samples per question, selective, pointwise, default", head, rows)


def print_ranking(cells: Sequence[Cell]) -> None:
    """Ranks the methods, each as if it were the default everywhere."""
    rows: list[Row] = []
    for risk in RISKS:
        levels = [level for cell in _chosen(cells, risk=risk) for level in cell]
        for measure in levels[0].measures:
            for method in ("default", *METHODS):
                gaps = np.array(
                    [
                        level.behind(fit, measure)[0]
                        for level in levels
                        if APART not in level.cell["data"] and (fit := level.of(method))
                    ]
                )
                rows.append(
                    (
                        risk,
                        measure,
                        method,
                        len(gaps),
                        f"{100 * gaps.mean():.1f}",
                        f"{100 * np.quantile(gaps, 0.9):.1f}",
                        f"{100 * gaps.max():.1f}",
                        f"{100 * (gaps <= NEAR).mean():.0f}",
                    )
                )
    head = (
        "risk", "of", "method", "levels", "behind: mean", "one in ten more than", "most",
        "within 2 points, %",
    )  # fmt: skip
    _print("Points behind the best valid way of each level, both promises", head, rows)


def print_behind(cells: Sequence[Cell], count: int | None) -> None:
    """Points behind, with the standard error of the difference over draws."""
    rows: list[tuple[float, Row]] = []
    total = 0
    for level in (level for cell in cells for level in cell):
        if APART in level.cell["data"]:
            continue
        total += 1
        default = level.of("default")
        for measure in level.measures if default else ():
            assert default
            gap, best = level.behind(default, measure)
            if gap <= NEAR:
                continue
            cell = level.cell
            error = 100 * best[f"{measure}_gain_error"]
            who = best.method if best.method != default.method else f"{best.p_value} p-values"
            rows.append(
                (
                    gap,
                    (
                        cell["data"],
                        cell["risk"],
                        f"{cell['n']:,}",
                        level.promise,
                        f"{level.alpha:g}",
                        measure,
                        f"{100 * default[measure]:.1f}",
                        f"{who}: {100 * best[measure]:.1f}",
                        "" if best.p_value == ONE_ROLLOUT else f"{error:.1f}",
                    ),
                )
            )
    rows.sort(key=lambda row: -row[0])
    shown = [row for _, row in rows[:count]]
    head = ("data", "risk", "n", "promise", "alpha", "%", "default", "best valid", "error of gain")
    title = f"Where the default is more than 2 points behind: {len(rows)} figures of {total} levels"
    _print(title + ("" if len(shown) == len(rows) else f", the worst {len(shown)}"), head, shown)


def print_held_to(cells: Sequence[Cell]) -> None:
    """Whether the default is where it is held to be: the upper bound of every mean paired gap."""
    rows: list[Row] = []
    counts = {"held to": 0, "apart": 0}
    for level in (level for cell in cells for level in cell):
        default, n = level.of("default"), level.cell["n"]
        if default is None:
            continue
        measure = level.measures[0]
        for rival in level.fits:
            if rival.method == default.method or rival.p_value in (INVALID, ONE_ROLLOUT):
                continue
            certified = (default["certified"], rival["certified"])
            apart = any(NEVER < share < ALWAYS for share in certified)
            counts["apart" if apart else "held to"] += 1
            gap = rival[measure] - default[measure]
            bound = gap + ONE_SIDED_95 * rival[f"{measure}_gain_error"]
            if not apart and bound > (HELD_TO if n >= FEW else HELD_TO_FEW):
                where = (level.cell["data"], level.cell["risk"], f"{n:,}", level.promise)
                figures = (f"{100 * gap:.1f}", f"{100 * bound:.1f}")
                rows.append((*where, f"{level.alpha:g}", measure, rival.method, *figures))
    head = ("data", "risk", "n", "promise", "alpha", "%", "method", "ahead by", "bound")
    title = (
        f"Above the limit: {len(rows)} of {counts['held to']} comparisons; of "
        f"{sum(counts.values())} in all, {counts['apart']} are apart, where 5 to 95 % of the fits "
        "are certified"
    )
    _print(title, head, rows)
    print_promise_gaps(cells)


def print_promise_gaps(cells: Sequence[Cell]) -> None:
    """Where the simultaneous promise is further behind the pointwise one than it is held to."""
    found = {
        (level.cell["data"], level.cell["risk"], level.cell["n"], level.number, level.promise): fit
        for cell in cells
        for level in cell
        if APART not in level.cell["data"] and (fit := level.of("default"))
    }
    rows: list[Row] = []
    for (data, risk, n, number, promise), fit in found.items():
        if promise == PROMISES[0]:
            continue
        alone = found[data, risk, n, number, PROMISES[0]]
        for measure in ("right", "saved") if risk == "selective" else ("saved",):
            if (gap := alone[measure] - fit[measure]) > HELD_TO_POINTWISE:
                share = f"{100 * fit['certified']:.0f}"
                rows.append((data, risk, f"{n:,}", number + 1, measure, share, f"{100 * gap:.1f}"))
    head = ("data", "risk", "n", "level", "%", "certified, %", "behind by")
    _print(f"Simultaneous more than 5 points behind pointwise: {len(rows)}", head, rows)


def print_broken(cells: Sequence[Cell]) -> None:
    """How often a certified policy's true risk is above alpha, if the true risk is known."""
    rows: list[Row] = []
    ways = sorted(
        {(fit.method, fit.p_value) for cell in cells for fit in cell[0].fits},
        key=lambda way: (METHODS.index(way[0]), way[1]),
    )
    for method, kind in ways:
        for promise in PROMISES:
            shares = np.array(
                [
                    share
                    for cell in _chosen(cells, promise=promise)
                    if not cell[0].cell["held_out"]
                    for fit in cell[0].fits
                    if (fit.method, fit.p_value) == (method, kind)
                    for share in (
                        fit.values["broken"]
                        if promise == "pointwise"
                        else [fit.values["any_broken"]]
                    )
                ]
            )
            counts = f"{100 * shares.mean():.1f}", f"{100 * shares.max():.0f}"
            rows.append((method, kind, promise, len(shares), *counts))
    head = ("method", "p-value", "promise", "promises", "broken: mean, %", "most, %")
    _print("Promises broken (delta = 10 %), each judged on all draws", head, rows)


def _chosen(
    cells: Sequence[Cell],
    data: str | None = None,
    risk: str | None = None,
    promise: str | None = None,
) -> list[Cell]:
    return [
        cell
        for cell in cells
        if data in (None, cell[0].cell["data"])
        and risk in (None, cell[0].cell["risk"])
        and promise in (None, cell[0].promise)
    ]


def _alphas(cells: Sequence[Cell], data: str, risk: str) -> str:
    return ", ".join(f"{alpha:g}" for alpha in _chosen(cells, data, risk)[0][0].cell["alphas"])


def _figures(cell: Cell, method: str, measure: str = "saved") -> str:
    fits = [level.of(method) for level in cell]
    return _numbers([fit[measure] for fit in fits if fit])


def _numbers(shares: Sequence[float]) -> str:
    return " / ".join(f"{100 * share:.0f}" for share in shares)


def _print(title: str, head: Sequence[str], rows: Sequence[Row]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
