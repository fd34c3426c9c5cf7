"""Graphs that pass on shares of delta from rejected hypotheses to others (Bretz et al. 2009)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError

ROUNDING = 1e-9
"""Tolerance for floating-point sums of shares."""


@dataclass(frozen=True)
class Graph:
    """Who inherits the share of delta of a rejected hypothesis.

    Attributes:
        edges: for each hypothesis its (successor, share) pairs. If the shares sum to less than 1,
            the rest is lost.

    Raises:
        CalibrationError: a successor is not another hypothesis or occurs twice, a share is
            negative, or shares sum to more than 1.
    """

    edges: tuple[tuple[tuple[int, float], ...], ...]

    def __post_init__(self) -> None:
        for node, edges in enumerate(self.edges):
            successors = [successor for successor, _ in edges]
            if len(set(successors)) < len(successors):
                raise CalibrationError(f"hypothesis {node} has a successor twice: {successors}")
            for successor, share in edges:
                if successor == node or not 0 <= successor < len(self.edges):
                    raise CalibrationError(
                        f"hypothesis {node} passes on to {successor}: name another hypothesis, 0 "
                        f"to {len(self.edges) - 1}"
                    )
                if not 0 <= share <= 1 + ROUNDING:
                    raise CalibrationError(
                        f"hypothesis {node} passes on the share {share}: give a number from 0 to 1"
                    )
            if (total := sum(share for _, share in edges)) > 1 + ROUNDING:
                raise CalibrationError(
                    f"hypothesis {node} passes on {total} in all: its shares must sum to at most 1"
                )


def chain_graph(chains: Sequence[Sequence[int]], n_hypotheses: int) -> Graph:
    """The graph in which each chain passes its share along itself, and at its end to the others.

    The end of a chain passes equal shares to the starts of the other chains. The end of a single
    chain passes on nothing. Hypotheses on no chain inherit nothing.

    Raises:
        CalibrationError: a chain is empty, or a hypothesis is on two chains or does not exist.
    """
    listed = [hypothesis for chain in chains for hypothesis in chain]
    if not all(chains):
        raise CalibrationError("a chain is empty: leave it out")
    if len(set(listed)) < len(listed):
        raise CalibrationError("a hypothesis is on two chains, or twice on one: it can be on one")
    edges: list[tuple[tuple[int, float], ...]] = [()] * n_hypotheses
    if outside := [at for at in listed if not 0 <= at < n_hypotheses]:
        raise CalibrationError(
            f"hypothesis {outside[0]} does not exist: name 0 to {n_hypotheses - 1}"
        )
    for number, chain in enumerate(chains):
        for here, successor in itertools.pairwise(chain):
            edges[here] = ((successor, 1.0),)
        others = [other[0] for at, other in enumerate(chains) if at != number]
        edges[chain[-1]] = tuple((start, 1 / len(others)) for start in others)
    return Graph(tuple(edges))


class Flow:
    """Shares of delta that move along a graph as hypotheses (H) are rejected.

    A rejected hypothesis is removed from the graph as a state is censored from a Markov chain: its
    incoming edges lead to its successors instead. Attributes: `share_H`, the share of each
    hypothesis, in total at most 1; `rejected_H`; `leaked`, the share that no remaining hypothesis
    can inherit.
    """

    def __init__(self, weight_H: NDArray[np.float64], graph: Graph) -> None:
        self.share_H = weight_H.copy()
        self.rejected_H = np.zeros(weight_H.size, dtype=np.bool_)
        self.leaked = 0.0
        self._heirs = [dict(edges) for edges in graph.edges]
        self._predecessors: list[set[int]] = [set() for _ in graph.edges]
        for node, edges in enumerate(graph.edges):
            for successor, _ in edges:
                self._predecessors[successor].add(node)

    def run(self, p_H: NDArray[np.float64], delta: float) -> list[int]:
        """Reject until no p-value is within its share of delta; returns what this call rejected."""
        done: list[int] = []
        held_H = (self.share_H > 0) & (p_H <= delta * self.share_H)
        pending: list[int] = np.flatnonzero(held_H).tolist()
        while pending:
            node = pending.pop()
            if not self.rejected_H[node] and p_H[node] <= delta * self.share_H[node]:
                pending.extend(self.reject(node))
                done.append(node)
        return done

    def reject(self, node: int) -> list[int]:
        """Remove a hypothesis if it is not yet rejected; returns those whose share has grown."""
        if self.rejected_H[node]:
            return []
        share, heirs = float(self.share_H[node]), self._heirs[node]
        self.rejected_H[node] = True
        self.share_H[node] = 0.0
        for heir, fraction in heirs.items():
            self.share_H[heir] += share * fraction
            self._predecessors[heir].discard(node)
        self.leaked += share * max(0.0, 1 - sum(heirs.values()))
        for predecessor in self._predecessors[node]:
            self._bypass(predecessor, node)
        self._heirs[node], self._predecessors[node] = {}, set()
        return list(heirs) if share > 0 else []

    def _bypass(self, predecessor: int, node: int) -> None:
        row = self._heirs[predecessor]
        through = row.pop(node)
        for heir, fraction in self._heirs[node].items():
            if heir != predecessor:
                row[heir] = row.get(heir, 0.0) + through * fraction
                self._predecessors[heir].add(predecessor)
        # A share that returns is passed on again, until all of it has left by another edge.
        stays = 1 - through * self._heirs[node].get(predecessor, 0.0)
        if stays < 1:
            for heir in row:
                row[heir] = row[heir] / stays if stays > ROUNDING else 0.0
