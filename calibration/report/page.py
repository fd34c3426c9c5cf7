"""The page: what is promised, the figures, and what was calibrated."""

from collections.abc import Iterator, Sequence
from functools import partial

from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import equal_levels
from calibration.report import captions, figures, policy_figures, tables
from calibration.report.captions import OPTIMISTIC
from calibration.report.summary import Summary
from calibration.report.wording import problems, sureness
from calibration.report_kit.content import Bullets, Card, Cards, Links, Page, Plate, Section, Text
from calibration.report_kit.tables import Table, pairs
from calibration.report_kit.wording import NB, listed, percent, rate
from calibration.testing.fwer import Promise


def page(summary: Summary) -> Page:
    """The whole report."""
    certificate = summary.certificate
    created = f", {certificate.created}" if certificate.created else ""
    return Page(
        title=f"Risk report of certificate {certificate.id}",
        about=f"Certificate {certificate.id}{created}",
        heading="Risk report",
        lead=promise(certificate),
        header=[_cards(summary)],
        sections=[_levels(summary), _figures(summary), _covers(certificate), _calibrated(summary)],
    )


def plates(summary: Summary) -> Iterator[Plate]:
    """The figures, in the order of the page."""
    yield Plate("risk", partial(figures.draw_risk, summary), captions.of_risk(summary))
    yield Plate("tokens", partial(figures.draw_tokens, summary), captions.of_tokens(summary))
    if summary.coverage is not None:
        yield Plate(
            "risk-coverage",
            partial(figures.draw_coverage, summary, summary.coverage),
            captions.of_coverage(summary, summary.coverage),
        )
    yield Plate(
        "reliability",
        partial(figures.draw_reliability, summary),
        captions.of_reliability(summary),
    )
    yield Plate(
        "p-values",
        partial(policy_figures.draw_p_values, summary),
        captions.of_p_values(summary),
    )
    yield Plate(
        "samples",
        partial(policy_figures.draw_samples, summary.samples),
        captions.of_samples(summary),
    )


def promise(certificate: Certificate) -> str:
    """What is promised, in one or two sentences."""
    alphas = [rate(level.alpha) for level in certificate.certified_levels]
    if not alphas:
        levels = listed([rate(level.alpha) for level in certificate.levels], "or")
        return f"Nothing is promised: no policy is certified at a risk of {levels}."
    share, verb = (
        ("at most a share α", "is") if len(alphas) > 1 else (f"at most {alphas[0]}", "are")
    )
    what = {
        "selective": f"{share} of the answers given {verb} wrong",
        "error": f"{share} of all questions {verb} answered wrong",
        "regret": f"{share} of all questions {verb} answered wrong but right at the full budget",
    }.get(certificate.risk, f"the mean loss {certificate.risk!r} is {share}")
    together = ""
    if len(alphas) > 1:
        chosen = f"α{NB}={NB}{listed(alphas)}"
        together = {
            Promise.SIMULTANEOUS: f" This holds for {chosen} at the same time.",
            Promise.POINTWISE: f" This holds for any one of {chosen}, chosen before looking.",
        }[certificate.promise]
    average = "on average over new problems like the calibration problems"
    return f"{sureness(certificate)}, {what}, {average}.{together}"


def _cards(summary: Summary) -> Cards:
    """The key numbers."""
    certificate, shown = summary.certificate, summary.shown
    found = [level.evaluation for level in shown.levels if level.evaluation]
    n_certified = sum(level.certified for level in certificate.levels)
    certified = f"{n_certified} of {len(certificate.levels)}"
    cards = [Card("levels certified", certified, f"{certificate.risk} risk")]
    if found:
        saved = [1 - evaluation.tokens_share for evaluation in found]
        cards.append(Card("tokens saved", _span(saved), problems(shown)))
    if found and not summary.risk.answers_always:
        answered = [evaluation.answered_share for evaluation in found]
        cards.append(Card("questions answered", _span(answered), problems(shown)))
    why = "its engine is known" if certificate.servable else "no fingerprint: analysis only"
    cards.append(Card("servable", "yes" if certificate.servable else "no", why))
    return Cards(cards)


def _span(shares: Sequence[float]) -> str:
    low, high = percent(min(shares), 0), percent(max(shares), 0)
    return low if low == high else f"{low} to {high}"


def _levels(summary: Summary) -> Section:
    abstains, content = not summary.risk.answers_always, list[Text | Table]()
    if not summary.shown.on_test:
        advice = "For honest figures, record other problems and give them as test traces."
        content.append(Text(f"No test traces were given. {OPTIMISTIC} {advice}", "note"))
    if drawn := captions.labels_drawn(summary):
        content.append(Text(drawn, "note"))
    if summary.shown.certified:
        content.append(tables.measured_levels(summary.shown, abstains))
    content.append(tables.certified_levels(summary.certificate, abstains))
    content += [Text(words, "note") for words in _equal_levels(summary.certificate)]
    return Section("levels", "Levels", "", content)


def _equal_levels(certificate: Certificate) -> Iterator[str]:
    """Which neighbouring levels have the same policy, a sentence for each run of them."""
    for alphas in equal_levels(certificate.levels):
        yield (
            f"α{NB}={NB}{listed([rate(alpha) for alpha in alphas])} have the same policy, so "
            "questions are answered in the same way at each of them."
        )


def _figures(summary: Summary) -> Section:
    drawn = list(plates(summary))
    links = Links("Figures", {plate.name: plate.caption.title for plate in drawn})
    return Section("figures", "Figures", "", [links, *drawn])


def _covers(certificate: Certificate) -> Section:
    smallest = percent(certificate.smallest_certifiable_alpha, 2)
    return Section(
        "covers",
        "What is covered, and what is not",
        certificate.covers,
        [
            Text("Not covered:"),
            Bullets(certificate.does_not_cover),
            Text(
                f"The smallest certifiable α is {smallest}: it is certified, or a policy that was "
                "tested first would have passed there. It is a hint which α a fit on as many new "
                "problems may reach, and promises nothing."
            ),
        ],
    )


def _calibrated(summary: Summary) -> Section:
    certificate = summary.certificate
    engine: Text | Table = Text(
        "The traces carry no fingerprint, so the engine that the certificate holds for is unknown."
    )
    if certificate.fingerprint is not None:
        values = certificate.fingerprint.to_json()
        values["forced_suffix"] = repr(values["forced_suffix"])
        engine = pairs("Fingerprint: the only engine that the certificate holds for", values)
    return Section(
        "calibrated",
        "What was calibrated",
        "",
        [tables.procedure(summary), engine, tables.digests(certificate)],
    )
