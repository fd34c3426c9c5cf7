"""What stands beside each figure: its title, its caption, and its content in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.report.pvalue_map import PValueMap
from calibration.report.samples import OUTCOMES
from calibration.report.summary import Coverage, Findings, Measured, Reliability
from calibration.report.wording import count, interval, percent, policy, problems, rate, target


@dataclass(frozen=True, slots=True)
class Caption:
    """Text of one figure.

    Attributes:
        title: its heading.
        text: what to make of it, and what not.
        alt: what it shows, for those who cannot see it.
    """

    title: str
    text: str
    alt: str


OPTIMISTIC = (
    "These are the problems on which the policies were chosen, so the figures tend to be optimistic"
)


def of_risk(findings: Findings) -> Caption:
    """Target against realised risk."""
    parts = [
        f"at {target(level.alpha)} it is {interval(level.evaluation)} on {problems(measured)}"
        for measured in findings.measured
        for level in measured.levels
        if level.evaluation
    ]
    return Caption(
        "Target against realised risk",
        "Points below the line keep their target; bars are 95 % intervals, exact for losses of 0 "
        "or 1 and otherwise approximate. "
        + _standing(findings)
        + " With few problems a point or bar may lie above the line although the true risk keeps "
        "the target; the promise is about the true risk.",
        f"Realised {findings.risk.name} risk against target α. "
        + (_sentence(parts) or "No level is certified, so nothing is shown."),
    )


def of_tokens(findings: Findings) -> Caption:
    """Tokens against target."""
    shown, abstains = findings.shown, not findings.risk.answers_always
    parts = []
    for level in shown.levels:
        if level.evaluation:
            part = f"{target(level.alpha)} takes {percent(level.evaluation.tokens_share)}"
            if abstains:
                part += (
                    f" and answers {percent(level.evaluation.answered_share)} of the questions, "
                    f"{percent(level.evaluation.right_share)} right"
                )
            parts.append(part)
    text = (
        "Reasoning and answer tokens per question, all samples together, as a share of what the "
        "same questions take without early exits."
    )
    if abstains:
        text += (
            f" Right: the share answered and the share answered right, on {problems(shown)}; the "
            f"full budget answers {percent(shown.full_right)} right, at whatever risk."
        )
    return Caption(
        "Tokens against target",
        f"{text} Means, without intervals. {_standing(findings)}",
        f"Tokens as a share of the full budget, on {problems(shown)}. "
        + (_sentence(parts) or "No level is certified, so nothing is shown."),
    )


def of_reliability(findings: Findings) -> Caption:
    """Accuracy against confidence."""
    every, final = findings.all_readings, findings.final_readings
    return Caption(
        "Reliability of the confidence",
        f"Readings of the confidence on {_plainly(findings.shown)}, in ten bins of equal width: "
        "how often the answer at that point is right, and how many readings there are (below). "
        "ECE is the mean gap to the line; AUROC is how often a right answer has more confidence "
        "than a wrong one. Readings of one rollout depend on each other, so there are no "
        "intervals. The promise holds however unreliable the confidence is; a reliable one saves "
        "more tokens.",
        f"Reliability diagram. All readings: {_reliability(every)}. Final readings: "
        f"{_reliability(final)}.",
    )


def of_p_values(findings: Findings) -> Caption:
    """The p-value map."""
    calibration, certificate = findings.measured[-1], findings.certificate
    certified = all(found.certified for found in findings.maps)
    centres = "; ".join(f"{target(found.alpha)}: {_held(found)}" for found in findings.maps)
    return Caption(
        "p-values over λ1 and λ2",
        "Around the policy of each level, with all its other settings held "
        f"({centres}), on the {count(calibration.n_problems, 'calibration problem')}. Only the "
        "policies marked as certified carry the guarantee: they were tested, and passed with the "
        "correction for testing many. An unmarked cell was never tested, and a small p-value there "
        "promises nothing. Small dots passed with other settings than the map's; crosses failed, "
        "or came after one that did. "
        f"{count(len(certificate.tested.policies), 'policy was', 'policies were')} in line to be "
        "tested."
        + ("" if certified else " A level not certified shows the policy reported as failed."),
        "p-values of risk above α over λ1 and λ2. " + " ".join(map(_map, findings.maps)),
    )


def of_samples(findings: Findings) -> Caption:
    """Sample rollouts."""
    samples = findings.samples
    under = (
        "No level is certified, so nothing exits early here."
        if samples.alpha is None
        else f"Thresholds of {target(samples.alpha)}: {policy(samples.policy)}."
    )
    several = findings.certificate.procedure.samples > 1
    numbers = [f"{sum(s.outcome == name for s in samples.rollouts)} {name}" for name in OUTCOMES]
    names = ", ".join(f"{s.problem_id} ({s.rollout})" for s in samples.rollouts)
    return Caption(
        "Confidence by tokens",
        f"{under} Rollouts of {_plainly(findings.shown)}, of each outcome the first few in an "
        "order that comes from a hash of their names, so their numbers do not say how "
        "frequent an outcome is. Dotted: "
        "what was recorded after the stop."
        + (" Each panel is one sample; the vote over samples is not shown." if several else "")
        + f" Problems (rollouts): {names}.",
        f"Confidence against reasoning tokens for {len(samples.rollouts)} rollouts: "
        f"{', '.join(numbers)}; with the thresholds and where each stops.",
    )


def of_coverage(findings: Findings, coverage: Coverage) -> Caption:
    """The risk-coverage curve."""
    curve = coverage.curve
    at = [
        f"{percent(float(np.interp(share, curve.coverage_K, curve.risk_K)))} at {rate(share)}"
        for share in (0.25, 0.5, 0.75)
        if curve.coverage_K[0] <= share <= curve.coverage_K[-1]
    ]
    several = findings.certificate.procedure.samples > 1
    return Caption(
        "Risk and coverage",
        "The line answers the surest questions at the full budget, by the "
        + ("winner's share of the vote" if several else "final confidence")
        + f", on {_plainly(findings.shown)}; its area is the mean risk along it. No point of it is "
        "certified: to pick one by its risk here is what a test is needed for. Certified policies "
        "stop early and so may lie above it: that is the price of the tokens saved. "
        + _standing(findings),
        f"Share wrong against share answered over {count(coverage.n_draws, 'draw')}: "
        f"{', '.join(at)}; area {curve.area:.3f}.",
    )


def _standing(findings: Findings) -> str:
    if findings.shown.on_test:
        return (
            "Filled: test problems, which had no part in the fit. Hollow, where shown: calibration "
            "problems, on which the policies were chosen, and so optimistic."
        )
    return OPTIMISTIC + "."


def _plainly(measured: Measured) -> str:
    kind = "test problem" if measured.on_test else "calibration problem"
    return count(measured.n_problems, kind)


def _reliability(found: Reliability) -> str:
    ranking = "undefined" if found.auroc is None else f"{found.auroc:.3f}"
    return (
        f"{found.n_readings:,} readings, {percent(found.accuracy)} right, ECE {found.ece:.3f}, "
        f"AUROC {ranking}"
    )


def _held(found: PValueMap) -> str:
    centre = found.centre
    held = [f"patience {centre.patience:,} tokens"]
    if centre.lambda_answer > 0:
        held.append(f"λa {centre.lambda_answer:g}")
    if centre.lambda_vote > 0:
        held.append(f"vote {centre.lambda_vote:g}")
    if centre.low_rise > 0:
        held.append(f"λ1 rising by {centre.low_rise:g}")
    if centre.smoothing > 0:
        held.append(f"smoothing {centre.smoothing:g}")
    return ", ".join(held)


def _map(found: PValueMap) -> str:
    certified = sum(t.certified for t in found.tested)
    here = sum(t.certified and t.in_plane for t in found.tested)
    return f"{target(found.alpha)}: {certified} certified, {here} of them on the map."


def _sentence(parts: Sequence[str]) -> str:
    return "; ".join(parts).capitalize() + "." if parts else ""
