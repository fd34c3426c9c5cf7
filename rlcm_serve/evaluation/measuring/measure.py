"""Computes the measures of one benchmark from graded rollouts (RLCM §4 and §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration import Certificate, ExitPolicy
from calibration.certificate.levels import CertifiedLevel
from calibration.metrics.bootstrap import estimate_metrics, mean_over_problems, ratios_over_problems
from calibration.metrics.budget_cuts import cut_at
from calibration.metrics.early_exits import OracleExits
from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.share_intervals import shares_over_problems
from calibration.metrics.vote_curves import vote_curves
from calibration.policy.exit_search import find_exits
from calibration.policy.voting import NO_ANSWER
from calibration.traces.traces import Traces
from rlcm_serve.evaluation.datasets.loading import LoadedBenchmark
from rlcm_serve.evaluation.measuring import markers
from rlcm_serve.evaluation.measuring.by_source import measure_source
from rlcm_serve.evaluation.measuring.frontiers import find_frontiers
from rlcm_serve.evaluation.measuring.measures import (
    AtBudget,
    BenchmarkMeasures,
    Marker,
    OracleExit,
    Part,
)
from rlcm_serve.evaluation.measuring.risk_control import fit_sources, replay_certificates
from rlcm_serve.evaluation.recorded import Recorded

_BUDGETS = 40


def measure_benchmark(
    benchmark: LoadedBenchmark,
    recorded: Recorded,
    texts: Sequence[str],
    certificates: Sequence[Certificate],
) -> BenchmarkMeasures:
    """All measures of one benchmark.

    Args:
        texts: the reasoning of each rollout, in the order of the traces; may be empty.
        certificates: to replay; fitted for the same engine.
    """
    own = recorded.own
    scored = recorded.scored(recorded.own_source)
    final = np.arange(own.n_rollouts), own.final_R
    spent_R = own.tokens_RC[final] + recorded.answer_tokens_RC[final]
    categories, indicators = _markers(own, texts)
    natural, unread = _shares(own, own.natural_R, own.answer_class_RC[final] == NO_ANSWER)
    full = recorded.without_readings
    oracle = OracleExits.find(full)
    return BenchmarkMeasures(
        name=benchmark.name,
        title=benchmark.title,
        grader=benchmark.grader.name,
        problems=benchmark.digest,
        n_problems=own.n_problems,
        n_rollouts=own.n_rollouts,
        accuracy=estimate_metrics(scored, ["accuracy"])["accuracy"],
        tokens=_mean(spent_R, own),
        natural=natural.value or 0.0,
        unread=unread.value or 0.0,
        oracle_exit=OracleExit(
            share=len(oracle.row_O) / own.n_rollouts,
            tokens=oracle.mean_tokens(full),
            full_distance=oracle.full_distance(full),
        ),
        sources=tuple(measure_source(recorded, source, oracle) for source in recorded.sources),
        parts=tuple(_parts(scored, own.problem_ids, benchmark.parts)),
        budgets=tuple(_budgets(recorded, certificates)),
        controlled=(*replay_certificates(certificates, recorded), *fit_sources(recorded)),
        frontiers=find_frontiers(recorded),
        categories=categories,
        indicators=indicators,
        shares={"natural": natural, "unread": unread},
    )


def _parts(
    scored: ScoredRollouts, problem_ids: Sequence[str], parts: Mapping[str, str]
) -> Iterator[Part]:
    part_P = np.array([parts.get(problem_id, "") for problem_id in problem_ids])
    for name in sorted(set(part_P.tolist()) - {""}):
        chosen = scored.select(part_P == name)
        found = estimate_metrics(chosen, ["accuracy", "pce", "ece"])
        yield Part(name, chosen.n_problems, **found)


def _budgets(recorded: Recorded, certificates: Sequence[Certificate]) -> Iterator[AtBudget]:
    own = recorded.own
    stops = dict(_stops(own, certificates))
    traces = {source: recorded.traces(source) for source in recorded.sources}
    n = [int(own.rollouts_P.min())]
    for budget in _chosen_budgets(own):
        cuts = {source: cut_at(each, budget)[0] for source, each in traces.items()}
        scored, ended_R = cut_at(own, budget)
        votes = vote_curves(scored, n)
        yield AtBudget(
            tokens=budget,
            accuracy=estimate_metrics(scored, ["accuracy"])["accuracy"],
            ended=float(ended_R.mean()),
            exited={alpha: float((stop_R <= budget).mean()) for alpha, stop_R in stops.items()},
            ece={source: estimate_metrics(cut, ["ece"])["ece"] for source, cut in cuts.items()},
            majority=votes.majority[0],
            confidence=votes.confidence[0],
            oracle=votes.oracle[0],
        )


def _chosen_budgets(traces: Traces) -> list[int]:
    """Budgets at checkpoints that some rollout has reached, at most `_BUDGETS` of them."""
    checkpoints_RC = np.arange(traces.tokens_RC.shape[1]) < traces.final_R[:, None]
    budgets = np.unique(traces.tokens_RC[checkpoints_RC])
    return budgets[:: -(-len(budgets) // _BUDGETS)].tolist() if budgets.size else []


def _stops(
    traces: Traces, certificates: Sequence[Certificate]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """By alpha, the tokens at which a certified policy stops each rollout early, else infinity.

    The policy comes from the first certificate for one sample, a selective one if there is one.
    """
    single = [one for one in certificates if one.procedure.samples == 1]
    single.sort(key=lambda certificate: certificate.risk != "selective")
    levels = single[0].levels if single else ()
    certified = [level for level in levels if isinstance(level, CertifiedLevel)]
    policies: list[ExitPolicy] = [level.policy for level in certified]
    if not policies:
        return
    exits = find_exits(policies, traces.tokens_RC, traces.confidence_RC, traces.final_R)
    rows = np.arange(traces.n_rollouts)
    for t, level in enumerate(certified):
        stop_R = traces.tokens_RC[rows, exits.stop_RT[:, t]].astype(np.float64)
        stop_R[exits.ended_RT[:, t]] = np.inf
        yield f"{level.alpha:g}", stop_R


def _markers(traces: Traces, texts: Sequence[str]) -> tuple[tuple[Marker, ...], tuple[Marker, ...]]:
    """Markers by category and by phrase."""
    if not texts:
        return (), ()
    count_RI = markers.count_all(texts)
    named = [*((one.value, one.value) for one in markers.Category), *markers.CATEGORY_OF.items()]
    count_RK = np.hstack([markers.by_category(count_RI), count_RI])
    count_PK = np.column_stack([_sums(count_R, traces) for count_R in count_RK.T])
    tokens_R = traces.tokens_RC[np.arange(traces.n_rollouts), traces.final_R]
    per_rollout = ratios_over_problems(count_PK, traces.rollouts_P, unit_P=traces.unit_P)
    per_1000 = ratios_over_problems(1000 * count_PK, _sums(tokens_R, traces), unit_P=traces.unit_P)
    found = tuple(
        Marker(name, str(category), *figures)
        for (name, category), *figures in zip(named, per_rollout, per_1000, strict=True)
    )
    n_categories = len(markers.Category)
    return found[:n_categories], found[n_categories:]


def _mean(value_R: NDArray[np.int64], traces: Traces) -> Estimate:
    """The mean over problems of the mean over each problem's rollouts."""
    return mean_over_problems(_sums(value_R, traces) / traces.rollouts_P, unit_P=traces.unit_P)


def _shares(traces: Traces, *counted_R: NDArray[np.bool_]) -> tuple[Estimate, ...]:
    """Shares of rollouts."""
    count_PC = np.column_stack([_sums(each_R, traces) for each_R in counted_R])
    return shares_over_problems(count_PC, traces.rollouts_P, unit_P=traces.unit_P)


def _sums(value_R: NDArray[np.int64] | NDArray[np.bool_], traces: Traces) -> NDArray[np.float64]:
    sums_P = np.bincount(traces.problem_R, value_R, minlength=traces.n_problems)
    return sums_P.astype(np.float64)
