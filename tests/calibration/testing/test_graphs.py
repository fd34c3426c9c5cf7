import numpy as np
import pytest

from calibration.errors import CalibrationError
from calibration.testing.graphs import Flow, Graph, chain_graph


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        ((((1, 0.7), (1, 0.2)), ()), "successor twice"),
        ((((0, 1.0),), ()), "hypothesis 0 passes on to 0"),
        ((((2, 1.0),), ()), "passes on to 2: name another hypothesis, 0 to 1"),
        ((((1, -0.1),), ()), "the share -0.1"),
        ((((1, float("nan")),), ()), "the share nan"),
        ((((1, 0.6), (2, 0.6)), (), ()), r"passes on 1\.2 in all: its shares"),
    ],
)
def test_refuses_graphs_that_spend_too_much(
    edges: tuple[tuple[tuple[int, float], ...], ...], fault: str
) -> None:
    with pytest.raises(CalibrationError, match=fault):
        Graph(edges)


def test_chains() -> None:
    graph = chain_graph([[3, 0], [1], [4, 2]], n_hypotheses=6)
    assert graph.edges == (
        ((1, 0.5), (4, 0.5)),
        ((3, 0.5), (4, 0.5)),
        ((3, 0.5), (1, 0.5)),
        ((0, 1.0),),
        ((2, 1.0),),
        (),
    )
    assert chain_graph([[1, 0]], n_hypotheses=2).edges == ((), ((0, 1.0),))


@pytest.mark.parametrize(
    ("chains", "fault"),
    [([[0], []], "is empty"), ([[0, 1], [1]], "on two chains"), ([[0, 2]], "2 does not exist")],
)
def test_refuses_broken_chains(chains: list[list[int]], fault: str) -> None:
    with pytest.raises(CalibrationError, match=fault):
        chain_graph(chains, n_hypotheses=2)


def test_shares_flow_round_and_are_never_more_than_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 8))
        share = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
        np.fill_diagonal(share, 0)
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1)
        edges = tuple(tuple((k, share[i, k]) for k in range(n) if share[i, k]) for i in range(n))
        flow = Flow(rng.dirichlet(np.ones(n)), Graph(edges))
        for node in rng.permutation(n):
            before = flow.share_H.copy()
            flow.reject(int(node))
            left = ~flow.rejected_H
            assert (flow.share_H[left] >= before[left]).all()
            assert flow.share_H.sum() + flow.leaked == pytest.approx(1)
        assert flow.leaked == pytest.approx(1)


def test_a_closed_circle_of_the_rejected_lets_its_share_go() -> None:
    flow = Flow(np.array([0.3, 0.3, 0.4]), chain_graph([[0], [1]], n_hypotheses=3))
    assert flow.reject(0) == [1]
    assert flow.share_H.tolist() == [0, 0.6, 0.4]
    assert flow.reject(0) == []
    flow.reject(1)
    assert flow.leaked == pytest.approx(0.6)
    assert flow.share_H.tolist() == [0, 0, 0.4]
