"""What a report shows, in numbers; nothing is drawn here."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.certificate.evaluate import LevelReplay, replay_certificate, resolve_risk
from calibration.certificate.report_data import Readings
from calibration.errors import CalibrationError
from calibration.metrics.ranking import RiskCoverage, auroc, risk_coverage
from calibration.metrics.reliability import expected_calibration_error, reliability_bins
from calibration.metrics.scoring import brier_score
from calibration.report.pvalue_map import PValueMap, map_p_values
from calibration.report.samples import Samples, choose_samples
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import outcomes, replay
from calibration.simulation.risks import SELECTIVE, Risk
from calibration.testing.families import full_budget
from calibration.testing.methods import find_split
from calibration.traces.traces import Traces


@dataclass(frozen=True, slots=True)
class Measured:
    """A certificate's levels on one set of problems.

    Attributes:
        on_test: problems that had no part in the fit: honest estimates. Otherwise the problems on
            which the policies were chosen, and every figure tends to be optimistic.
        n_problems: of the set.
        n_units: exchangeable units among them.
        n_tested: problems of the test, if they are only sampled because not all have a label
            (`Design.evenly_labelled`); otherwise None.
        full_right: share answered right at the full budget.
        levels: by rising alpha.
    """

    on_test: bool
    n_problems: int
    n_units: int
    full_right: float
    levels: tuple[LevelReplay, ...]
    n_tested: int | None = None

    @property
    def certified(self) -> tuple[LevelReplay, ...]:
        """The levels that have figures."""
        return tuple(level for level in self.levels if level.evaluation is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """Answering only the most confident draws at the full budget.

    Attributes:
        curve: of the draws that have an answer, coverage as a share of all draws.
        n_draws: all of them.
    """

    curve: RiskCoverage
    n_draws: int


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """All numbers of a report.

    Attributes:
        certificate: what is reported on.
        risk: what it bounds.
        measured: on test problems if there are any, then on the calibration problems.
        all_readings: reliability of every recorded reading.
        final_readings: reliability of the readings at the end of the reasoning.
        maps: p-values around each level's policy, by rising alpha; always on calibration problems.
        samples: some rollouts, with the thresholds of one level.
        coverage: the risk-coverage curve; None unless the risk is `selective` and a draw has an
            answer.
    """

    certificate: Certificate
    risk: Risk
    measured: tuple[Measured, ...]
    all_readings: Readings
    final_readings: Readings
    maps: tuple[PValueMap, ...]
    samples: Samples
    coverage: Coverage | None

    @property
    def shown(self) -> Measured:
        """The set of problems that reliability, samples and coverage are taken from."""
        return self.measured[0]


def summarize(
    certificate: Certificate, traces: Traces, test: Traces | None, risk: Risk | None
) -> Summary:
    """Everything a report shows.

    Raises:
        CertificateError: traces of another recording than the certificate's.
        CalibrationError: `traces` are not those it was fitted on, `test` shares problems or groups
            with them, a user's loss is missing, or a problem has too few rollouts.
    """
    traces = certificate.problems_of(traces)
    risk = resolve_risk(certificate, risk)
    tested = tested_part(certificate, traces)
    labelled = measured_part(certificate, tested)
    n_tested = None if certificate.label_share is None else tested.n_problems
    measured = [replace(_measure(certificate, labelled, risk, on_test=False), n_tested=n_tested)]
    if test is not None:
        test = certificate.problems_of(test)
        _check_untouched(traces, test)
        measured.insert(0, _measure(certificate, test, risk, on_test=True))
    shown = labelled if test is None else test
    recorded_RC = np.arange(shown.tokens_RC.shape[1]) <= shown.final_R[:, None]
    final_RC = np.arange(shown.tokens_RC.shape[1]) == shown.final_R[:, None]
    return Summary(
        certificate=certificate,
        risk=risk,
        measured=tuple(measured),
        all_readings=_readings(shown, recorded_RC),
        final_readings=_readings(shown, final_RC),
        maps=map_p_values(certificate, tested, risk),
        samples=choose_samples(certificate, shown, risk),
        coverage=_coverage(shown, risk, certificate.procedure),
    )


def tested_part(certificate: Certificate, traces: Traces) -> Traces:
    """The problems that tested: all of the traces, or what is left without those that ordered.

    Raises:
        CalibrationError: `traces` are not those that the certificate was fitted on.
    """
    parts = find_split(traces, certificate.calibration_digest)
    if parts is not None:
        _, tested = parts
        return tested
    raise CalibrationError(
        f"the traces (digest {traces.digest[:12]}) are not those that certificate "
        f"{certificate.id} was fitted on (digest {certificate.calibration_digest[:12]}): give "
        "those, and other problems as test traces"
    )


def measured_part(certificate: Certificate, tested: Traces) -> Traces:
    """The problems on which figures are measured: all that tested, or a random sample of them.

    Raises:
        CalibrationError: one of them has no label, which the test could do without.
    """
    measured = certificate.design.evenly_labelled(tested)
    if measured.unlabelled_P is not None and measured.unlabelled_P.any():
        raise CalibrationError(
            f"{measured.unlabelled_P.sum()} of {measured.n_problems} problems to measure have no "
            f"label. The test of {certificate.risk!r} does not need them, but shares of right "
            "answers do: measure the policies on other problems, all labelled, with `rlcm replay`"
        )
    return measured


def _check_untouched(traces: Traces, test: Traces) -> None:
    if shared := sorted(set(traces.units) & set(test.units)):
        raise CalibrationError(
            f"{len(shared)} problems or groups are in the certificate's traces and in the test "
            f"traces, {shared[0]!r} among them: figures on them would be optimistic; test on "
            "problems that had no part in the fit"
        )


def _measure(certificate: Certificate, traces: Traces, risk: Risk, on_test: bool) -> Measured:
    how = risk, certificate.procedure, certificate.groups
    full = replay(traces, [full_budget(risk)], *how)
    return Measured(
        on_test=on_test,
        n_problems=traces.n_problems,
        n_units=traces.n_units,
        full_right=full.full_right,
        levels=tuple(replay_certificate(certificate, traces, risk)),
    )


def _readings(traces: Traces, which_RC: NDArray[np.bool_]) -> Readings:
    confidence_N, correct_N = traces.confidence_RC[which_RC], traces.correct_RC[which_RC]
    return Readings(
        n_readings=confidence_N.size,
        accuracy=float(correct_N.mean()),
        ece=expected_calibration_error(confidence_N, correct_N),
        brier=brier_score(confidence_N, correct_N),
        # With only one of the two there is nothing to rank.
        auroc=None if correct_N.all() or not correct_N.any() else auroc(confidence_N, correct_N),
        bins=reliability_bins(confidence_N, correct_N),
    )


def _coverage(traces: Traces, risk: Risk, procedure: Procedure) -> Coverage | None:
    if risk.name != SELECTIVE.name:
        return None
    full = outcomes(traces, [full_budget(risk)], procedure)
    answered_D = full.answered_DT[:, 0]
    if not answered_D.any():
        return None
    curve = risk_coverage(full.confidence_DT[answered_D, 0], full.correct_DT[answered_D, 0])
    return Coverage(
        RiskCoverage(
            threshold_K=curve.threshold_K,
            coverage_K=curve.coverage_K * answered_D.mean(),
            risk_K=curve.risk_K,
            area=curve.area,
        ),
        n_draws=answered_D.size,
    )
