"""The methods that choose which policies are tested, and the default method.

The constants here were chosen once, in the power study (docs/studies/calibration.md). Apart from
the number of problems, they do not depend on the data at hand.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.groups import Average, Groups
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import REGRET, Risk
from calibration.testing.chains import Chain, family_of_chains
from calibration.testing.families import Correction, Family, Grid, interval_of
from calibration.testing.learned_path import learn_path, utility_shown
from calibration.testing.p_values import fewest_problems
from calibration.testing.recipe import LOWS_PER_FALL, Recipe
from calibration.testing.rescale import Scale
from calibration.traces.traces import Traces

RESCALE_FROM = 150
"""Number of units from which on scale and start of the chains are learned, on some of the units."""
RESCALE_SHARE = 0.1
ORDER_SHARE = 0.3
"""Share of the units that a learned path is made from, if the traces must serve for both."""

LEARN_FROM = 100
"""Number of units to learn from, from which on the default tests a path learned from them too."""
PATH_FROM = 300
"""Units of the test from which on it does so under a risk that may abstain.

With fewer, the levels that few answers can show are lost if δ is divided.
"""
PATH_GAIN = 0.2
"""Gain in utility on the units to learn from at which a path is tested also with fewer of them.

So much is not gained by luck. It shows that the chains do not fit this confidence.
"""
NEIGHBOURS = 10
"""Policies on each side that tell a safe start from a lucky one: one unit in log-odds of λ2."""
SHARE_OF_PATH = 0.5
"""δ of that path; the chains of fixed thresholds have the rest.

Where every question counts, both come after the safest of their first policies, which has all δ.
"""


class Method(StrEnum):
    """Which policies are tested, and in what structure."""

    AUTO = "auto"
    """Rescaled chains with ordering problems, or from `RESCALE_FROM` units on, except under
    `regret`; otherwise chains. With `LEARN_FROM` ordering units, half of δ goes to a learned path;
    under a risk that may abstain, from `PATH_FROM` units of the test on, or where these units show
    that the chains are much worse."""
    FIXED_SEQUENCE = "fixed-sequence"
    """One chain of fixed thresholds without low exits; uses no data."""
    CHAINS = "chains"
    """Chains of fixed thresholds with low exits; uses no data."""
    RESCALED_CHAINS = "rescaled-chains"
    """Chains whose thresholds are on a confidence scale learned from other problems.

    Where every question counts, these problems also show where a chain starts; under `error`, also
    which low exits it has."""
    SPLIT = "split"
    """One path through the grid, learned from other problems (Pareto Testing)."""
    HOLM = "holm"
    """The whole grid without order, with Holm's correction."""
    BONFERRONI = "bonferroni"
    """The whole grid without order, with Bonferroni's correction."""


def share_learned_from(method: Method, risk: Risk, n_units: int, needed: int = 0) -> float:
    """The share of the units that a method learns from, so that they take no part in its test.

    The default learns nothing under `regret`: there the full budget has no risk to start from, and
    the chains reach every threshold in small steps. Nor does it learn where the rest would be too
    few, so that one more problem never makes a test impossible.

    Args:
        method: the method.
        risk: the risk to bound.
        n_units: problems or groups.
        needed: the fewest of them that the test takes.
    """
    if method is Method.SPLIT:
        return ORDER_SHARE
    if method is Method.RESCALED_CHAINS:
        return RESCALE_SHARE
    rescales = method is Method.AUTO and n_units >= RESCALE_FROM and risk.name != REGRET.name
    is_enough = n_units - round(RESCALE_SHARE * n_units) >= needed
    return RESCALE_SHARE if rescales and is_enough else 0.0


def units_tested(method: Method, risk: Risk, n_units: int, needed: int = 0) -> int:
    """The units that are left to test on, if a method must learn from a part of them.

    The arguments are those of `share_learned_from`.
    """
    return n_units - round(share_learned_from(method, risk, n_units, needed) * n_units)


def split_traces(
    method: Method, risk: Risk, traces: Traces, needed: int = 0
) -> tuple[Traces | None, Traces]:
    """The problems to learn from (None if the method needs none) and the problems to test on.

    What was recorded decides the split, not the problems' names. `needed` is that of
    `share_learned_from`.
    """
    share = share_learned_from(method, risk, traces.n_units, needed)
    return traces.split_by_content(share) if share else (None, traces)


