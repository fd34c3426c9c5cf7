"""StoredReports: true to the report's numbers and to the exit rule, and whole or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration import (
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    Chain,
    ExitPolicy,
    Traces,
    certify,
    family_of_chains,
)
from calibration.certificate.report_data import (
    EXIT_EDGES,
    ReportData,
    old_report_data_path,
    report_data_path,
)
from calibration.policy.exit_rule import INITIAL_STATE, step
from calibration.report.build_data import build_report_data
from calibration.report.summary import Summary
from tests.calibration.report.two_chains import ALPHAS, POLICIES


@pytest.fixture(scope="module")
def report_data(certificate: Certificate, traces: Traces, test_traces: Traces) -> ReportData:
    return build_report_data(certificate, traces, test_traces)


def test_it_is_read_as_it_was_saved(report_data: ReportData, tmp_path: Path) -> None:
    path = tmp_path / "reports" / "one.json"
    report_data.save(path)
    assert ReportData.load(path) == report_data
    assert [each.name for each in path.parent.iterdir()] == ["one.json"]


def test_it_lies_in_a_folder_beside_its_certificate() -> None:
    assert report_data_path(Path("a/certificates/one.json")) == Path(
        "a/certificates/reports/one.json"
    )
    assert old_report_data_path(Path("a/c/one.json")) == Path("a/c/exhibits/one.json")


def test_levels_have_the_figures_of_the_report(report_data: ReportData, summary: Summary) -> None:
    assert (
        report_data.calibration.n_problems,
        report_data.test and report_data.test.n_problems,
    ) == (400, 150)
    assert [level.alpha for level in report_data.levels] == list(ALPHAS)
    assert (report_data.levels[0].calibration, report_data.levels[0].test) == (None, None)
    for number in (1, 2):
        on_test, on_calibration = (part.levels[number].evaluation for part in summary.measured)
        assert on_test is not None
        assert on_calibration is not None
        for shown, found in (
            (report_data.levels[number].test, on_test),
            (report_data.levels[number].calibration, on_calibration),
        ):
            assert shown is not None
            assert shown.risk == pytest.approx(found.realised_risk, rel=1e-3)
            assert (shown.risk_low, shown.risk_high) == pytest.approx(found.risk_interval, rel=1e-3)
            assert shown.tokens == pytest.approx(found.tokens, rel=1e-3)
            assert shown.share_answered == pytest.approx(found.answered_share, rel=1e-3)
            assert shown.exits == {str(reason): n for reason, n in found.exits.items()}


def stopped_at(policy: ExitPolicy, traces: Traces) -> list[float]:
    """The reading at which the engine would stop each rollout."""
    found = []
    for r, last in enumerate(traces.final_R):
        state, reading = INITIAL_STATE, float(traces.confidence_RC[r, last])
        for c in range(int(last)):
            confidence = float(traces.confidence_RC[r, c])
            state, exit_ = step(policy, state, int(traces.tokens_RC[r, c]), confidence)
            if exit_ is not None:
                reading = confidence
                break
        found.append(reading)
    return found


def test_confidences_are_those_at_which_the_rule_stops(
    report_data: ReportData, certificate: Certificate, traces: Traces
) -> None:
    for level in certificate.levels[1:]:
        assert isinstance(level, CertifiedLevel)
        stops = stopped_at(level.policy, traces)
        counts = report_data.confidence_at(level.alpha)
        assert counts is not None
        assert sum(counts) == 400
        for low, high, count in zip(EXIT_EDGES, EXIT_EDGES[1:], counts, strict=False):
            assert count == sum(low < stop <= high for stop in stops)
    assert report_data.confidence_at(0.01) is None
    assert report_data.confidence_at(0.5) is None


def test_maps_show_what_passed_where(report_data: ReportData, summary: Summary) -> None:
    for shown, found in zip(report_data.maps, summary.maps, strict=True):
        assert (shown.alpha, shown.certified) == (found.alpha, found.certified)
        assert (shown.lambda_low[0], shown.lambda_high[-1]) == (None, None)
        p_values = np.array(shown.p_values, dtype=float)  # None becomes NaN
        assert p_values.shape == (len(shown.lambda_high), len(shown.lambda_low))
        np.testing.assert_allclose(p_values, found.p_YX, rtol=5e-3)
        assert (shown.chosen is not None) == shown.certified
        for column, row in shown.certified_cells:
            (place,) = [
                one for one in shown.tested if (one.x, one.y, one.in_plane) == (column, row, True)
            ]
            assert place.certified
            assert shown.lambda_low[column] == place.lambda_low
            assert shown.lambda_high[row] == place.lambda_high
        passed = {(one.lambda_low, one.lambda_high) for one in shown.tested if one.certified}
        expected = {
            (None if one.lambda_low < 0 else one.lambda_low, one.lambda_high)
            for one in found.tested
            if one.certified
        }
        assert passed == expected
    assert report_data.maps[2].certified_cells, "something passed"
    assert report_data.maps[2].held["patience"] == 16


def test_without_test_problems_everything_is_of_the_calibration_problems(
    certificate: Certificate, traces: Traces
) -> None:
    alone = build_report_data(certificate, traces)
    assert alone.test is None
    assert [level.test for level in alone.levels] == [None] * 3
    assert alone.levels[2].calibration is not None
    assert not alone.reliability.on_test
    assert alone.reliability.final.n_readings == 400
    assert ReportData.from_text(alone.to_text()) == alone


def test_figures_are_short(report_data: ReportData) -> None:
    def numbers(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [one for each in value.values() for one in numbers(each)]
        if isinstance(value, list | tuple):
            return [one for each in value for one in numbers(each)]
        return [value] if isinstance(value, float) else []

    digits = [
        len(f"{number:e}".split("e")[0].rstrip("0")) - 2
        for number in numbers(report_data.to_json()["levels"])
    ]
    assert len(digits) > 20
    assert max(digits) <= 3, "after the first one"


def test_other_traces_are_refused(certificate: Certificate, test_traces: Traces) -> None:
    with pytest.raises(CalibrationError, match="are not those that certificate"):
        build_report_data(certificate, test_traces)


def test_test_problems_that_were_fitted_on_are_refused(
    certificate: Certificate, traces: Traces
) -> None:
    with pytest.raises(CalibrationError, match="would be optimistic"):
        build_report_data(certificate, traces, traces)


def with_exits(values: dict[str, Any], exits: object) -> dict[str, Any]:
    values["levels"][-1]["calibration"]["exits"] = exits
    return values


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _: [], "not report data"),
        (lambda values: values | {"format": "rlcm-certificate"}, "not report data"),
        (lambda values: values | {"version": 3}, "version 3 is unknown"),
        (lambda values: values | {"weather": "fine"}, "unknown fields .'weather'."),
        (lambda values: values | {"maps": None}, "damaged"),
        (lambda values: values | {"maps": [{}]}, "missing or unknown fields"),
        (lambda values: values | {"calibration": None}, "damaged"),
        (lambda values: values | {"certificate": 3}, "3 is no"),
        (lambda values: with_exits(values, []), "damaged"),
        (lambda values: with_exits(values, {"high": "many"}), "'many' is no"),
        (lambda values: with_exits(values, {"high": True}), "True is no"),
        (lambda values: values | {"calibration": values["calibration"] | {"n_units": "x"}}, "'x'"),
        (lambda values: {k: v for k, v in values.items() if k != "levels"}, "'levels'"),
    ],
)
def test_a_file_that_is_no_report_data_is_refused(
    report_data: ReportData, change: Any, why: str
) -> None:
    values = change(json.loads(report_data.to_text()))
    with pytest.raises(CertificateError, match=why):
        ReportData.from_json(values)


def test_version_1_is_read_without_its_intervals(report_data: ReportData) -> None:
    values = json.loads(report_data.to_text()) | {"version": 1}
    sets = [values["calibration"], values["test"]]
    sets += [level[part] for level in values["levels"] for part in ("calibration", "test")]
    for one in filter(None, sets):
        for name in [
            name for name in one if name.endswith(("_low", "_high")) and name[:5] != "risk_"
        ]:
            del one[name]
    old = ReportData.from_json(values)
    assert old.test is not None
    assert old.test.full_right_low is None
    assert old.levels[1].test is not None
    assert old.levels[1].test.risk_low is not None
    assert old.levels[1].test.tokens_low is None


def test_every_figure_lies_in_its_interval(report_data: ReportData) -> None:
    for part in filter(None, (report_data.calibration, report_data.test)):
        assert part.full_right_low < part.full_right < part.full_right_high
    for level in report_data.levels[1:]:
        for found in (level.calibration, level.test):
            assert found is not None
            assert found.share_answered_low < found.share_answered <= found.share_answered_high
            assert found.share_right_low < found.share_right < found.share_right_high
            assert found.tokens_low < found.tokens < found.tokens_high
            share = found.tokens / found.full_budget_tokens
            assert found.tokens_share_low < share < found.tokens_share_high


def test_what_is_not_json_is_refused() -> None:
    for text in (b"{", b"\xff"):
        with pytest.raises(CertificateError, match="not JSON"):
            ReportData.from_text(text)


def test_thresholds_that_never_fire_have_no_number(
    certificate: Certificate, traces: Traces
) -> None:
    full = replace(POLICIES[0], lambda_high=2.0)
    family = family_of_chains([[Chain((full, *POLICIES[:2]), 1.0)]] * len(ALPHAS), "one chain")
    fitted = certify(traces, alphas=ALPHAS, family=family)
    (first, *_) = build_report_data(fitted, traces).maps
    assert None in {one.lambda_high for one in first.tested}
    assert {one.lambda_low for one in first.tested} == {None}
