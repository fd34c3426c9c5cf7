"""The page: words and tables around the figures, in one file without anything from elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from calibration.certificate.certificate import Certificate
from calibration.report.labels import OPTIMISTIC, Caption
from calibration.report.summary import Findings
from calibration.report.tables import certified_levels, measured_levels, pairs
from calibration.report.wording import NB, percent, problems, rate
from calibration.report_kit.palette import css_variables
from calibration.testing.fwer import Promise
from calibration.testing.p_values import PValue


@dataclass(frozen=True, slots=True)
class Plate:
    """A figure as it stands on the page.

    Attributes:
        name: its anchor, and the stem of its PNG.
        svg: the figure.
        caption: what stands beside it.
    """

    name: str
    svg: str
    caption: Caption


def page(findings: Findings, plates: Sequence[Plate]) -> str:
    """The whole report as HTML."""
    certificate = findings.certificate
    abstains = not findings.risk.answers_always
    created = f", {escape(certificate.created)}" if certificate.created else ""
    links = "".join(
        f'<li><a href="#{plate.name}">{escape(plate.caption.title)}</a></li>' for plate in plates
    )
    measured = measured_levels(findings.shown, abstains) if findings.shown.certified else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Risk report of certificate {certificate.id}</title>
<style>
{css_variables()}
{Path(__file__).with_name("page.css").read_text("utf-8")}</style>
</head>
<body>
<header>
<p class="muted">Certificate <code>{certificate.id}</code>{created}</p>
<h1>Risk report</h1>
<p class="promise">{escape(promise(certificate))}</p>
{_cards(findings)}
</header>
<main>
<section>
<h2 id="levels">Levels</h2>
{_note(findings)}
{measured}
{certified_levels(certificate, abstains)}
</section>
<section>
<h2 id="figures">Figures</h2>
<nav aria-label="Figures"><ul>{links}</ul></nav>
{"".join(map(_plate, plates))}
</section>
<section>
<h2 id="covers">What is covered, and what is not</h2>
<p>{escape(certificate.covers)}</p>
<p>Not covered:</p>
<ul>{"".join(f"<li>{escape(outside)}</li>" for outside in certificate.does_not_cover)}</ul>
<p>{escape(_smallest(certificate))}</p>
</section>
<section>
<h2 id="calibrated">What was calibrated</h2>
{pairs("Procedure and tests", _procedure(findings))}
{_fingerprint(certificate)}
{pairs("Digests (SHA-256)", _digests(certificate))}
</section>
</main>
</body>
</html>
"""


def promise(certificate: Certificate) -> str:
    """What is promised, in one sentence."""
    alphas = [rate(level.alpha) for level in certificate.levels if level.certified]
    if not alphas:
        levels = _listed([rate(level.alpha) for level in certificate.levels], "or")
        return f"Nothing is promised: no policy is certified at a risk of {levels}."
    share, verb = (
        ("at most a share α", "is") if len(alphas) > 1 else (f"at most {alphas[0]}", "are")
    )
    what = {
        "selective": f"{share} of the answers given {verb} wrong",
        "error": f"{share} of all questions {verb} answered wrong",
        "regret": f"{share} of all questions {verb} answered wrong but right at the full budget",
    }.get(certificate.risk, f"the mean loss {certificate.risk!r} is {share}")
    sure = f"With probability at least {rate(1 - certificate.delta)}"
    if certificate.p_value is PValue.CLT:
        sure = f"With probability about {rate(1 - certificate.delta)}, if problems were many"
    together = ""
    if len(alphas) > 1:
        listed = f"α{NB}={NB}{_listed(alphas, 'and')}"
        together = {
            Promise.SIMULTANEOUS: f": for {listed}, all at once",
            Promise.POINTWISE: f": for any one of {listed}, chosen before looking",
        }[certificate.promise]
    return f"{sure}, {what}, on average over new problems like those calibrated on{together}."


def _listed(parts: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _cards(findings: Findings) -> str:
    """The few figures to take away."""
    certificate, shown = findings.certificate, findings.shown
    found = [level.evaluation for level in shown.levels if level.evaluation]
    n_certified = sum(level.certified for level in certificate.levels)
    cards = [
        (
            "levels certified",
            f"{n_certified} of {len(certificate.levels)}",
            f"{certificate.risk} risk",
        )
    ]
    if found:
        saved = [1 - evaluation.tokens_share for evaluation in found]
        cards.append(("tokens saved", _span(saved), problems(shown)))
    if found and not findings.risk.answers_always:
        answered = [evaluation.answered_share for evaluation in found]
        cards.append(("questions answered", _span(answered), problems(shown)))
    servable = "its engine is known" if certificate.servable else "no fingerprint: analysis only"
    cards.append(("servable", "yes" if certificate.servable else "no", servable))
    rows = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(of)}</small></dd></div>"
        for name, value, of in cards
    )
    return f'<dl class="cards">{"".join(rows)}</dl>'


def _span(shares: Sequence[float]) -> str:
    low, high = percent(min(shares), 0), percent(max(shares), 0)
    return low if low == high else f"{low} to {high}"


def _note(findings: Findings) -> str:
    if findings.shown.on_test:
        return ""
    return (
        f'<p class="note">No test traces were given. {OPTIMISTIC}; for honest ones record other '
        "problems and give them as test traces.</p>"
    )


def _plate(plate: Plate) -> str:
    title, text = escape(plate.caption.title), escape(plate.caption.text)
    return (
        f'<h3 id="{plate.name}">{title}</h3>\n'
        f"<figure>{plate.svg}<figcaption>{text}</figcaption></figure>\n"
    )


def _smallest(certificate: Certificate) -> str:
    return (
        f"The smallest certifiable α is {percent(certificate.smallest_certifiable_alpha, 2)}: "
        "certified, or where a policy tested first would have passed. That says where to fit "
        "again; it promises nothing."
    )


def _procedure(findings: Findings) -> dict[str, object]:
    certificate, tested = findings.certificate, findings.certificate.tested
    procedure = certificate.procedure
    several = procedure.samples > 1
    return {
        "Risk": certificate.risk,
        "δ": f"{certificate.delta:g}",
        "Promise": certificate.promise,
        "Samples per question": procedure.samples,
        **(
            {"Vote": procedure.vote, "Draws per problem": procedure.draws or "all disjoint"}
            if several
            else {}
        ),
        "Method": certificate.method,
        "Test": certificate.p_value,
        "Policies tested": f"{len(tested.policies):,} ({tested.correction})",
        "Calibration problems": f"{certificate.n_problems:,}",
        "Exchangeable units": f"{certificate.n_units:,} (groups, and problems that stand alone)",
        "Rollouts": f"{certificate.n_rollouts:,}",
        "Problems for the order": f"{certificate.n_order_problems:,}",
        "Test problems": f"{findings.shown.n_problems:,}" if findings.shown.on_test else "none",
        "Created": certificate.created or "not said",
    }


def _fingerprint(certificate: Certificate) -> str:
    if certificate.fingerprint is None:
        return "<p>The traces carry no fingerprint, so nothing says which engine it holds for.</p>"
    values = certificate.fingerprint.to_json()
    shown = {
        name: repr(value) if name == "forced_suffix" else value for name, value in values.items()
    }
    return pairs("Fingerprint: the engine it holds for, and no other", shown)


def _digests(certificate: Certificate) -> dict[str, object]:
    return {
        "Certificate": certificate.digest,
        "Calibration traces": certificate.calibration_digest,
        "Order traces": certificate.order_digest or "none",
    }
