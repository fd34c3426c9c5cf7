"""Reports of certificates in which only a share of the problems has a label."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration import SELECTIVE, CalibrationError, Certificate, CertifiedLevel, Traces
from calibration.certificate.design import Design
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.report import write_report
from calibration.report.build_data import build_report_data
from calibration.report.summary import summarize
from calibration.simulation.label_share import LabelShare
from tests.pages import Parsed

ALPHAS = (0.1, 0.3, 0.4)


@pytest.fixture(scope="module")
def pilot(world: Any) -> Traces:
    drawn: Traces = world.draw(np.random.default_rng(9), 100, "o")
    return drawn


@pytest.fixture(scope="module")
def design(pilot: Traces) -> Design:
    return sequential_design(
        pilot, 400, alphas=ALPHAS, order=pilot, label_share=0.4, least_share=0.3
    )


@pytest.fixture(scope="module")
def shared(design: Design, pilot: Traces, traces: Traces) -> Certificate:
    made = certify_sequential(traces, design, order=pilot)
    assert made.levels[-1].certified
    return made


def drawn_problems(design: Design, traces: Traces) -> NDArray[np.bool_]:
    """Which problems (P) get a label."""
    drawn_P: NDArray[np.bool_] = design.draw(traces, SELECTIVE).labelled_U1[traces.unit_P, 0]
    return drawn_P


def test_problems_without_a_label_change_no_figure(
    shared: Certificate, design: Design, pilot: Traces, traces: Traces
) -> None:
    drawn_P = drawn_problems(design, traces)
    assert 100 < drawn_P.sum() < 220
    kept_RC = traces.correct_RC & drawn_P[traces.problem_R][:, None]
    unlabelled = replace(traces, correct_RC=kept_RC)
    other = certify_sequential(unlabelled, design, order=pilot)
    one = build_report_data(shared, traces)
    assert replace(build_report_data(other, unlabelled), certificate=one.certificate) == one


def test_the_measured_problems_are_a_random_sample(design: Design, traces: Traces) -> None:
    """Over designs their chance of a label is that of all problems; drawn ones have a larger."""
    chance_P = design.draw(traces, SELECTIVE).probability_U1[traces.unit_P, 0]
    places = {name: p for p, name in enumerate(traces.problem_ids)}
    sampled, labelled = [], []
    for number in range(60):
        other = replace(design, delta=design.delta * (1 - number / 1000))
        rows = [places[name] for name in other.evenly_labelled(traces).problem_ids]
        drawn_P = drawn_problems(other, traces)
        assert drawn_P[rows].all()
        sampled.append(chance_P[rows].mean())
        labelled.append(chance_P[drawn_P].mean())
    error = np.std(sampled) / np.sqrt(len(sampled))
    assert abs(np.mean(sampled) - chance_P.mean()) < 4 * error
    assert np.mean(labelled) > chance_P.mean() + 4 * error


def test_the_map_has_the_p_values_of_the_certificate(shared: Certificate, traces: Traces) -> None:
    summary = summarize(shared, traces, None, None)
    level, found = shared.levels[-1], summary.maps[-1]
    assert isinstance(level, CertifiedLevel)
    assert found.centre.lambda_high == level.policy.lambda_high
    y = found.high_Y.index(min(level.policy.lambda_high, found.high_Y[-1]))
    assert found.p_YX[y, 0] == pytest.approx(level.p_value)


def test_the_page_says_what_is_measured(
    shared: Certificate, traces: Traces, test_traces: Traces, tmp_path: Path
) -> None:
    said = Parsed.of(write_report(shared, traces, tmp_path)).words
    n = shared.design.evenly_labelled(shared.problems_of(traces)).n_problems
    assert f"Measured are {n} of them" in said
    assert f"On {n} labelled calibration problems (optimistic)." in said
    assert "of about 40% of the problems, doubtful ones drawn more often" in said
    data = build_report_data(shared, traces, test_traces)
    assert (data.calibration.n_problems, data.test and data.test.n_problems) == (n, 150)
    assert f"Measured are {n} of them" in data.captions.risk.text


def test_without_a_sampled_problem_it_says_so(design: Design, traces: Traces) -> None:
    rare = replace(design, label_share=LabelShare(0.4, 1e-6))
    with pytest.raises(
        CalibrationError, match=r"none of the 400 problems .* probability of a label, 1e-06"
    ):
        rare.evenly_labelled(traces)
