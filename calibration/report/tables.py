"""Tables of a certificate's report."""

from collections.abc import Sequence

from calibration.certificate.certificate import Certificate
from calibration.certificate.evaluate import LevelReplay
from calibration.certificate.levels import CertifiedLevel, Level
from calibration.certificate.wording import at_most
from calibration.report.summary import Measured, Summary
from calibration.report.wording import exits, interval, policy, problems, sureness
from calibration.report_kit.tables import Cell, Row, Table, pairs
from calibration.report_kit.wording import p_value, percent, rate, tokens


def certified_levels(certificate: Certificate, abstains: bool) -> Table:
    """The levels as the certificate states them; `abstains`: it may leave questions unanswered."""
    head = ["risk", "bound", *_if(abstains, "answered", "right"), "tokens", "saved", "p-value"]
    return Table(
        f"Figures of the certificate, on its calibration problems. {sureness(certificate)}, the "
        "risk of every tested policy is below its bound. Tokens are per question.",
        ["α", *head, "policy"],
        [_level_row(level, certificate, abstains, len(head)) for level in certificate.levels],
    )


def measured_levels(measured: Measured, abstains: bool) -> Table:
    """What the levels' policies do on a set of problems."""
    head = ["realised risk (95%)", *_if(abstains, "answered", "right"), "tokens", "saved"]
    return Table(
        f"On {problems(measured)}. Tokens are per question; stops are shares of rollouts.",
        ["α", *head, "stops"],
        [_measured_row(level, abstains, len(head)) for level in measured.levels],
    )


def procedure(summary: Summary) -> Table:
    """What was tested, how, and on how many problems."""
    certificate, tested = summary.certificate, summary.certificate.tested
    vote = {
        "Vote": certificate.procedure.vote,
        "Draws per problem": certificate.procedure.draws or "all disjoint",
    }
    values = {
        "Risk": certificate.risk,
        "δ": f"{certificate.delta:g}",
        "Promise": certificate.promise,
        "Samples per question": certificate.procedure.samples,
        **(vote if certificate.procedure.samples > 1 else {}),
        "Method": certificate.method,
        "Test": certificate.p_value,
        "Policies tested": f"{len(tested.policies):,} ({tested.correction})",
        "Calibration problems": f"{certificate.n_problems:,}",
        "Exchangeable units": f"{certificate.n_units:,} (groups, and problems without a group)",
        "Average over": _average(certificate),
        "Labels": _labels(certificate),
        "Rollouts": f"{certificate.n_rollouts:,}",
        "Problems for the order": f"{certificate.n_order_problems:,}",
        "Test problems": f"{summary.shown.n_problems:,}" if summary.shown.on_test else "none",
        "Created": certificate.created or "not recorded",
    }
    return pairs("Procedure and tests", values)


def digests(certificate: Certificate) -> Table:
    """What the certificate and its traces are recognised by."""
    values = {
        "Certificate": certificate.digest,
        "Calibration traces": certificate.calibration_digest,
        "Order traces": certificate.order_digest or "none",
    }
    return pairs("Digests (SHA-256)", values)


def _average(certificate: Certificate) -> str:
    """What counts the same in the risk."""
    groups = certificate.groups
    if groups is None:
        return "problems"
    if groups.by_size:
        return f"problems; a group counts by its size, at most {groups.max_size}"
    return "groups; each counts the same, whatever its size"


def _labels(certificate: Certificate) -> str:
    """Which problems have a label."""
    share = certificate.label_share
    if share is None:
        return "of every problem"
    how = "drawn evenly" if share.least == share.share else "doubtful ones drawn more often"
    return f"of about {rate(share.share)} of the problems, {how}; figures are estimates from these"


def _level_row(level: Level, certificate: Certificate, abstains: bool, n_figures: int) -> Row:
    if not isinstance(level, CertifiedLevel):
        reason = f"Not certified: {level.reason}"
        return Row(rate(level.alpha), [Cell(reason, kind="words", span=n_figures + 1)])
    figures = [
        percent(level.risk),
        at_most(level.risk_upper),
        *_if(abstains, percent(level.share_answered), percent(level.share_right)),
        tokens(level.expected_tokens),
        percent(1 - level.expected_tokens / level.full_budget_tokens),
        p_value(level.p_value),
    ]
    return _row(level.alpha, figures, policy(level.policy, certificate.procedure.samples))


def _measured_row(level: LevelReplay, abstains: bool, n_figures: int) -> Row:
    found = level.evaluation
    if found is None:
        return Row(rate(level.alpha), [Cell("Not certified.", kind="words", span=n_figures + 1)])
    figures = [
        interval(found),
        *_if(abstains, percent(found.answered_share), percent(found.right_share)),
        tokens(found.tokens),
        percent(1 - found.tokens_share),
    ]
    return _row(level.alpha, figures, exits(found))


def _row(alpha: float, figures: Sequence[str], words: str) -> Row:
    return Row(rate(alpha), [*map(Cell, figures), Cell(words, kind="words")])


def _if(wanted: bool, *columns: str) -> tuple[str, ...]:
    return columns if wanted else ()
