from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from calibration import Fingerprint, Rollout, Traces
from calibration.errors import CalibrationError
from calibration.simulation.procedure import Procedure, simulate

MakeTraces = Callable[..., Traces]
MakeRollout = Callable[..., Rollout]


@pytest.fixture
def make_traces(make_rollout: MakeRollout, fingerprint: Fingerprint) -> MakeTraces:
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


def test_all_rollouts_are_one_draw(make_traces: MakeTraces) -> None:
    ((draw,),) = drawn_rollouts(make_traces({"a": 4}), Procedure(4)).values()
    assert sorted(draw) == [0, 1, 2, 3]


def test_neither_names_nor_verdicts_nor_other_problems_have_a_say(
    make_rollout: MakeRollout,
) -> None:
    def drawn(
        ids: Sequence[str], extra: Sequence[str] = (), right: bool = True
    ) -> dict[str, list[list[int]]]:
        rollouts = [
            make_rollout(id_, (0.1 * number, confidence), (right, right), rollout=number)
            for id_, confidence in zip((*ids, *extra), (0.3, 0.4, 0.5), strict=False)
            for number in range(6)
        ]
        traces = Traces.from_rollouts(rollouts, None)
        return drawn_rollouts(traces, Procedure(2, draws=7))

    first = drawn(["a", "b"])
    assert first["a"] != first["b"]
    renamed = drawn(["z", "y"])
    assert (renamed["z"], renamed["y"]) == (first["a"], first["b"])
    assert drawn(["a", "b"], ["c"])["b"] == first["b"]
    assert drawn(["a", "b"], right=False) == first


def test_problems_with_the_same_content_are_drawn_apart(make_traces: MakeTraces) -> None:
    drawn = drawn_rollouts(make_traces({"a": 6, "b": 6}), Procedure(2, draws=7))
    assert drawn["a"] != drawn["b"]


def test_problems_of_a_later_batch_leave_the_draws_of_the_same_content_as_they_are(
    make_traces: MakeTraces,
) -> None:
    """The names of the later ones come first."""
    procedure = Procedure(2, draws=7)
    before = drawn_rollouts(make_traces({"y": 6, "z": 6}), procedure)
    together = make_traces({"a": 6, "b": 6, "y": 6, "z": 6})
    later = drawn_rollouts(replace(together, batch_P=np.array([1, 1, 0, 0])), procedure)
    assert {name: later[name] for name in before} == before
    assert len({str(draws) for draws in later.values()}) == 4


def test_every_ordered_pair_is_as_likely(make_traces: MakeTraces) -> None:
    traces = make_traces({f"p{i:04d}": 4 for i in range(1200)})
    pairs = Counter(tuple(draws[0]) for draws in drawn_rollouts(traces, Procedure(2)).values())
    # Chi-squared with 11 degrees of freedom; 31.3 is its 99.9 % quantile.
    assert len(pairs) == 12
    assert sum((count - 100) ** 2 / 100 for count in pairs.values()) < 31.3


def test_of_one_whole_draw_any_recording_comes_first_equally_often(
    make_rollout: MakeRollout,
) -> None:
    """A vote's tie goes to the first, and the same recordings occur in many problems."""
    rollouts = [
        make_rollout(f"p{number:04d}", (0.5,) * readings, (right,) * readings, rollout=rollout)
        for number in range(1200)
        for rollout, (readings, right) in enumerate([(1, True), (2, False)])
    ]
    draws = simulate(Traces.from_rollouts(rollouts, None), Procedure(2))
    first = Counter((draws.rollout_DN[:, 0] % 2).tolist())
    assert abs(first[0] - 600) < 3.29 * 1200**0.5 / 2, "beyond the 99.9 % interval"


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
