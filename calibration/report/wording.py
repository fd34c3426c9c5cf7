"""Numbers and policies in words, for the page and its figures."""

from calibration.certificate.evaluate import Evaluation
from calibration.policy.exit_rule import ExitPolicy
from calibration.report.summary import Measured

NB = "\N{NO-BREAK SPACE}"


def percent(share: float, digits: int = 1) -> str:
    """A measured share as a percentage."""
    return f"{100 * share:.{digits}f}{NB}%"


def rate(alpha: float) -> str:
    """A chosen share, such as a risk level, as a percentage in full."""
    return f"{100 * alpha:.6g}{NB}%"


def target(alpha: float) -> str:
    """A risk level by its name."""
    return f"α{NB}={NB}{rate(alpha)}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun."""
    return f"{number:,}{NB}{noun if number == 1 else plural or noun + 's'}"


def p_value(p: float) -> str:
    """A p-value to two digits."""
    return f"{p:.2g}" if p >= 1e-4 else f"{p:.0e}"


def problems(measured: Measured) -> str:
    """Which problems, and what that makes of the figures."""
    number = f"{measured.n_problems:,}"
    if measured.on_test:
        return f"{number} test problems"
    return f"{number} calibration problems (optimistic)"


def interval(found: Evaluation) -> str:
    """Realised risk with its interval."""
    if found.realised_risk is None or found.risk_interval is None:
        return "nothing answered"
    low, high = found.risk_interval
    return f"{percent(found.realised_risk)} ({percent(low)} to {percent(high)})"


def exits(found: Evaluation) -> str:
    """Rollouts by the reason they stopped, those that never happened left out."""
    total = max(sum(found.exits.values()), 1)
    shares = {reason: number / total for reason, number in found.exits.items() if number}
    return ", ".join(
        f"{reason} {percent(share, 0) if share >= 0.005 else 'below ' + percent(0.01, 0)}"
        for reason, share in shares.items()
    )


def policy(rule: ExitPolicy, samples: int = 1) -> str:
    """What a policy does."""
    parts = []
    if rule.lambda_high <= 1:
        parts.append(f"stops and answers at a confidence of {rule.lambda_high:g} or more")
    if rule.lambda_low >= 0 or rule.low_rise > 0:
        parts.append(_low(rule))
    if not parts:
        parts.append("never stops early")
    if rule.lambda_answer > 0:
        parts.append(f"at the end answers at a confidence of {rule.lambda_answer:g} or more")
    if samples > 1 and rule.lambda_vote > 0:
        parts.append(f"answers if the winner holds {rate(rule.lambda_vote)} of the vote or more")
    if rule.smoothing > 0:
        parts.append(f"smoothing {rule.smoothing:g}")
    return "; ".join(parts)


def _low(rule: ExitPolicy) -> str:
    threshold = f"{rule.lambda_low:g} or less"
    if rule.low_rise > 0:
        threshold = (
            f"a threshold that rises from {rule.lambda_low:g} to "
            f"{rule.lambda_low + rule.low_rise:g}, half-way at {rule.low_shift:g} tokens, or less"
        )
    then = "stops and answers by force" if rule.answer_on_low else "gives up"
    lasting = f" for {rule.patience:,} tokens" if rule.patience else ""
    return f"{then} after {threshold}{lasting}"
