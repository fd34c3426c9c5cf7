from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from calibration import Fingerprint, Rollout, Traces
from calibration.errors import CalibrationError
from calibration.simulation.procedure import Procedure, simulate

MakeTraces = Callable[..., Traces]


@pytest.fixture
def make_traces(make_rollout: Callable[..., Rollout], fingerprint: Fingerprint) -> MakeTraces:
    """Traces of problems with so many rollouts each."""

    def make(counts: dict[str, int]) -> Traces:
        rollouts = [
            make_rollout(problem_id, rollout=number)
            for problem_id, count in counts.items()
            for number in range(count)
        ]
        return Traces.from_rollouts(rollouts, fingerprint)

    return make


def drawn_rollouts(traces: Traces, procedure: Procedure) -> dict[str, list[list[int]]]:
    """Numbers of the rollouts in each draw, by problem."""
    draws = simulate(traces, procedure)
    by_problem: dict[str, list[list[int]]] = {}
    for problem, rows in zip(draws.problem_D, draws.rollout_DN, strict=True):
        assert set(traces.problem_R[rows]) == {problem}
        numbers = traces.rollout_R[rows].tolist()
        by_problem.setdefault(traces.problem_ids[problem], []).append(numbers)
    return by_problem


def test_of_one_sample_every_rollout_is_a_draw(make_traces: MakeTraces) -> None:
    draws = simulate(make_traces({"a": 2, "b": 3}), Procedure())
    assert draws.problem_D.tolist() == [0, 0, 1, 1, 1]
    assert draws.rollout_DN.tolist() == [[0], [1], [2], [3], [4]]
    assert draws.n_draws == 5


def test_subsets_are_disjoint_unless_more_are_asked_for(make_traces: MakeTraces) -> None:
    traces = make_traces({"a": 8, "b": 7, "c": 3})
    drawn = drawn_rollouts(traces, Procedure(3))
    assert {name: len(draws) for name, draws in drawn.items()} == {"a": 2, "b": 2, "c": 1}
    for draws in drawn.values():
        taken = [number for draw in draws for number in draw]
        assert len(taken) == len(set(taken))


def test_more_draws_overlap_but_none_repeats_a_rollout(make_traces: MakeTraces) -> None:
    drawn = drawn_rollouts(make_traces({"a": 8, "b": 5}), Procedure(4, draws=5))
    for draws in drawn.values():
        assert len(draws) == 5
        assert all(len(set(draw)) == 4 for draw in draws)
    # Two disjoint halves at a time.
    assert set(drawn["a"][0]).isdisjoint(drawn["a"][1])
    assert set(drawn["a"][2]).isdisjoint(drawn["a"][3])
    # Fewer draws are the first of more.
    fewer = drawn_rollouts(make_traces({"a": 8}), Procedure(4, draws=2))
    assert fewer["a"] == drawn["a"][:2]


def test_all_rollouts_are_taken_as_recorded(make_traces: MakeTraces) -> None:
    assert drawn_rollouts(make_traces({"a": 4}), Procedure(4)) == {"a": [[0, 1, 2, 3]]}


def test_neither_labels_nor_other_problems_have_a_say(make_traces: MakeTraces) -> None:
    traces = make_traces({"a": 6, "b": 6})
    procedure = Procedure(2, draws=7)
    drawn = drawn_rollouts(traces, procedure)
    assert drawn["a"] != drawn["b"]
    relabelled = replace(
        traces,
        correct_RC=~traces.correct_RC,
        answer_class_RC=traces.answer_class_RC + 1,
        confidence_RC=1 - traces.confidence_RC,
    )
    assert drawn_rollouts(relabelled, procedure) == drawn
    assert drawn_rollouts(make_traces({"0": 9, "b": 6, "c": 2}), procedure)["b"] == drawn["b"]


def test_every_ordered_pair_is_as_likely(make_traces: MakeTraces) -> None:
    traces = make_traces({f"p{i:04d}": 4 for i in range(1200)})
    pairs = Counter(tuple(draws[0]) for draws in drawn_rollouts(traces, Procedure(2)).values())
    # Chi-squared with 11 degrees of freedom; 31.3 is its 99.9 % quantile.
    assert len(pairs) == 12
    assert sum((count - 100) ** 2 / 100 for count in pairs.values()) < 31.3


def test_too_few_rollouts_are_an_error(make_traces: MakeTraces) -> None:
    with pytest.raises(
        CalibrationError, match=r"problem 'b' has 2 rollouts and the procedure takes 3 samples"
    ):
        simulate(make_traces({"a": 4, "b": 2}), Procedure(3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"samples": 2, "vote": "loudest"}, "vote is 'loudest': give one of confidence, majority"),
        ({"samples": 2, "draws": 0}, "draws is 0: give 1 or more"),
        ({"draws": 3}, "draws is 3 with one sample"),
    ],
)
def test_procedure_refuses(fields: dict[str, object], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        Procedure(**fields)  # type: ignore[arg-type]
