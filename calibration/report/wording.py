"""Problems, intervals and policies in words, for the page and its figures."""

from calibration.certificate.certificate import Certificate
from calibration.certificate.evaluate import Evaluation
from calibration.certificate.report_data import Readings
from calibration.certificate.wording import percent as probability
from calibration.policy.exit_rule import ExitPolicy
from calibration.report.summary import Measured
from calibration.report_kit.wording import percent, rate
from calibration.testing.p_values import PValue


def sureness(certificate: Certificate) -> str:
    """With which probability the certificate holds."""
    confidence = probability(1 - certificate.delta)
    if certificate.p_value is PValue.CLT:
        return f"With probability about {confidence}, given many problems"
    return f"With probability at least {confidence}"


def problems(measured: Measured) -> str:
    """How many problems, and of which kind."""
    number = f"{measured.n_problems:,}"
    if measured.on_test:
        return f"{number} test problems"
    if measured.n_tested is not None:
        return f"{number} labelled calibration problems (optimistic)"
    return f"{number} calibration problems (optimistic)"


def interval(found: Evaluation) -> str:
    """Realised risk with its interval."""
    if found.realised_risk is None or found.risk_interval is None:
        return "nothing answered"
    low, high = found.risk_interval
    return f"{percent(found.realised_risk)} ({percent(low)} to {percent(high)})"


def calibration_and_ranking(found: Readings) -> str:
    """ECE and AUROC of a set of readings."""
    ranking = "undefined" if found.auroc is None else f"{found.auroc:.3f}"
    return f"ECE {found.ece:.3f}, AUROC {ranking}"


def exits(found: Evaluation) -> str:
    """Shares of rollouts by the reason they stopped; reasons that never occurred are left out."""
    total = max(sum(found.exits.values()), 1)
    shares = {reason: number / total for reason, number in found.exits.items() if number}
    return ", ".join(
        f"{reason} {percent(share, 0) if share >= 0.005 else 'below ' + percent(0.01, 0)}"
        for reason, share in shares.items()
    )


def policy(rule: ExitPolicy, samples: int = 1) -> str:
    """What a policy does."""
    parts = []
    if rule.exits_high:
        parts.append(f"stops and answers when the confidence is at least {rule.lambda_high:g}")
    if rule.exits_low:
        parts.append(_low(rule))
    if not parts:
        parts.append("never stops early")
    if rule.lambda_answer > 0:
        parts.append(f"at the end, answers if the confidence is at least {rule.lambda_answer:g}")
    if samples > 1 and rule.lambda_vote > 0:
        parts.append(f"answers if the winner holds at least {rate(rule.lambda_vote)} of the vote")
    if samples > 1 and rule.lambda_stop <= 1:
        parts.append(
            f"ends the other samples once an answer leads by {rate(rule.lambda_stop)} of all votes"
        )
    if rule.smoothing > 0:
        parts.append(f"smoothing {rule.smoothing:g}")
    return "; ".join(parts)


def _low(rule: ExitPolicy) -> str:
    threshold = f"at or below {rule.lambda_low:g}"
    if rule.low_rise > 0:
        threshold = (
            f"below a threshold that rises from {rule.lambda_low:g} to "
            f"{rule.lambda_low + rule.low_rise:g}, half-way at {rule.low_shift:g} tokens,"
        )
    then = "stops with a forced answer" if rule.answer_on_low else "abstains"
    when = f"stays {threshold} for {rule.patience:,} tokens" if rule.patience else f"is {threshold}"
    return f"{then} when it {when.rstrip(',')}"
