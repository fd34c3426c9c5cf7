"""Tables of a report as HTML."""

from collections.abc import Mapping, Sequence
from html import escape

from calibration.certificate.certificate import Certificate, CertifiedLevel, Level
from calibration.certificate.evaluate import LevelReplay
from calibration.report import wording as words
from calibration.report.summary import Measured
from calibration.report.wording import p_value, percent, rate


def certified_levels(certificate: Certificate, abstains: bool) -> str:
    """The levels as the certificate states them; `abstains`: it may leave questions unanswered."""
    head = ["risk", "bound", *_if(abstains, "answered", "right"), "tokens", "saved", "p-value"]
    bound = rate(1 - certificate.delta)
    return _table(
        "Figures of the certificate, on its calibration problems. Bound: with probability at least "
        f"{bound} the risk of every policy tested is below its own. Tokens are per question.",
        ["α", *head, "policy"],
        [_level_row(level, certificate, abstains, len(head)) for level in certificate.levels],
    )


def measured_levels(measured: Measured, abstains: bool) -> str:
    """What the levels' policies do on a set of problems."""
    head = ["realised risk (95 %)", *_if(abstains, "answered", "right"), "tokens", "saved", "stops"]
    return _table(
        f"On {words.problems(measured)}. Tokens are per question; stops are shares of rollouts.",
        ["α", *head],
        [_measured_row(level, abstains, len(head)) for level in measured.levels],
    )


def pairs(caption: str, values: Mapping[str, object]) -> str:
    """Names and their values."""
    rows = [_head(name) + _cell(str(value), "words") for name, value in values.items()]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return _scroll(caption, f"<tbody>{body}</tbody>")


def _level_row(level: Level, certificate: Certificate, abstains: bool, n_figures: int) -> str:
    head = _head(rate(level.alpha))
    if not isinstance(level, CertifiedLevel):
        reason = f"Not certified: {level.reason}"
        return head + f'<td colspan="{n_figures + 1}">{escape(reason)}</td>'
    figures = [
        percent(level.risk),
        percent(level.risk_upper),
        *_if(abstains, percent(level.share_answered), percent(level.share_right)),
        f"{level.expected_tokens:,.0f}",
        percent(1 - level.expected_tokens / level.full_budget_tokens),
        p_value(level.p_value),
    ]
    policy = words.policy(level.policy, certificate.procedure.samples)
    return head + "".join(_cell(figure, "number") for figure in figures) + _cell(policy, "words")


def _measured_row(level: LevelReplay, abstains: bool, n_figures: int) -> str:
    head, found = _head(rate(level.alpha)), level.evaluation
    if found is None:
        return head + f'<td colspan="{n_figures}">Not certified.</td>'
    figures = [
        words.interval(found),
        *_if(abstains, percent(found.answered_share), percent(found.right_share)),
        f"{found.tokens:,.0f}",
        percent(1 - found.tokens_share),
    ]
    cells = "".join(_cell(figure, "number") for figure in figures)
    return head + cells + _cell(words.exits(found), "words")


def _table(caption: str, head: Sequence[str], rows: Sequence[str]) -> str:
    wordy, number = ("α", "policy", "stops"), ' class="number"'
    columns = "".join(
        f'<th scope="col"{"" if name in wordy else number}>{escape(name)}</th>' for name in head
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return _scroll(caption, f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody>")


def _scroll(caption: str, content: str) -> str:
    """A table that scrolls by itself where the page is narrow, by keyboard too."""
    table = f"<table><caption>{escape(caption)}</caption>{content}</table>"
    return f'<div class="scroll" tabindex="0">{table}</div>\n'


def _head(name: str) -> str:
    return f'<th scope="row">{escape(name)}</th>'


def _cell(text: str, kind: str) -> str:
    return f'<td class="{kind}">{escape(text)}</td>'


def _if(wanted: bool, *columns: str) -> tuple[str, ...]:
    return columns if wanted else ()
