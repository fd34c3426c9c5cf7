"""Power of each way of certifying: tokens saved, answers, and errors, where true risks are known.

    python -m studies.statistics.power_study [--gpqa FILE] [--only NAME ...] [--risks NAME ...]
        [--sizes N ...] [--out FOLDER]
    python -m studies.statistics.power_study --smoke
    python -m studies.statistics.power_study --check

A cell is a data set, a risk and a number of labelled problems. In each draw of problems, all
methods certify the same levels under both promises, and the certified policies are measured on the
whole population. `PLAIN` is what one writes without this package: a fixed sequence along one
threshold. Bonferroni is left out, because Holm certifies all that it does.

Each cell is stored as a line of JSON and not computed again, so an interrupted run continues;
delete the folder after a change. At the end all cells are written to one file (`--results`), from
which `power_tables.py` makes the tables. The real trace is not part of this repository: without
`--gpqa` its cells are left out.

Policies are replayed once per data set; policies with thresholds fitted to the draw, once per draw.
Families, tests and choices come from the product. `--check` compares them with the certificates of
`certify` on some draws, and stops if one differs.
"""

import json
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibration import (
    CertifiedLevel,
    Chain,
    ExitPolicy,
    Family,
    Method,
    Promise,
    PValue,
    Replay,
    Risk,
    Traces,
    certify,
    family_of_chains,
    risk_named,
)
from calibration.certificate.certify import default_p_value
from calibration.certificate.fitting.tested import certify_policies
from calibration.policy.exit_rule import NEVER
from calibration.testing.families import full_budget
from calibration.testing.fwer import delta_per_level
from calibration.testing.learned_path import TOKEN_PRICE, choose_policy, learn_path
from calibration.testing.methods import (
    LEARN_FROM,
    family_for,
    share_learned_from,
    split_traces,
)
from calibration.testing.recipe import FORK_FROM
from studies.smoke import study_parser
from studies.statistics.power_data import MODELS, TRACES, Population, populations, smallest
from studies.statistics.power_pool import Pool

DELTA = 0.1
PLAIN = "plain"
LEARNING = (Method.AUTO, Method.RESCALED_CHAINS, Method.SPLIT)
METHODS = (
    Method.AUTO,
    Method.FIXED_SEQUENCE,
    Method.CHAINS,
    Method.RESCALED_CHAINS,
    Method.SPLIT,
    Method.HOLM,
    PLAIN,
)
RESULTS = Path("studies/results/power.json")
KINDS = (PValue.BETTING, PValue.HOEFFDING_BENTKUS, PValue.CLT)
"""P-values compared under the default method, for averaged losses."""
FIGURES = ("certified", "risk", "saved", "right", "answered", "utility")
"""Figures of a level. Without a certified policy, risk is undefined and the others are 0.

The utility is what the choice of a policy maximises, in shares of the questions: right answers less
the price of the tokens. Without a policy it is 0: nothing is answered, and nothing is spent.
"""
GAINS = ("saved", "right", "utility")
CHECKED = (
    "embedded",
    "embedded-sft, overconfident",
    "embedded-sft, 4 rollouts",
    "embedded-sft, vote of 4",
    "world: grouped",
)

