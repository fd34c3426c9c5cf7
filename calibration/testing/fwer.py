"""Control of the family-wise error rate: testing many policies at once.

Every procedure here takes p-values that are super-uniform under their null hypothesis, with any
dependence between them. It rejects a true null hypothesis with probability at most delta. It does
not cover hypotheses, an order, weights or a graph that were chosen by looking at the data behind
the p-values.
"""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.testing.graphs import ROUNDING, Flow, Graph
from calibration.testing.p_values import require_rate


class Promise(StrEnum):
    """Which statement holds with probability 1 - delta."""

    SIMULTANEOUS = "simultaneous"
    """All listed alphas together, so a caller may choose alpha after seeing which are certified."""
    POINTWISE = "pointwise"
    """Each listed alpha separately, so a caller must choose alpha before seeing the results."""


def bonferroni(p_values: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """Which hypotheses (H) the Bonferroni correction rejects: those with p <= delta / H.

    Raises:
        CalibrationError: delta is not in (0, 1).
    """
    p_H = _checked(p_values, delta)
    return np.asarray(p_H <= delta / max(p_H.size, 1), dtype=np.bool_)


def holm(p_values: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """Which hypotheses (H) Holm's step-down test rejects (Holm 1979): at least those of Bonferroni.

    From the smallest p-value on, each is rejected while p <= delta / (hypotheses not yet rejected).

    Raises:
        CalibrationError: delta is not in (0, 1).
    """
    p_H = _checked(p_values, delta)
    order_H = np.argsort(p_H)
    rejected_H = np.empty(p_H.size, dtype=np.bool_)
    rejected_H[order_H] = np.logical_and.accumulate(
        p_H[order_H] <= delta / np.arange(p_H.size, 0, -1)
    )
    return rejected_H


def fixed_sequence(p_values: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """Which hypotheses fixed-sequence testing rejects: all before the first p-value above delta.

    With probability at least 1 - delta no true null hypothesis is rejected, for any dependence
    between the p-values (LTT, arXiv 2110.01052): to reject any, the test must first reject the
    first true one of the sequence. It does not cover an order chosen by looking at the data that
    give the p-values.

    Raises:
        CalibrationError: delta is not in (0, 1).
    """
    return np.logical_and.accumulate(_checked(p_values, delta) <= delta)


def graph_test(
    p_values: ArrayLike, weights: ArrayLike, graph: Graph, delta: float
) -> NDArray[np.bool_]:
    """Which hypotheses (H) the sequentially rejective graph rejects (Bretz et al. 2009).

    Hypothesis h starts with the share weights[h] of delta. It is rejected once its p-value is at
    most its share, and then passes its share on along the graph. With probability at least 1 -
    delta no true null hypothesis is rejected, for any dependence. The cost of a rejection is its
    predecessors x successors: O(1) along a chain, O(chains) at the head of one of several chains.

    Raises:
        CalibrationError: delta is not in (0, 1), lengths differ, or weights are negative or sum to
            more than 1.
    """
    p_H = _checked(p_values, delta)
    flow = Flow(_checked_weights(weights, p_H.size, graph), graph)
    flow.run(p_H, delta)
    return flow.rejected_H


def certify_levels(
    p_values: ArrayLike,
    alphas: ArrayLike,
    weights: ArrayLike,
    graph: Graph,
    delta: float,
    promise: Promise,
) -> NDArray[np.bool_]:
    """Which policies (T) are certified at which levels (L), shape (L, T).

    Hypothesis (l, t) says that the risk of policy t is above alphas[l]. Pointwise: each level is a
    separate `graph_test` at delta; nothing is stated about two levels together.

    Simultaneous: one graph spans all levels. Each level starts with delta / L, distributed by its
    weights. A share that no untested hypothesis of its level can inherit leaves the level; it
    enters the other levels in equal parts, again distributed by their weights. A policy certified
    at alpha is also certified at every larger level alpha', since a risk <= alpha is <= alpha'; it
    passes on its share there.

    Then with probability at least 1 - delta no true null hypothesis is rejected at any level.
    Proof: the share of a hypothesis is a function of the set of hypotheses that are not yet
    rejected. It only grows as others are rejected, and all shares sum to at most delta. Let I be
    the set of true null hypotheses, and consider the first of them to be rejected. Until then only
    false ones were rejected, so each i in I holds at most w_i(I) delta, its share if exactly I were
    left. It was not rejected by implication from a smaller level: if (alpha', t) is a true null
    hypothesis then so is (alpha, t) for alpha < alpha', and that one would have been rejected
    before. So its p-value is at most w_i(I) delta, and the sum over I of P(p_i <= w_i(I) delta) is
    at most delta.

    Args:
        p_values: shape (L, T).
        alphas: risk levels, ascending.
        weights: shape (L, T), or (T,) if all levels have the same; each row sums to at most 1.
        graph: over the policies; the same within each level.
        delta: the probability with which the guarantee may fail.
        promise: simultaneous or pointwise, see above.

    Raises:
        CalibrationError: delta is not in (0, 1), alphas do not ascend, shapes differ, or weights
            are negative or sum to more than 1.
    """
    p_LT = np.atleast_2d(_checked(p_values, delta))
    _check_levels(alphas, p_LT)
    weights_LT = np.broadcast_to(np.asarray(weights, dtype=np.float64), p_LT.shape)
    if promise is Promise.POINTWISE:
        levels = zip(p_LT, weights_LT, strict=True)
        return np.array([graph_test(p_T, weight_T, graph, delta) for p_T, weight_T in levels])

    flows = [Flow(_checked_weights(w_T, p_LT.shape[1], graph), graph) for w_T in weights_LT]
    before = -1
    while (after := sum(int(flow.rejected_H.sum()) for flow in flows)) > before:
        before = after
        entered_L = _entered(np.array([flow.leaked for flow in flows]))
        for level, flow in enumerate(flows):
            for policy in flow.run(p_LT[level], delta * entered_L[level]):
                for larger in flows[level + 1 :]:
                    larger.reject(policy)
    return np.array([flow.rejected_H for flow in flows])


def delta_per_level(delta: float, alphas: Sequence[float], promise: Promise) -> float:
    """The share of delta that each level's test starts with.

    Simultaneous: delta is split evenly, so that all levels hold together. Pointwise: each level
    uses all of delta, and nothing is stated about two levels together.
    """
    return delta / len(alphas) if promise is Promise.SIMULTANEOUS else delta


def most_delta_L(delta: float, alphas: Sequence[float], promise: Promise) -> tuple[float, ...]:
    """The most of delta that the test of each level (L, by rising alpha) can ever have.

    A level whose test passes needs a p-value of at most this, whatever policies are tested by a
    graph, by Holm's or by Bonferroni's correction.

    Simultaneous: the level with the i-th smallest alpha has at most delta / i. Proof: consider the
    first hypothesis that is rejected at any of the i levels up to it. Until then only the larger
    levels can have passed on shares, and all of delta is divided evenly among the i levels, or
    among the hypotheses that are left. So its p-value is at most delta / i. What the level itself
    rejects later, or by implication, it rejects only thanks to this one; and a p-value of a smaller
    alpha is larger, if nothing is lost.

    Args:
        delta: the probability with which the guarantee may fail.
        alphas: risk levels, ascending.
        promise: pointwise, each level has all of delta from the start.
    """
    if promise is Promise.POINTWISE:
        return (delta,) * len(alphas)
    return tuple(delta / place for place in range(1, len(alphas) + 1))


def _entered(leaked_L: NDArray[np.float64]) -> NDArray[np.float64]:
    """The total share that enters each level (L): 1 / L, and parts of what leaves the others."""
    n_levels = leaked_L.size
    start_L = np.full(n_levels, 1 / n_levels)
    if n_levels == 1 or leaked_L.min() > 1 - ROUNDING:  # no hypothesis is left that could inherit
        return start_L
    passed_LL = (1 - np.eye(n_levels)) * np.minimum(leaked_L, 1.0) / (n_levels - 1)
    return np.linalg.solve(np.eye(n_levels) - passed_LL, start_L)


def _checked(p_values: ArrayLike, delta: float) -> NDArray[np.float64]:
    require_rate("delta", delta)
    return np.asarray(p_values, dtype=np.float64)


def _checked_weights(weights: ArrayLike, n: int, graph: Graph) -> NDArray[np.float64]:
    weight_H = np.asarray(weights, dtype=np.float64)
    if weight_H.shape != (n,) or len(graph.edges) != n:
        raise CalibrationError(
            f"{n} p-values, {weight_H.size} weights and a graph of {len(graph.edges)} hypotheses: "
            "the numbers must be equal"
        )
    if not (weight_H >= 0).all() or weight_H.sum() > 1 + ROUNDING:
        raise CalibrationError(
            f"weights sum to {weight_H.sum():g} and the smallest is {weight_H.min():g}: "
            "they must be >= 0 and sum to at most 1"
        )
    return weight_H


def _check_levels(alphas: ArrayLike, p_LT: NDArray[np.float64]) -> None:
    alpha_L = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if alpha_L.shape != p_LT.shape[:1] or (np.diff(alpha_L) <= 0).any():
        raise CalibrationError(
            f"alphas are {alpha_L.tolist()} for {len(p_LT)} rows of p-values: give one row per "
            "alpha, ascending"
        )