def find_split(traces: Traces, tested_digest: str) -> tuple[Traces | None, Traces] | None:
    """The problems learned from and the problems tested, identified by the digest of the latter.

    None if neither the traces nor the test part of `split_traces` have that digest.
    """
    if traces.digest == tested_digest:
        return None, traces
    for share in (RESCALE_SHARE, ORDER_SHARE):
        if 0 < round(share * traces.n_units) < traces.n_units:  # neither part is empty
            learned_from, tested = traces.split_by_content(share)
            if tested.digest == tested_digest:
                return learned_from, tested
    return None


def family_for(
    method: Method,
    risk: Risk,
    procedure: Procedure,
    alphas: Sequence[float],
    level_delta: float,
    token_price: float,
    *,
    grid: Grid | None,
    order: Traces | None,
    recording: Traces,
    n_units: int,
    average: Average = Average.PROBLEMS,
) -> Family:
    """The policies that a method tests, in its structure.

    Args:
        method: the method.
        risk: the risk to bound.
        procedure: how one question is answered.
        alphas: risk levels, rising.
        level_delta: δ of one level.
        token_price: see `certify`.
        grid: by default `Grid.absolute` for the interval and budget of the traces. Chains use only
            the smoothing of a given grid.
        order: labelled problems to learn from; the test does not use them.
        recording: traces of the same recording; only their fingerprint is used.
        n_units: the units of the test.
        average: what counts the same in the risk on the problems learned from.
    """
    if grid is None:
        budget = recording.fingerprint.max_tokens if recording.fingerprint else None
        grid = Grid.absolute(interval_of(recording), budget)
    if method in (Method.HOLM, Method.BONFERRONI):
        policies = grid.policies(risk, procedure)
        return Family(policies, Correction(str(method)), f"{method} over {grid.source}")
    if method in (Method.SPLIT, Method.RESCALED_CHAINS) and order is None:
        raise CalibrationError(f"the method {method} learns from other problems: give `order`")
    if method in (Method.CHAINS, Method.FIXED_SEQUENCE):
        order = None
    recipe = Recipe(
        risk,
        procedure,
        interval_of(recording),
        Scale() if order is None else Scale.fit(order),
        low_exits=method is not Method.FIXED_SEQUENCE,
        n_units=n_units,
        smoothing=grid.smoothing,
    )
    chains_L = [recipe.chains(alpha) for alpha in alphas]
    if order is None:
        return family_of_chains(chains_L, recipe.source)
    along = (
        f"along one path of policies, learned from {order.n_problems} other problems over "
        f"{grid.source}"
    )
    path: tuple[ExitPolicy, ...] = ()
    if _learns_path(method, risk, procedure, n_units, order):
        path = _learned_path(risk, procedure, level_delta, token_price, grid, order, average)
    if method is Method.SPLIT:
        return family_of_chains([[Chain(path, 1.0)]] * len(alphas), f"fixed sequence {along}")
    if not (_tests_path(risk, n_units, order) or risk.answers_always):
        tested = [chain.policies for chain in chains_L[-1]]
        path = path if _promises_more(path, tested, alphas[-1], order, recipe, token_price) else ()
    if path and not risk.answers_always:
        chains_L = [_divided(chains, 1 - SHARE_OF_PATH) for chains in chains_L]
    chains_L = [
        [_started(chain, alpha, level_delta, n_units, order, recipe) for chain in chains]
        for alpha, chains in zip(alphas, chains_L, strict=True)
    ]
    if risk.answers_always and risk.name != REGRET.name:
        chains_L = [
            [_giving_up(chain, alphas[-1], order, recipe) for chain in chains]
            for chains in chains_L
        ]
    if not path:
        return family_of_chains(chains_L, recipe.source)
    if risk.answers_always:
        chains_L = [_forked(path, chains, order, recipe) for chains in chains_L]
    else:
        chains_L = [[Chain(path, SHARE_OF_PATH), *chains] for chains in chains_L]
    return family_of_chains(chains_L, f"{recipe.source}, and {along}")


def _started(
    chain: Chain, alpha: float, level_delta: float, n_units: int, order: Traces, recipe: Recipe
) -> Chain:
    """The chain without its first policies that `order` shows to be a bad start.

    Where every question counts, it starts at the least risk: an exit may be right more often than
    the full budget, whose rollouts can lose an answer that they had. Where the service may abstain,
    it starts where enough is answered. A test of n answered questions can pass only if n reaches
    `fewest_problems`, however few answers are wrong.
    """
    if order.rollouts_P.min() < recipe.procedure.samples:
        return chain
    on_order = replay(order, chain.policies, recipe.risk, recipe.procedure)
    if recipe.risk.answers_always:
        start = _safest(on_order.losses.risk_T, order.n_units)
    else:
        fewest = fewest_problems(alpha, chain.share * level_delta)
        start = int(np.argmax(on_order.answered_T * n_units >= fewest))
    return replace(chain, policies=chain.policies[start:])


