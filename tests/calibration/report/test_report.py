"""The report: whole, self-contained, the same every time, and true to the certificate."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

from calibration import (
    FULL_BUDGET,
    SELECTIVE,
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    Chain,
    Correction,
    ExitPolicy,
    ExitReason,
    Family,
    InfeasibleLevel,
    Promise,
    PValue,
    Risk,
    Traces,
    certify,
    evaluate,
    family_of_chains,
)
from calibration.certificate.levels import equal_levels
from calibration.policy.exit_rule import INITIAL_STATE, step
from calibration.report import figures, wording, write_report
from calibration.report.page import page, promise
from calibration.report.pvalue_map import NEVER_LOW
from calibration.report.samples import NOT_ANSWERED, RIGHT, WRONG
from calibration.report.summary import Summary, summarize
from calibration.report_kit.content import Text
from calibration.report_kit.palette import THEME
from calibration.report_kit.wording import percent
from tests.calibration.report.two_chains import POLICIES
from tests.pages import Parsed, check_readable_unseen, check_references, check_self_contained


@pytest.fixture(scope="module")
def report(
    tmp_path_factory: pytest.TempPathFactory,
    certificate: Certificate,
    traces: Traces,
    test_traces: Traces,
) -> Path:
    return write_report(certificate, traces, tmp_path_factory.mktemp("report"), test_traces)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_files(report: Path) -> None:
    names = ["p-values", "reliability", "risk", "risk-coverage", "samples", "tokens"]
    files = sorted(path.name for path in report.parent.iterdir())
    assert files == sorted(["report.html", *(f"{name}.png" for name in names)])
    assert all((report.parent / f"{n}.png").read_bytes()[:4] == b"\x89PNG" for n in names)
    assert report.name == "report.html"
    assert report.stat().st_size < 2_000_000


def test_the_page_needs_nothing_from_elsewhere(report: Path) -> None:
    check_self_contained(report)


def test_ids_are_unique_and_every_reference_has_one(report: Path) -> None:
    check_references(report)


def test_the_page_can_be_read_without_seeing_it(report: Path) -> None:
    check_readable_unseen(report)
    assert len(Parsed.of(report).all("figure")) == 6


def test_figures_take_the_colours_of_the_page(report: Path) -> None:
    text = report.read_text("utf-8")
    style, body = text.split("</style>", 1)
    assert not any(light in body for light, _ in THEME.values())
    used = set(re.findall(r"var\(--([a-z]+)\)", text))
    assert {"ink", "blue", "orange", "grid"} <= used
    for role in used:
        assert style.count(f"--{role}: ") == 2  # light and dark
    assert "@media screen and (prefers-color-scheme: dark)" in style


def test_the_page_says_what_was_measured(
    report: Path, certificate: Certificate, test_traces: Traces
) -> None:
    text = Parsed.of(report).words
    policies = [level.policy for level in certificate.levels if isinstance(level, CertifiedLevel)]
    for found in evaluate(policies, test_traces):
        assert found.realised_risk is not None
        assert found.risk_interval is not None
        low, high = found.risk_interval
        assert f"{found.realised_risk:.1%} ({low:.1%} to {high:.1%})" in text
        figures_of_level = [f"{found.answered_share:.1%}", f"{1 - found.tokens_share:.1%}"]
        assert all(figure in text for figure in figures_of_level)
    infeasible = certificate.levels[0]
    assert isinstance(infeasible, InfeasibleLevel)
    assert infeasible.reason in text
    assert certificate.covers in text
    assert all(outside in text for outside in certificate.does_not_cover)
    for digest in (certificate.digest, certificate.calibration_digest):
        assert digest in text
    assert certificate.fingerprint is not None
    for name, value in certificate.fingerprint.to_json().items():
        assert name in text
        assert (repr(value) if name == "forced_suffix" else str(value)) in text


def test_neighbouring_levels_with_the_same_policy_are_named(
    summary: Summary, certificate: Certificate
) -> None:
    level = next(one for one in certificate.levels if isinstance(one, CertifiedLevel))
    other = replace(level, alpha=0.7, policy=replace(level.policy, lambda_high=0.123))
    levels = (
        *(replace(level, alpha=0.3), replace(level, alpha=0.4), replace(level, alpha=0.5)),
        *(other, replace(level, alpha=0.8)),
    )
    assert equal_levels(levels) == [(0.3, 0.4, 0.5)]
    assert equal_levels(certificate.levels) == []

    def said(made: Certificate) -> list[str]:
        shown = page(replace(summary, certificate=made)).sections[0].content
        return [plain(one.text) for one in shown if isinstance(one, Text)]

    assert said(replace(certificate, levels=levels)) == [
        *said(certificate),
        "α = 30%, 40% and 50% have the same policy, so questions are answered in the same way at "
        "each of them.",
    ]


@pytest.mark.slow
def test_figures_of_the_calibration_problems_are_called_optimistic(
    tmp_path: Path, report: Path, certificate: Certificate, traces: Traces
) -> None:
    alone = Parsed.of(write_report(certificate, traces, tmp_path / "new" / "folder")).words
    assert "No test traces were given" in alone
    assert "400 calibration problems (optimistic)" in alone
    tested = Parsed.of(report).words
    assert "No test traces were given" not in tested
    assert "150 test problems" in tested


def test_the_same_input_gives_the_same_bytes(
    tmp_path: Path, report: Path, certificate: Certificate, traces: Traces, test_traces: Traces
) -> None:
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "red"}):
        again = write_report(certificate, traces, tmp_path, test_traces)
        assert mpl.rcParams["font.size"] == 20
    for path in report.parent.iterdir():
        assert (again.parent / path.name).read_bytes() == path.read_bytes()


def test_a_report_that_cannot_be_drawn_leaves_nothing(
    tmp_path: Path, certificate: Certificate, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Summary) -> None:
        raise CalibrationError("broken")

    monkeypatch.setattr(figures, "draw_reliability", broken)
    with pytest.raises(CalibrationError, match="broken"):
        write_report(certificate, traces, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_report_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, certificate: Certificate, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("report.html", "risk.png", "mine.txt"):
        (tmp_path / name).write_text("old")
    write = Path.write_bytes

    def full_disk(path: Path, content: bytes) -> int:
        if path.name.startswith("report"):
            raise OSError("no space left")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_report(certificate, traces, tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "report.html": "old",
        "risk.png": "old",
        "mine.txt": "old",
    }


def test_nothing_certified_and_an_older_report(tmp_path: Path, world, fingerprint) -> None:
    recorded = world.draw(np.random.default_rng(3), 60)
    odd = replace(
        recorded,
        fingerprint=replace(fingerprint, forced_suffix="<script>alert(1)</script>"),
        problem_ids=tuple(f"<b>{name}" for name in recorded.problem_ids),
    )
    failed = certify(odd, risk="error", alphas=[0.05, 0.06], method="fixed-sequence")
    (tmp_path / "report.html").write_text('<figure data-name="risk-coverage">')
    (tmp_path / "risk-coverage.png").write_bytes(b"old")
    (tmp_path / "mine.png").write_bytes(b"mine")
    parsed = Parsed.of(write_report(failed, odd, tmp_path))
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))  # though the two maps are the same
    assert "Nothing is promised: no policy is certified at a risk of 5% or 6%." in parsed.words
    assert not parsed.all("script")
    assert not parsed.all("b")
    assert "<b>p000" in parsed.words
    assert not (tmp_path / "risk-coverage.png").exists()
    assert (tmp_path / "mine.png").read_bytes() == b"mine"


def test_a_vote_over_traces_without_a_fingerprint(tmp_path: Path, world) -> None:
    draw = world.draw(np.random.default_rng(4), 240)
    # Four rollouts to a problem, two problems to a group.
    recorded = replace(
        draw,
        fingerprint=None,
        problem_ids=draw.problem_ids[:60],
        groups=tuple(f"g{i // 2}" for i in range(60)),
        problem_R=np.repeat(np.arange(60), 4),
        rollout_R=np.tile(np.arange(4), 60),
    )
    merged = certify(recorded, alphas=[0.3, 0.5], samples=2, method="fixed-sequence")
    text = Parsed.of(write_report(merged, recorded, tmp_path)).words
    assert "no fingerprint: analysis only" in text
    assert "The traces carry no fingerprint" in text
    assert "Exchangeable units 30" in text
    assert "Samples per question 2" in text
    assert "the vote over samples is not shown" in text


def test_a_loss_of_ones_own_has_to_be_given(
    tmp_path: Path, traces: Traces, test_traces: Traces
) -> None:
    risk = Risk.custom("cost", lambda outcomes: outcomes.tokens_DT / 100)
    own = certify(traces, risk=risk, alphas=[0.99], method="fixed-sequence")
    with pytest.raises(CalibrationError, match="cost"):
        write_report(own, traces, tmp_path)
    with pytest.raises(CalibrationError, match="bounds 'cost', not 'selective'"):
        write_report(own, traces, tmp_path, risk=SELECTIVE)
    assert summarize(own, traces, test_traces, risk).coverage is None


@pytest.fixture
def arguments(certificate: Certificate, traces: Traces, tmp_path: Path) -> dict[str, object]:
    return {"certificate": certificate, "traces": traces, "out": tmp_path / "out"}


def test_refuses_traces_that_it_was_not_fitted_on(arguments, test_traces: Traces) -> None:
    with pytest.raises(CalibrationError, match="not those that certificate"):
        write_report(**arguments | {"traces": test_traces})
    assert not arguments["out"].exists()


def test_refuses_test_problems_that_were_fitted_on(arguments, traces: Traces) -> None:
    few = traces.select(np.arange(traces.n_problems) < 3)
    with pytest.raises(CalibrationError, match=r"3 problems or groups .* 'problem p00000'"):
        write_report(**arguments, test=few)


def test_refuses_traces_of_another_recording(arguments, test_traces: Traces, fingerprint) -> None:
    other = replace(test_traces, fingerprint=replace(fingerprint, model="m1"))
    with pytest.raises(CertificateError, match="model"):
        write_report(**arguments, test=other)


def test_refuses_a_file_for_a_folder(arguments, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(CalibrationError, match="is a file: give a folder"):
        write_report(**arguments)


def test_finds_the_problems_that_tested_among_all(world) -> None:
    recorded = world.draw(np.random.default_rng(5), 300)
    split = certify(recorded, risk="regret", alphas=[0.3], method="split")
    shown = summarize(split, recorded, None, None).shown
    assert (shown.n_problems, shown.on_test) == (split.n_problems, False)
    assert split.n_problems < 300


def test_measured_on_test_first_and_then_on_calibration(
    summary: Summary, certificate: Certificate
) -> None:
    test, calibration = summary.measured
    assert (test.on_test, calibration.on_test) == (True, False)
    assert (test.n_problems, calibration.n_problems) == (150, 400)
    assert summary.shown is test
    for replayed, level in zip(calibration.levels, certificate.levels, strict=True):
        if isinstance(level, CertifiedLevel):
            assert replayed.evaluation is not None
            assert replayed.evaluation.realised_risk == pytest.approx(level.risk)
            assert replayed.evaluation.tokens == pytest.approx(level.expected_tokens)


def test_reliability_counts_readings(summary: Summary, test_traces: Traces) -> None:
    every, final = summary.all_readings, summary.final_readings
    assert (every.n_readings, final.n_readings) == (150 * 5, 150)
    assert sum(b.count for b in every.bins) == every.n_readings
    assert final.accuracy == test_traces.correct_RC[:, -1].mean()
    assert every.auroc is not None
    assert every.ece < 0.06  # the world's readings are calibrated


def test_readings_that_are_all_right_have_no_auroc(traces: Traces) -> None:
    right = replace(traces, correct_RC=np.ones_like(traces.correct_RC))
    sure = certify(right, alphas=[0.1], method="fixed-sequence")
    found = summarize(sure, right, None, None)
    assert found.all_readings.auroc is None
    assert found.all_readings.accuracy == 1
    assert found.coverage is not None
    assert found.coverage.curve.area == 0


def test_coverage_ends_at_the_full_budget(summary: Summary, test_traces: Traces) -> None:
    assert summary.coverage is not None
    curve = summary.coverage.curve
    assert curve.coverage_K[-1] == 1
    assert curve.risk_K[-1] == pytest.approx(1 - test_traces.correct_RC[:, -1].mean())


def test_the_map_repeats_the_certificate(summary: Summary, certificate: Certificate) -> None:
    for found, level in zip(summary.maps, certificate.levels, strict=True):
        assert (found.alpha, found.certified) == (level.alpha, level.certified)
        x = found.low_X.index(found.centre.lambda_low)
        y = found.high_Y.index(found.centre.lambda_high)
        assert found.p_YX[y, x] == pytest.approx(level.p_value)
        if isinstance(level, CertifiedLevel):
            served = [
                t
                for t in found.tested
                if (t.lambda_low, t.lambda_high)
                == (level.policy.lambda_low, level.policy.lambda_high)
            ]
            assert [(t.in_plane, t.certified) for t in served] == [(True, True)]
        else:
            assert not any(t.certified for t in found.tested)
            assert found.centre == replace(POLICIES[0], patience=16)


def test_the_map_of_a_level_that_failed_is_around_what_came_closest(traces: Traces) -> None:
    family = Family(POLICIES, Correction.HOLM, "no order")
    failed = certify(traces, alphas=[0.01], family=family)
    (level,) = failed.levels
    (found,) = summarize(failed, traces, None, None).maps
    x = found.low_X.index(found.centre.lambda_low)
    y = found.high_Y.index(found.centre.lambda_high)
    assert found.p_YX[y, x] == pytest.approx(level.p_value)
    assert not found.certified


def test_the_map_holds_all_other_settings(summary: Summary, traces: Traces) -> None:
    found = summary.maps[-1]
    assert found.centre.lambda_answer == 0.7
    assert found.centre.patience == 16
    x, y = found.low_X.index(0.2), found.high_Y.index(0.8)
    policy = ExitPolicy(lambda_low=0.2, patience=16, lambda_high=0.8, lambda_answer=0.7)
    (there,) = evaluate([policy], traces)
    n = round(there.answered_share * 400)
    wrong = round((there.realised_risk or 0) * n)
    assert found.p_YX[y, x] == pytest.approx(stats.binom.cdf(wrong, n, found.alpha))


def test_the_map_is_empty_where_lambda_1_reaches_lambda_2(summary: Summary) -> None:
    found = summary.maps[0]
    low_X, high_Y = np.array(found.low_X), np.array(found.high_Y)
    impossible_YX = low_X[None, :] >= high_Y[:, None]
    assert low_X[0] == NEVER_LOW
    assert impossible_YX.any()
    assert (np.isnan(found.p_YX) == impossible_YX).all()


def test_a_map_around_a_rising_low_threshold(traces: Traces) -> None:
    rising = replace(POLICIES[5], low_rise=0.3, low_slope=0.1, low_shift=40.0)
    family = family_of_chains([[Chain((rising,), 1.0)]], "one")
    (found,) = summarize(certify(traces, alphas=[0.2], family=family), traces, None, None).maps
    y = found.high_Y.index(0.9)
    never = replace(FULL_BUDGET, lambda_high=0.9, lambda_answer=0.7)
    there = evaluate([never, rising], traces)
    for x, policy in zip((0, found.low_X.index(0.2)), there, strict=True):
        n = round(policy.answered_share * 400)
        wrong = round((policy.realised_risk or 0) * n)
        assert found.p_YX[y, x] == pytest.approx(stats.binom.cdf(wrong, n, 0.2))
    assert np.isnan(found.p_YX[found.high_Y.index(0.4), found.low_X.index(0.1)])


def test_a_level_shows_only_the_policies_it_could_come_to_test(traces: Traces) -> None:
    bold = (ExitPolicy(lambda_high=0.5), ExitPolicy(lambda_high=0.4))
    family = family_of_chains([[Chain(POLICIES[:4], 1.0)], [Chain(bold, 1.0)]], "one each")
    apart = certify(traces, alphas=(0.1, 0.2), family=family, promise="pointwise")
    first, second = summarize(apart, traces, None, None).maps
    assert {t.lambda_high for t in first.tested} == {0.95, 0.9, 0.8, 0.6}
    assert {t.lambda_high for t in second.tested} == {0.5, 0.4}


def test_samples_stop_where_the_rule_stops_them(summary: Summary) -> None:
    samples = summary.samples
    assert samples.alpha == 0.15
    outcomes = [sample.outcome for sample in samples.rollouts]
    assert outcomes == [RIGHT] * 3 + [WRONG] * 3 + [NOT_ANSWERED] * 3
    for sample in samples.rollouts:
        state, reason, column = INITIAL_STATE, None, -1
        while reason is None and column < len(sample.tokens_C) - 2:
            column += 1
            at = int(sample.tokens_C[column]), float(sample.confidence_C[column])
            state, reason = step(samples.policy, state, *at)
        if reason is None:
            column, reason = len(sample.tokens_C) - 1, ExitReason.BUDGET
        assert (sample.stop, sample.reason) == (column, reason)
        sure = float(sample.confidence_C[-1]) >= samples.policy.lambda_answer
        answered = reason is ExitReason.HIGH or (reason is ExitReason.BUDGET and sure)
        assert answered == (sample.outcome != NOT_ANSWERED)
        if answered:
            assert sample.correct_C[sample.stop] == (sample.outcome == RIGHT)


def test_samples_show_the_smoothed_confidence(traces: Traces) -> None:
    smooth = ExitPolicy(lambda_high=0.7, lambda_answer=0.6, smoothing=0.5)
    family = family_of_chains([[Chain((smooth,), 1.0)]], "one")
    found = summarize(certify(traces, alphas=[0.5], family=family), traces, None, None)
    sample = found.samples.rollouts[0]
    first, second, third = sample.confidence_C[:3]
    assert sample.smoothed_C[2] == pytest.approx(first / 4 + second / 4 + third / 2)


def test_the_promise_in_words(certificate: Certificate) -> None:
    assert plain(promise(certificate)) == (
        "With probability at least 90%, at most a share α of the answers given is wrong, on "
        "average over new problems like the calibration problems. This holds for α = 15% and 30% "
        "at the same time."
    )
    pointwise = plain(promise(replace(certificate, promise=Promise.POINTWISE)))
    assert pointwise.endswith("for any one of α = 15% and 30%, chosen before looking.")
    one = replace(certificate, levels=certificate.levels[:2], risk="regret", delta=0.05)
    assert "at least 95%, at most 15% of all questions are answered wrong" in plain(promise(one))
    limit = plain(promise(replace(certificate, p_value=PValue.CLT)))
    assert limit.startswith("With probability about 90%, given many problems")


def test_policies_in_words() -> None:
    assert wording.policy(FULL_BUDGET) == "never stops early"
    low = ExitPolicy(lambda_low=0.1, patience=1200, lambda_high=0.9)
    assert wording.policy(low) == (
        "stops and answers when the confidence is at least 0.9; abstains when it stays at or "
        "below 0.1 for 1,200 tokens"
    )
    assert "stops with a forced answer" in wording.policy(replace(low, answer_on_low=True))
    voting = ExitPolicy(lambda_vote=0.5)
    assert wording.policy(voting, samples=4).endswith("winner holds at least 50% of the vote")
    sigmoid = ExitPolicy(low_rise=0.3, lambda_low=0.0, low_slope=0.1, low_shift=64)
    assert "rises from 0 to 0.3, half-way at 64 tokens" in wording.policy(sigmoid)


@pytest.mark.parametrize(
    ("share", "digits", "expected"),
    [(0.3, 0, "30%"), (1.0, 0, "100%"), (0.0, 1, "0.0%"), (0.1234, 1, "12.3%")],
)
def test_percent(share: float, digits: int, expected: str) -> None:
    assert percent(share, digits) == expected


def test_matplotlib_is_loaded_with_the_report_alone_and_without_its_global_state() -> None:
    check = (
        "import sys, calibration; before = 'matplotlib' in sys.modules; import calibration.report;"
        "print(before, 'matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    command = [sys.executable, "-P", "-c", check]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True", "False"]