Served: TypeAlias = list[ExitPolicy | None]
"""The policy chosen at each level; None if none is certified."""


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--gpqa", type=Path, help="the real trace, a Parquet file")
    parser.add_argument("--traces", type=Path, default=TRACES, help="of the embedded models")
    parser.add_argument("--models", type=Path, default=MODELS, help="with their probes' readings")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="data sets, by name")
    parser.add_argument("--risks", nargs="+", metavar="NAME", help="risks, by name")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="numbers of problems")
    parser.add_argument("--out", type=Path, default=Path("runs/power"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--repeats", type=int, help="draws of each cell")
    parser.add_argument("--check", action="store_true", help="compare with certify, and stop")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            run([smallest()], Path(folder))
            print(f"{len([*Path(folder).glob('*.json')])} cells computed")
        return
    names = CHECKED if options.check else options.only
    chosen = [
        population
        for population in populations(options.gpqa, options.traces, options.models)
        if not names or population.name in names
    ]
    if options.repeats:
        chosen = [replace(population, repeats=options.repeats) for population in chosen]
    if options.check:
        check(chosen)
    else:
        run(chosen, options.out, options.risks, options.sizes)
        cells = [path.read_text() for path in sorted(options.out.glob("*.json"))]
        options.results.write_text("[\n" + ",\n".join(cell.strip() for cell in cells) + "\n]\n")


def run(
    chosen: Sequence[Population],
    folder: Path,
    risks: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
) -> None:
    """Computes the missing cells, of all risks and sizes or only of some; progress to stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    cells = [
        (folder / f"{_slug(population.name)}-{risk}-{n}.json", population, risk, n)
        for population in chosen
        for risk in population.risks
        for n in population.sizes
        if (not risks or risk in risks) and (not sizes or n in sizes)
    ]
    cells = [cell for cell in cells if not cell[0].exists()]
    work = np.cumsum([population.repeats * (n + 500) for _, population, _, n in cells])
    started = time.monotonic()
    study: Study | None = None
    for number, (path, population, risk, n) in enumerate(cells):
        if study is None or study.population is not population or study.risk.name != risk:
            study = Study.of(population, risk_named(risk))
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(study.cell(n)) + "\n")
        partial.replace(path)
        seconds = time.monotonic() - started
        left = seconds * (work[-1] / work[number] - 1)
        line = f"{number + 1}/{len(cells)} {path.stem}: {seconds:.0f} s, {left / 60:.0f} min left"
        print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Units drawn for calibration, units to measure on (None: all), and replays made so far.

    Attributes:
        seed: of the betting test.
        replays: replays of policies on all drawn units, by the id of the policies' tuple.
        learned: families learned from some of the drawn units, by method and promise, and their
            replays on the others.
    """

    unit_U: NDArray[np.intp]
    rest_U: NDArray[np.intp] | None
    seed: int
    replays: dict[int, Replay] = field(default_factory=dict)
    learned: dict[tuple[str, Promise], tuple[Family, Replay]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """A population under a risk, with all policies replayed on it.

    Attributes:
        alphas: levels, ascending.
        families: families of the methods that do not learn from the draw.
        few: that of the chains below `FORK_FROM` units.
        from_order: by method, promise and n, what is learned from the population's `order`.
        pool: their policies on all units, with those of the grid and, for comparison, those of
            chains rescaled by the whole population.
        truth: the same policies, in the order of the pool.
    """

    population: Population
    risk: Risk
    alphas: tuple[float, ...]
    families: dict[str, Family]
    few: Family
    from_order: dict[tuple[str, Promise, int], Family]
    pool: Pool
    truth: Replay
    _places: dict[tuple[Method, int], tuple[NDArray[np.intp], NDArray[np.intp]]] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, population: Population, risk: Risk) -> Self:
        """Replays everything that does not depend on a draw."""
        alphas = population.alphas(risk)

        def family(
            method: Method,
            order: Traces | None = None,
            n_units: int = population.n_units,
            delta: float = DELTA,
        ) -> Family:
            return family_for(
                method, risk, population.procedure, alphas, delta, TOKEN_PRICE,
                grid=population.grid_for(risk), order=order, recording=population.traces,
                n_units=n_units,
            )  # fmt: skip

        families: dict[str, Family] = {
            method: family(method) for method in (Method.HOLM, Method.FIXED_SEQUENCE, Method.CHAINS)
        }
        families[PLAIN] = plain_family(risk, population.procedure.samples, len(alphas))
        few = family(Method.CHAINS, n_units=FORK_FROM - 1)
        order = population.order
        scaled = family(Method.RESCALED_CHAINS, order or population.traces)
        from_order: dict[tuple[str, Promise, int], Family] = {
            (method, promise, n): family(method, order, n, delta_per_level(DELTA, alphas, promise))
            for method in LEARNING
            if order and (method is not Method.SPLIT or population.order_votes)
            for promise in Promise
            for n in population.sizes
        }
        every = (*families.values(), few, scaled, *from_order.values())
        pool = population.pool([p for each in every for p in each.policies], risk)
        everyone_U = np.arange(population.n_units)
        return cls(
            population, risk, alphas, families, few, from_order, pool,
            pool.replay(everyone_U, list(pool.column)),
        )  # fmt: skip

    @property
    def token_price(self) -> float | None:
        return None if self.risk.answers_always else TOKEN_PRICE

    def cell(self, n: int) -> dict[str, Any]:
        """All methods on `n` labelled problems, as plain JSON values."""
        population, started = self.population, time.monotonic()
        rng = np.random.default_rng([zlib.crc32(population.name.encode()), n])
        found: dict[tuple[str, Promise, PValue], list[NDArray[np.float64]]] = {}
        for repeat in range(population.repeats):
            draw = Draw(*population.draw(rng, n), seed=repeat)
            for method in METHODS:
                for key, figures_LF in self.measured(method, draw).items():
                    found.setdefault((method, *key), []).append(figures_LF)
        return {
            "data": population.name,
            "risk": self.risk.name,
            "n": n,
            "repeats": population.repeats,
            "held_out": population.held_out,
            "alphas": self.alphas,
            "full_right": self.truth.full_right,
            "full_tokens": self.truth.full_tokens,
            "best": [self.best(alpha) for alpha in self.alphas],
            "fits": [
                {
                    "method": method,
                    "promise": promise,
                    "p_value": kind,
                    **self._means(np.array(figures), np.array(found[Method.AUTO, promise, own])),
                }
                for (method, promise, kind), figures in found.items()
                for own in (next(k for m, p, k in found if (m, p) == (Method.AUTO, promise)),)
            ],
            "seconds": round(time.monotonic() - started, 1),
        }

    def measured(
        self, method: str, draw: Draw
    ) -> dict[tuple[Promise, PValue], NDArray[np.float64]]:
        """Figures of the policies that a method serves after one draw, (levels, FIGURES)."""
        served = self.served(method, draw)
        policies = list(dict.fromkeys(p for each in served.values() for p in each if p))
        truth = self._replay(policies, draw.rest_U) if policies else self.truth
        nothing = (0.0, np.nan, 0.0, 0.0, 0.0, 0.0)
        figures_TF = np.stack(
            [
                np.ones(len(truth.tokens_T)),
                truth.losses.risk_T,
                1 - truth.tokens_T / truth.full_tokens,
                truth.right_T,
                truth.answered_T,
                truth.right_T - TOKEN_PRICE * truth.tokens_T / truth.full_tokens,
            ],
            axis=1,
        )
        return {
            key: np.array([figures_TF[policies.index(p)] if p else nothing for p in each])
            for key, each in served.items()
        }

    def served(self, method: str, draw: Draw) -> dict[tuple[Promise, PValue], Served]:
        """The policies that a method serves after being fitted on a draw."""
        served = {}
        on_test: Replay | None = None
        for promise in Promise:
            if on_test is None or method in LEARNING:
                family, on_test = self._fit(method, promise, draw)
            own = default_p_value(on_test, self.risk)
            compared = method == Method.AUTO and own is PValue.BETTING
            for kind in KINDS if compared else (own,):
                served[promise, kind] = self._serve(family, on_test, promise, kind, draw.seed)
        return served

    def best(self, alpha: float) -> dict[str, float] | None:
        """The best policy with a true risk of at most alpha, which no method can know."""
        truth = self.truth
        kept_T = np.flatnonzero(truth.losses.risk_T <= alpha)
        if not kept_T.size:
            return None
        best = kept_T[self._choose(truth, kept_T)]
        return {
            "saved": float(1 - truth.tokens_T[best] / truth.full_tokens),
            "right": float(truth.right_T[best]),
            "answered": float(truth.answered_T[best]),
            "utility": float(
                truth.right_T[best] - TOKEN_PRICE * truth.tokens_T[best] / truth.full_tokens
            ),
        }

    def _fit(self, method: str, promise: Promise, draw: Draw) -> tuple[Family, Replay]:
        """The family that a method tests, replayed on the units that test it."""
        n = len(draw.unit_U)
        learned = self.from_order.get((method, promise, n))
        if method == Method.AUTO and not share_learned_from(Method.AUTO, self.risk, n):
            method = Method.CHAINS
        if learned or method not in LEARNING:
            few = method == Method.CHAINS and n < FORK_FROM
            family = learned or (self.few if few else self.families[method])
            key = id(family.policies)
            if key not in draw.replays:
                draw.replays[key] = self.pool.replay(draw.unit_U, family.policies)
            return family, draw.replays[key]
        order_U, test_U = self._split(Method(method), draw.unit_U)
        if method == Method.AUTO and self.risk.answers_always and len(order_U) < LEARN_FROM:
            method = Method.RESCALED_CHAINS  # too few units for a path
        if (method, promise) in draw.learned:
            return draw.learned[method, promise]
        level_delta = delta_per_level(DELTA, self.alphas, promise)
        if method == Method.SPLIT:
            family = self._learned(level_delta, order_U)
        else:
            population = self.population
            family = family_for(
                Method(method), self.risk, population.procedure, self.alphas, level_delta,
                TOKEN_PRICE, grid=population.grid_for(self.risk), order=population.take(order_U),
                recording=population.traces, n_units=len(test_U),
            )  # fmt: skip
        draw.learned[method, promise] = family, self._replay(family.policies, test_U)
        return draw.learned[method, promise]

    def forget_splits(self) -> None:
        """Let the next draw decide by its own content which units are learned from."""
        self._places.clear()

    def _learned(self, level_delta: float, order_U: NDArray[np.intp]) -> Family:
        """The family that `family_for` learns, without its replay."""
        policies = self.families[Method.HOLM].policies
        path = learn_path(self.pool.replay(order_U, policies), level_delta, self.token_price)
        chain = Chain(tuple(policies[t] for t in path), 1.0)
        return family_of_chains([[chain]] * len(self.alphas), "learned")

    def _split(
        self, method: Method, unit_U: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The units to learn from and to test on: the places of the first draw's serve them all."""
        key = method, len(unit_U)
        if key not in self._places:
            order, test = split_traces(method, self.risk, self.population.take(unit_U))
            self._places[key] = _places(order), _places(test)
        order_N, test_N = self._places[key]
        return unit_U[order_N], unit_U[test_N]

    def _replay(self, policies: Sequence[ExitPolicy], unit_U: NDArray[np.intp] | None) -> Replay:
        """Replays policies on some units, which may repeat, or on all units."""
        population = self.population
        known = all(policy in self.pool.column for policy in policies)
        if unit_U is None:
            pool = self.pool if known else population.pool(policies, self.risk)
            return pool.replay(np.arange(population.n_units), policies)
        if known:
            return self.pool.replay(unit_U, policies)
        once_U, back_U = np.unique(unit_U, return_inverse=True)
        return population.pool(policies, self.risk, once_U).replay(back_U, policies)

    def _serve(
        self, family: Family, on_test: Replay, promise: Promise, kind: PValue, seed: int
    ) -> Served:
        tested = certify_policies(on_test.losses, family, self.alphas, DELTA, promise, kind, seed)
        certified = [np.flatnonzero(certified_T) for certified_T in tested.certified_LT]
        return [
            family.policies[kept_T[self._choose(on_test, kept_T)]] if kept_T.size else None
            for kept_T in certified
        ]

    def _choose(self, replayed: Replay, kept_T: NDArray[np.intp]) -> int:
        return choose_policy(
            replayed.right_T[kept_T],
            replayed.tokens_T[kept_T] / replayed.full_tokens,
            replayed.losses.risk_T[kept_T],
            self.token_price,
        )

    def _means(
        self, figures_NLF: NDArray[np.float64], default_NLF: NDArray[np.float64]
    ) -> dict[str, Any]:
        """Means over draws (N), of risks over certified draws; standard errors of the gains."""
        certified_NL, risk_NL = figures_NLF[:, :, 0], figures_NLF[:, :, 1]
        broken_NL = risk_NL > np.array(self.alphas)
        gain_NLF = figures_NLF - default_NLF
        error_LF = gain_NLF.std(axis=0, ddof=1) / np.sqrt(len(gain_NLF))
        means = {
            name: figures_NLF[:, :, figure].mean(axis=0)
            for figure, name in enumerate(FIGURES)
            if name != "risk"
        }
        means["risk"] = np.nansum(risk_NL, axis=0) / np.maximum(certified_NL.sum(axis=0), 1)
        means["broken"] = broken_NL.mean(axis=0)
        for name in GAINS:
            means[f"{name}_gain_error"] = error_LF[:, FIGURES.index(name)]
        rounded: dict[str, Any] = {
            name: np.round(value_L, 4).tolist() for name, value_L in means.items()
        }
        return rounded | {"any_broken": round(float(broken_NL.any(axis=1).mean()), 5)}


def plain_family(risk: Risk, samples: int, n_levels: int) -> Family:
    """A fixed sequence along one threshold in steps of .01, of exits, answers and votes alike."""
    full = full_budget(risk)
    steps = [round(1 - step / 100, 2) for step in range(1, 100)]
    if risk.answers_always:
        path = (full, *(replace(full, lambda_high=high) for high in (NEVER, *steps, 0.0)))
    elif samples == 1:
        path = tuple(replace(full, lambda_high=high, lambda_answer=high) for high in steps)
    else:
        path = tuple(replace(full, lambda_high=high, lambda_vote=high) for high in steps)
    chain = Chain(tuple(dict.fromkeys(path)), 1.0)
    return family_of_chains([[chain]] * n_levels, "one threshold")


def check(chosen: Sequence[Population], n: int = 100, repeats: int = 2) -> None:
    """Compares the policies served here with the certificates of the same draws."""
    rng = np.random.default_rng(0)
    compared = 0
    for population in chosen:
        for risk in map(risk_named, population.risks):
            study = Study.of(population, risk)
            for _ in range(repeats):
                unit_U, _ = population.draw(rng, n)
                for method in METHODS[:-1]:
                    compared += _check(study, method, unit_U)
    print(f"{compared} certificates, all of them the same")


def _check(study: Study, method: str, unit_U: NDArray[np.intp]) -> int:
    by_content_U = np.argsort(study.population.take(unit_U).unit_P[:: study.population.unit_size])
    unit_U = unit_U[by_content_U]  # the order in which certify tests
    study.forget_splits()
    traces, order = study.population.take(unit_U), None
    test = traces
    if (method, Promise.POINTWISE, len(unit_U)) in study.from_order:
        order = study.population.order
    else:
        _, test = split_traces(Method(method), study.risk, traces)
    found = study.served(method, Draw(unit_U, None, test.seed))
    for (promise, kind), served in found.items():
        certificate = certify(
            traces, risk=study.risk, alphas=study.alphas, delta=DELTA, promise=promise,
            samples=study.population.procedure.samples, p_value=kind, method=method,
            grid=study.population.grid_for(study.risk), order=order,
        )  # fmt: skip
        expected = [
            level.policy if isinstance(level, CertifiedLevel) else None
            for level in certificate.levels
        ]
        if served != expected:
            raise SystemExit(
                f"{study.population.name}, {study.risk.name}, {method}, {promise}, {kind}: "
                f"served {served}, and certify gives {expected}"
            )
    return len(found)


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def _places(traces: Traces | None) -> NDArray[np.intp]:
    """Positions in the draw, from the names that `Population.take` gives to units."""
    names = () if traces is None else traces.problem_ids
    return np.array(sorted({int(name.split(".")[0]) for name in names}), dtype=np.intp)


if __name__ == "__main__":
    main()