def _safest(risk_T: NDArray[np.float64], n_units: int) -> int:
    """The policy of a chain with the least risk, as `n_units` other units show it.

    With few units the least of many risks is often that of a lucky policy. So of the policies with
    at most one wrong answer more than the least, it is the one with the safest neighbours.
    """
    if n_units >= LEARN_FROM:
        return int(np.argmin(risk_T))
    padded = np.pad(risk_T, NEIGHBOURS, mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1)
    near_T = risk_T <= risk_T.min() + (1 + 1e-6) / n_units
    return int(np.argmin(np.where(near_T, around.mean(axis=1).round(9), np.inf)))


def _giving_up(chain: Chain, alpha: float, order: Traces, recipe: Recipe) -> Chain:
    """The chain with the low exits that save the most tokens on `order`, or with none.

    What counts is the mean number of tokens over all risks from that of the chain's first policy to
    alpha, each kept by the policies up to the first that exceeds it. Ties go to fewer low exits.
    """
    if order.rollouts_P.min() < recipe.procedure.samples:
        return chain
    chains = [recipe.giving_up(chain, per_fall) for per_fall in LOWS_PER_FALL]
    tokens = []
    for each in chains:
        on_order = replay(order, each.policies, recipe.risk, recipe.procedure)
        risk_T = np.maximum.accumulate(on_order.losses.risk_T).clip(max=alpha)
        fewest_T = np.minimum.accumulate(on_order.tokens_T)
        tokens.append(round(float(fewest_T @ np.diff(risk_T, append=alpha)), 9))
    return chains[int(np.argmin(tokens))]


def _forked(
    path: tuple[ExitPolicy, ...], chains: Sequence[Chain], order: Traces, recipe: Recipe
) -> list[Chain]:
    """One chain that forks into the path and the chains after the safest of their first policies.

    There all of δ tests the policy that decides whether anything is certified.
    """
    firsts = [*(chain.policies[0] for chain in chains), path[0]]
    shown = replay(order, firsts, recipe.risk, recipe.procedure).losses.risk_T
    start = firsts[int(np.argmin(shown))]
    along = [Chain(path, SHARE_OF_PATH), *_divided(chains, 1 - SHARE_OF_PATH)]
    return [Chain((start,), 1.0, tuple(rest for chain in along for rest in _after(start, chain)))]


def _after(start: ExitPolicy, chain: Chain) -> list[Chain]:
    """What is left of a chain, or of its forks, behind its first policy, if that is `start`."""
    if chain.policies[0] != start:
        return [chain]
    if len(chain.policies) > 1:
        return [replace(chain, policies=chain.policies[1:])]
    return _divided(chain.forks, chain.share)


def _divided(chains: Sequence[Chain], share: float) -> list[Chain]:
    """The chains with that part of their shares."""
    return [replace(chain, share=chain.share * share) for chain in chains]


def _learns_path(
    method: Method, risk: Risk, procedure: Procedure, n_units: int, order: Traces
) -> bool:
    """Whether a path is learned from `order`: to be tested alone, or by default perhaps beside."""
    if method is not Method.AUTO:
        return method is Method.SPLIT
    needed = not risk.answers_always or _tests_path(risk, n_units, order)
    return needed and bool(order.rollouts_P.min() >= procedure.samples)


def _tests_path(risk: Risk, n_units: int, order: Traces) -> bool:
    """Whether the units suffice to test a path beside the chains, whatever both promise."""
    return order.n_units >= LEARN_FROM and (risk.answers_always or n_units >= PATH_FROM)


def _promises_more(
    path: tuple[ExitPolicy, ...],
    chains: Sequence[tuple[ExitPolicy, ...]],
    alpha: float,
    order: Traces,
    recipe: Recipe,
    token_price: float,
) -> bool:
    """Whether `order` shows the path to be better than all chains by `PATH_GAIN`."""

    def shown(policies: tuple[ExitPolicy, ...]) -> float:
        return utility_shown(
            replay(order, policies, recipe.risk, recipe.procedure), alpha, token_price
        )

    return bool(path) and shown(path) >= PATH_GAIN + max(map(shown, chains))


def _learned_path(
    risk: Risk,
    procedure: Procedure,
    level_delta: float,
    token_price: float,
    grid: Grid,
    order: Traces,
    average: Average,
) -> tuple[ExitPolicy, ...]:
    policies = grid.policies(risk, procedure)
    on_order = replay(order, policies, risk, procedure, Groups(average))
    path = learn_path(on_order, level_delta, None if risk.answers_always else token_price)
    return tuple(policies[t] for t in path)
