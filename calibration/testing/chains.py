"""Chains of policies from safe to risky, that may fork, and the graph that tests them."""

from collections.abc import Sequence
from dataclasses import dataclass

from calibration.policy.exit_rule import ExitPolicy
from calibration.testing.families import Correction, Family
from calibration.testing.graphs import Graph


@dataclass(frozen=True, slots=True)
class Chain:
    """Policies from safe to risky, tested in this order until the first failure.

    Attributes:
        policies: the chain; a single chain with all of δ is the fixed sequence test of LTT.
        share: the share of a level's δ with which the chain starts; of a fork, the share of what
            comes to the end of the chain before it.
        forks: chains between which the δ of this one is divided at its end. Until there they have
            all of it, so they cost nothing where they do not differ.
    """

    policies: tuple[ExitPolicy, ...]
    share: float
    forks: tuple["Chain", ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a chain is among the policies of a family: its first node, and where it ends."""

    start: int
    ends: tuple[int, ...]


def family_of_chains(chains_L: Sequence[Sequence[Chain]], source: str) -> Family:
    """A family of chains for each level.

    At its end, a chain passes its share to the other chains of its level, and a fork to the other
    forks as well, in equal parts. The graph is the same at every level. So a chain that levels
    share passes its share to the other chains of all these levels. Those that a level does not
    start with are tested at its alpha too, once a share has come to them; all of them together
    never have more than that level's.

    Args:
        chains_L: the chains of each alpha, by rising alpha; the shares of a level, and of the forks
            of a chain, sum to at most 1. Levels may share a chain; it is then tested at each.
        source: where the chains come from, as text for the certificate; never from labels of the
            test.
    """
    policies: list[ExitPolicy] = []
    edges: list[dict[int, float]] = []

    def lay(chain: Chain) -> _Place:
        start = len(policies)
        policies.extend(chain.policies)
        end = len(policies) - 1
        edges.extend({node + 1: 1.0} for node in range(start, end))
        edges.append({})
        if not chain.forks:
            return _Place(start, (end,))
        forks = [lay(fork) for fork in chain.forks]
        for fork, placed in zip(chain.forks, forks, strict=True):
            edges[end][placed.start] = fork.share
            _pass_on(edges, placed, forks)
        return _Place(start, tuple(end for fork in forks for end in fork.ends))

    places: dict[tuple[object, ...], _Place] = {}
    starts_L = []
    for chains in chains_L:
        keys = [(chain.policies, chain.forks) for chain in chains]
        for key, chain in zip(keys, chains, strict=True):
            if key not in places:
                places[key] = lay(chain)
        level = [places[key] for key in keys]
        for place in level:
            _pass_on(edges, place, level)
        starts_L.append([place.start for place in level])
    weights_LT = []
    for chains, starts in zip(chains_L, starts_L, strict=True):
        weights_T = [0.0] * len(policies)
        for chain, start in zip(chains, starts, strict=True):
            weights_T[start] += chain.share
        weights_LT.append(tuple(weights_T))
    return Family(tuple(policies), Correction.GRAPH, source, tuple(weights_LT), _graph(edges))


def _pass_on(edges: list[dict[int, float]], place: _Place, all_places: Sequence[_Place]) -> None:
    """Leads the ends of a chain to the starts of the others; the parts are set by `_graph`."""
    others = [other.start for other in all_places if other.start != place.start]
    for end in place.ends:
        edges[end] |= dict.fromkeys(others, 0.0)


def _graph(edges: Sequence[dict[int, float]]) -> Graph:
    """Edges without a share get equal parts of what a node passes on."""
    return Graph(
        tuple(
            tuple((heir, share or 1 / len(heirs)) for heir, share in heirs.items())
            for heirs in edges
        )
    )
