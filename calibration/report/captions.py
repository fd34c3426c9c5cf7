"""The caption of each figure: its title, how to read it, and its content in words."""

from collections.abc import Sequence

import numpy as np

from calibration.certificate.report_data import Readings
from calibration.report.pvalue_map import PValueMap
from calibration.report.samples import OUTCOMES
from calibration.report.summary import Coverage, Measured, Summary
from calibration.report.wording import calibration_and_ranking, interval, policy, problems
from calibration.report_kit.content import Caption
from calibration.report_kit.wording import count, percent, rate, target

OPTIMISTIC = (
    "The policies were chosen on these same problems, so the figures tend to be optimistic."
)


def labels_drawn(summary: Summary) -> str:
    """Which problems are measured, where only a share has a label; empty where all have one."""
    calibration = summary.measured[-1]
    if calibration.n_tested is None:
        return ""
    return (
        f"Labels were drawn for a share of the {calibration.n_tested:,} calibration problems. "
        f"Measured are {calibration.n_problems:,} of them: a random sample in which every problem "
        "has a label. The certificate's figures and the p-values use all problems."
    )


def of_risk(summary: Summary) -> Caption:
    """Target against realised risk."""
    parts = [
        f"at {target(level.alpha)} it is {interval(level.evaluation)} on {problems(measured)}"
        for measured in summary.measured
        for level in measured.levels
        if level.evaluation
    ]
    return Caption(
        "Target against realised risk",
        "Points below the line keep their target. Bars are 95% intervals: exact for losses of 0 "
        f"or 1, otherwise approximate. {_problems_shown(summary)} The promise is about the true "
        "risk. With few problems, a point or bar may lie above the line although the true risk "
        "keeps the target.",
        f"Realised {summary.risk.name} risk against target α. {_sentence(parts)}",
    )


def of_tokens(summary: Summary) -> Caption:
    """Tokens against target."""
    shown, abstains = summary.shown, not summary.risk.answers_always
    parts = []
    for level in shown.levels:
        if level.evaluation:
            part = f"at {target(level.alpha)} it takes {percent(level.evaluation.tokens_share)}"
            if abstains:
                part += (
                    f" and answers {percent(level.evaluation.answered_share)} of the questions, "
                    f"{percent(level.evaluation.right_share)} right"
                )
            parts.append(part)
    text = (
        "Reasoning and answer tokens per question over all samples, as a share of the tokens that "
        "the same questions take without early exits."
    )
    if abstains:
        text += (
            " Right: the share of questions answered, and answered right, on "
            f"{problems(shown)}. The full budget answers {percent(shown.full_right)} right, with "
            "no bound on its risk."
        )
    return Caption(
        "Tokens against target",
        f"{text} Means, without intervals. {_problems_shown(summary)}",
        f"Tokens as a share of the full budget, on {problems(shown)}. {_sentence(parts)}",
    )


def of_reliability(summary: Summary) -> Caption:
    """Accuracy against confidence."""
    every, final = summary.all_readings, summary.final_readings
    return Caption(
        "Reliability of the confidence",
        f"Readings of the confidence on {_plainly(summary.shown)}, in ten bins of equal width. "
        "Above: the share of right answers in each bin. Below: the number of readings. ECE is the "
        "mean gap to the line. AUROC is the probability that a right answer has more confidence "
        "than a wrong one. Readings of one rollout depend on each other, so there are no "
        "intervals. The promise does not depend on how reliable the confidence is, but a reliable "
        "confidence saves more tokens.",
        f"Reliability diagram. All readings: {_readings(every)}. Final readings: "
        f"{_readings(final)}.",
    )


