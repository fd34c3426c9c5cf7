"""Predicted losses and the draw of labels: what they depend on, and what they do not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import CalibrationError, Traces
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.label_share import LabelShare
from calibration.simulation.losses import Losses
from calibration.simulation.predictions import predicted_losses, self_labelled
from calibration.simulation.procedure import ONE_SAMPLE
from calibration.simulation.risks import RISKS
from calibration.testing.families import full_budget
from tests.calibration.recordings import in_groups, several_rollouts

SHARE = LabelShare(0.5, 0.3, 1.0)


@pytest.fixture(scope="module")
def traces(world: Any) -> Traces:
    drawn: Traces = world.draw(np.random.default_rng(0), 200)
    return drawn


def policies(risk: str) -> list[Any]:
    full = full_budget(RISKS[risk])
    return [full, replace(full, lambda_high=0.7)]


def draw(traces: Traces, risk: str = "selective", key: str = "k") -> Any:
    return SHARE.draw(key, traces, policies(risk), RISKS[risk], ONE_SAMPLE, None)


@pytest.mark.parametrize("risk", RISKS)
def test_no_label_is_read(traces: Traces, risk: str) -> None:
    relabelled = replace(traces, correct_RC=np.zeros_like(traces.correct_RC))
    drawn, other = draw(traces, risk), draw(relabelled, risk)
    assert (drawn.labelled_U1[traces.unit_P] == other.labelled_U1[relabelled.unit_P]).all()
    assert (drawn.probability_U1[traces.unit_P] == other.probability_U1[relabelled.unit_P]).all()
    assert (drawn.predicted_UT[traces.unit_P] == other.predicted_UT[relabelled.unit_P]).all()


@pytest.mark.parametrize("rollouts", [1, 3])
@pytest.mark.parametrize("risk", RISKS)
def test_a_prediction_is_a_loss_that_the_weight_allows(
    traces: Traces, risk: str, rollouts: int
) -> None:
    several = in_groups(several_rollouts(traces, rollouts), 2)
    predicted = predicted_losses(several, policies(risk), RISKS[risk])
    assert (predicted.loss_UT >= 0).all()
    assert (predicted.loss_UT <= predicted.weight_UT + 1e-12).all()


def test_an_answer_that_all_readings_give_is_wrong_as_often_as_its_confidence_says(
    traces: Traces,
) -> None:
    alike = replace(traces, answer_class_RC=np.zeros_like(traces.answer_class_RC))
    (full, *_) = policies("error")
    predicted = predicted_losses(alike, [full], RISKS["error"]).loss_UT[alike.unit_P, 0]
    final_R = alike.confidence_RC[np.arange(alike.n_rollouts), alike.final_R]
    assert predicted == pytest.approx(1 - final_R)


def test_nothing_is_predicted_to_be_lost_where_all_answers_are_equal(traces: Traces) -> None:
    alike = replace(traces, answer_class_RC=np.zeros_like(traces.answer_class_RC))
    assert (predicted_losses(alike, policies("regret"), RISKS["regret"]).loss_UT == 0).all()


def test_names_and_later_problems_change_no_draw(traces: Traces) -> None:
    drawn = draw(traces)
    renamed = replace(traces, problem_ids=tuple(f"z{i:04d}" for i in range(200)))
    assert (draw(renamed).labelled_U1[renamed.unit_P] == drawn.labelled_U1[traces.unit_P]).all()
    some = traces.select(np.arange(200) < 90)
    kept = drawn.labelled_U1[traces.unit_P][:90]
    assert (draw(some).labelled_U1[some.unit_P] == kept).all()


def test_another_design_draws_other_problems(traces: Traces) -> None:
    assert (draw(traces).labelled_U1 != draw(traces, key="l").labelled_U1).any()


def test_the_scale_aims_at_the_share(traces: Traces) -> None:
    predicted = predicted_losses(traces, policies("selective"), RISKS["selective"])
    aimed = LabelShare.aimed(0.3, 0.1, predicted)
    probability_U1 = aimed.probabilities(predicted)
    assert probability_U1.mean() == pytest.approx(0.3, abs=0.01)
    assert probability_U1.min() >= 0.1
    assert LabelShare.aimed(0.3, None, predicted) == LabelShare(0.3, 0.3)


PREDICTED = st.one_of(st.just(0.0), st.floats(0.0, 1.0), st.floats(1e-300, 1e-10))


@given(st.lists(PREDICTED, min_size=1, max_size=20), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_the_mean_probability_is_the_share_whatever_the_doubts_are(
    losses: list[float], share: float, part: float
) -> None:
    predicted = Losses.unweighted(np.array(losses)[:, None])
    aimed = LabelShare.aimed(share, part * share, predicted)
    probability_U1 = aimed.probabilities(predicted)
    assert probability_U1.mean() == pytest.approx(share, rel=1e-9)
    assert part * share <= aimed.least <= share
    assert probability_U1.min() >= aimed.least


def test_one_tiny_doubt_costs_no_labels() -> None:
    predicted = Losses.unweighted(np.array([1e-38, *[0.3] * 99])[:, None])
    aimed = LabelShare.aimed(0.25, 0.05, predicted)
    assert aimed.probabilities(predicted).mean() == pytest.approx(0.25)
    assert aimed.least == 0.05


@pytest.mark.parametrize(("share", "least", "named"), [
    (0.0, 0.0, "label_share is 0.0"), (1.5, 0.1, "label_share is 1.5"),
    (0.2, 0.3, "least_share is 0.3"), (0.2, 0.0, "least_share is 0.0"),
])  # fmt: skip
def test_shares_out_of_range_are_refused(share: float, least: float, named: str) -> None:
    with pytest.raises(CalibrationError, match=named):
        LabelShare(share, least)


def test_the_most_confident_answer_counts_as_right_whatever_its_number(traces: Traces) -> None:
    """A tie goes to the smaller number. An array over all numbers would not fit into memory."""
    rng = np.random.default_rng(5)
    several = several_rollouts(traces, 4)
    shape = several.answer_class_RC.shape
    class_RC = rng.choice([NO_ANSWER, 0, 3, 2**40], shape)
    confidence_RC = rng.choice([0.25, 0.5], shape)
    drawn = replace(several, answer_class_RC=class_RC, confidence_RC=confidence_RC)
    totals: dict[int, dict[int, float]] = {}
    rows = list(zip(*np.nonzero(class_RC != NO_ANSWER), strict=True))
    rows = [(row, at) for row, at in rows if at <= drawn.final_R[row]]
    for row, at in rows:
        of = totals.setdefault(int(drawn.problem_R[row]), {})
        of[class_RC[row, at]] = of.get(class_RC[row, at], 0.0) + confidence_RC[row, at]
    best = {one: max(sorted(of), key=of.__getitem__) for one, of in totals.items()}
    expected_RC = np.zeros(shape, dtype=bool)
    for row, at in rows:
        expected_RC[row, at] = class_RC[row, at] == best[int(drawn.problem_R[row])]
    assert (self_labelled(drawn).correct_RC == expected_RC).all()