def of_p_values(summary: Summary) -> Caption:
    """The p-value map."""
    certificate = summary.certificate
    certified = all(found.certified for found in summary.maps)
    centres = "; ".join(f"{target(found.alpha)}: {_held(found)}" for found in summary.maps)
    n_tested = count(len(certificate.tested.policies), "policy was", "policies were")
    return Caption(
        "p-values over λ1 and λ2",
        "Each map varies λ1 and λ2 around the policy of its level and keeps all other settings "
        f"({centres}), on the {count(certificate.n_problems, 'calibration problem')}. Only "
        "policies marked as certified carry the guarantee: they were tested, and passed with the "
        "correction for multiple tests. An unmarked cell was never tested, and a small p-value "
        "there promises nothing. Small dots passed with settings that the map does not show. "
        "Crosses failed, or came after a policy that failed. "
        f"{n_tested} in line to be tested."
        + ("" if certified else " A level that is not certified shows the policy that failed."),
        "p-values of risk above α over λ1 and λ2. " + " ".join(map(_map, summary.maps)),
    )


def of_samples(summary: Summary) -> Caption:
    """Sample rollouts."""
    samples = summary.samples
    under = (
        "No level is certified, so nothing exits early here."
        if samples.alpha is None
        else f"Thresholds of {target(samples.alpha)}: {policy(samples.policy)}."
    )
    several = summary.certificate.procedure.samples > 1
    numbers = [f"{sum(s.outcome == name for s in samples.rollouts)} {name}" for name in OUTCOMES]
    names = ", ".join(f"{s.problem_id} ({s.rollout})" for s in samples.rollouts)
    return Caption(
        "Confidence by tokens",
        f"{under} Rollouts of {_plainly(summary.shown)}. A hash of their names orders the "
        "rollouts, and the first few of each outcome are shown, so their number does not say how "
        "frequent an outcome is. The dotted part was recorded after the stop."
        + (" Each panel is one sample; the vote over samples is not shown." if several else "")
        + f" Problems (rollouts): {names}.",
        f"Confidence against reasoning tokens for {len(samples.rollouts)} rollouts: "
        f"{', '.join(numbers)}; with the thresholds and the stop of each rollout.",
    )


def of_coverage(summary: Summary, coverage: Coverage) -> Caption:
    """The risk-coverage curve."""
    curve = coverage.curve
    at = [
        f"{percent(float(np.interp(share, curve.coverage_K, curve.risk_K)))} at {rate(share)}"
        for share in (0.25, 0.5, 0.75)
        if curve.coverage_K[0] <= share <= curve.coverage_K[-1]
    ]
    several = summary.certificate.procedure.samples > 1
    order = "winner's share of the vote" if several else "final confidence"
    return Caption(
        "Risk and coverage",
        f"The line answers the questions with the highest {order} at the full budget, on "
        f"{_plainly(summary.shown)}. Its area is the mean risk along it. No point of the line is "
        "certified: choosing a point by its risk here requires a test. Certified policies stop "
        "early and may therefore lie above the line; that is the price of the saved tokens. "
        + _problems_shown(summary),
        f"Share wrong against share answered over {count(coverage.n_draws, 'draw')}: "
        f"{', '.join(at)}; area {curve.area:.3f}.",
    )


def _problems_shown(summary: Summary) -> str:
    shown = OPTIMISTIC
    if summary.shown.on_test:
        shown = (
            "Filled: test problems, which had no part in the fit. Hollow, where shown: calibration "
            "problems, on which the policies were chosen, so these figures are optimistic."
        )
    return " ".join(filter(None, (shown, labels_drawn(summary))))


def _plainly(measured: Measured) -> str:
    kind = "test problem" if measured.on_test else "calibration problem"
    return count(measured.n_problems, kind if measured.n_tested is None else f"labelled {kind}")


def _readings(found: Readings) -> str:
    right = percent(found.accuracy)
    return f"{found.n_readings:,} readings, {right} right, {calibration_and_ranking(found)}"


def _held(found: PValueMap) -> str:
    centre = found.centre
    held = [f"patience {centre.patience:,} tokens"]
    if centre.lambda_answer > 0:
        held.append(f"λa {centre.lambda_answer:g}")
    if centre.lambda_vote > 0:
        held.append(f"vote {centre.lambda_vote:g}")
    if centre.lambda_stop <= 1:
        held.append(f"vote stop {centre.lambda_stop:g}")
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
    if not parts:
        return "No level is certified, so nothing is shown."
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
