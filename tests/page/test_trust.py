"""The certificates that ship, as the page shows them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.visitor import Visitor
from tests.served import Served

pytestmark = pytest.mark.page

FIGURES = ("risk", "share_answered", "share_right", "tokens_share")


def percent(share: float) -> str:
    """As the page writes a measured share."""
    if share in (0, 1):
        return f"{100 * share:g}%"
    digits = next(d for d in range(1, 5) if d == 4 or round(100 * share, d) not in (0, 100))
    return f"{100 * share:.{digits}f}%"


@pytest.fixture(scope="module")
def reports(served: Served) -> dict[tuple[str, int], dict[str, Any]]:
    """By risk and samples."""
    certificates = served.client.get("/certificates").json()["certificates"]
    found = [served.client.get(f"/certificates/{one['id']}/report").json() for one in certificates]
    return {(one["risk"], one["n"]): one for one in found}


def test_the_active_certificate(
    visitor: Visitor, reports: dict[tuple[str, int], dict[str, Any]]
) -> None:
    mine = reports["selective", 1]
    visitor.go("#/trust")
    badges = visitor.page.locator(".badges")
    expect(badges).to_contain_text(mine["id"])
    expect(badges).to_contain_text("● active")

    parts = len(mine["fingerprint"])
    assert mine["fingerprint"] == mine["engine_fingerprint"]
    assert visitor.text(".verdict").startswith(f"✓ All {parts} parts match")
    visitor.page.locator("summary", has_text="Part by part").click()
    compared = visitor.page.locator("table.fingerprint td.compared").all_inner_texts()
    assert compared == ["✓ equal"] * parts

    visitor.unfold()
    alpha = float((visitor.text(".pledge h2").split("%")[0]).split()[-1]) / 100
    drawn = next(one for one in mine["maps"] if one["alpha"] == pytest.approx(alpha))
    certified = [one for one in drawn["tested"] if one["certified"]]
    label = visitor.page.locator(".map-field").get_attribute("aria-label") or ""
    assert f"{len(certified)} stopping rules certified" in label
    cells = sum(p is not None for row in drawn["p_values"] for p in row)
    assert cells > 100
    assert visitor.page.locator(".map-plane path, .map-plane rect").count() > 5
    assert "★ Tested, certified and chosen" in visitor.text(".map-reading")
    visitor.page.locator(".map-field").focus()
    before = visitor.text(".map-reading")
    visitor.page.keyboard.press("ArrowDown")
    assert visitor.text(".map-reading") != before
    visitor.page.keyboard.press("Home")
    assert visitor.text(".map-reading") == before

    expect(visitor.page.locator(".reliability-part canvas").first).to_be_visible()
    assert len(visitor.page.locator(".coverage-out li").all()) == len(mine["does_not_cover"])
    visitor.inspect("trust")


def test_the_evidence_has_every_figure_with_its_interval(
    visitor: Visitor, reports: dict[tuple[str, int], dict[str, Any]]
) -> None:
    mine = reports["selective", 1]
    visitor.go(f"#/trust?id={mine['id']}")
    rows = visitor.page.locator("table.evidence tbody tr")
    expect(rows).to_have_count(len(mine["levels"]))
    for row, level in zip(rows.all(), mine["levels"], strict=True):
        expect(row.get_by_role("rowheader")).to_have_text(f"{100 * level['alpha']:g}%")
        shown = [" ".join(each.split()) for each in row.locator(".words").all_inner_texts()]
        for words, name in zip(shown, FIGURES, strict=True):
            ends = (level["test"][f"{name}_{end}"] for end in ("low", "high"))
            assert words.startswith(
                f"{percent(level['test'][name])} {' to '.join(map(percent, ends))}"
            )
        risk = level["test"]["risk_low"], level["test"]["risk_high"]
        target = f"{100 * level['alpha']:g}%"
        side = f"○ the interval includes {target}"
        if risk[1] <= level["alpha"]:
            side = f"✓ below {target}"
        elif risk[0] > level["alpha"]:
            side = f"✕ above {target}, beyond chance"
        expect(row.locator(".side")).to_have_text(side)

    rows.first.get_by_role("radio").check()
    assert visitor.text(".pledge h2").startswith("The promise: at most 1%")
    assert visitor.page.url.endswith("alpha=0.01")


def test_it_says_whether_the_promise_was_kept_and_why_stopping_early_may_be_right_more_often(
    visitor: Visitor, reports: dict[tuple[str, int], dict[str, Any]]
) -> None:
    mine = reports["selective", 1]
    first, *_, last = mine["levels"]
    assert first["test"]["risk_low"] < first["alpha"] < first["test"]["risk"]
    visitor.go(f"#/trust?id={mine['id']}&alpha={first['alpha']}")
    assert "of the given answers were wrong" in visitor.text(".found")
    assert visitor.text(".found").startswith("○")
    assert "which includes the promised 1%." in visitor.text(".found")
    assert "overthinking" not in visitor.text(".found")

    assert last["test"]["share_right"] > mine["test"]["full_right"]
    visitor.go(f"#/trust?id={mine['id']}&alpha={last['alpha']}")
    assert "below the promised 20%." in visitor.text(".found")
    assert "thinks on and ends with a wrong one (overthinking)" in visitor.text(".found")


def test_it_opens_on_what_was_set_in_ask(visitor: Visitor) -> None:
    for alpha, level in ((0.2, 20), (0.15, 10)):
        visitor.go(f"#/ask?alpha={alpha}&n=4")
        visitor.page.get_by_role("link", name="Trust", exact=True).click()
        expect(visitor.page.locator(".pledge h2")).to_contain_text(f"at most {level}%")
        asked = f"applies to your settings in Ask: 4 samples, α = {100 * alpha:g}%."
        expect(visitor.page.locator(".lead")).to_contain_text(asked)
    expect(visitor.page.locator(".lead")).to_contain_text("answered at the level of 10%.")

    visitor.page.locator(".chip a", has_text="8 samples").first.click()
    expect(visitor.page.locator(".badges")).to_contain_text("8 samples")
    expect(visitor.page.locator(".pledge h2")).to_contain_text("at most 10%")
    expect(visitor.page.locator(".lead")).not_to_contain_text("your settings in Ask")


def test_it_opens_on_what_was_set_in_the_demo(newcomer: Visitor) -> None:
    newcomer.go("")
    newcomer.page.locator(".demo input[type=range]").press("End")
    newcomer.page.get_by_role("link", name="Trust", exact=True).click()
    expect(newcomer.page.locator(".lead")).to_contain_text("1 sample, α = 20%.")
    expect(newcomer.page.locator(".pledge h2")).to_contain_text("at most 10%")


def test_a_comparison_fits_one_screen_and_says_what_differs(
    visitor: Visitor, reports: dict[tuple[str, int], dict[str, Any]]
) -> None:
    one, other = reports["selective", 1], reports["error", 1]
    visitor.go(f"#/trust?id={one['id']}&id={other['id']}")
    expect(visitor.page.locator("table.evidence")).to_be_visible()
    below = visitor.page.evaluate(
        "document.querySelector('table.evidence').getBoundingClientRect().bottom - innerHeight"
    )
    assert below <= 0
    said = visitor.text(".differences")
    assert "They promise different things." in said
    assert "Both were calibrated on 1,599 problems." in said
    assert "Only B is certified at α = 30%." in said


def test_a_level_that_is_not_certified_is_not_promised(
    visitor: Visitor, reports: dict[tuple[str, int], dict[str, Any]]
) -> None:
    refused = [
        (one, level)
        for one in reports.values()
        for level in one["levels"]
        if not level["certified"]
    ]
    if not refused:
        pytest.skip("every level of every certificate that ships is certified")
    one, level = refused[0]
    visitor.go(f"#/trust?id={one['id']}&alpha={level['alpha']}")
    assert visitor.text(".pledge h2").startswith("No guarantee at α")
    visitor.inspect("trust-not-certified")


def test_certificates_side_by_side(
    visitor: Visitor, reports: dict[tuple[str, int], dict[str, Any]]
) -> None:
    one, other = reports["selective", 1], reports["selective", 4]
    visitor.go(f"#/trust?id={one['id']}")
    expect(visitor.page.locator(".badges")).to_have_count(1)
    visitor.page.locator(f".chip input[data-id='{other['id']}']").check()
    table = visitor.page.locator("table.evidence")
    expect(visitor.page.locator(".compared-names code")).to_have_text([one["id"], other["id"]])
    assert visitor.page.url.endswith(f"#/trust?id={one['id']}&id={other['id']}")

    alphas = sorted({level["alpha"] for it in (one, other) for level in it["levels"]})
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(2 * len(alphas))
    shown = [row.locator("td").first.inner_text().split()[0] for row in rows.all()]
    assert shown == [_risk_at(it, alpha) for alpha in alphas for it in (one, other)]
    expect(visitor.page.locator("article.certificate")).to_have_count(0)
    visitor.inspect("trust-compared")


def test_a_certificate_that_is_not_there(visitor: Visitor) -> None:
    visitor.go("#/trust?id=000000000000")
    expect(visitor.page.get_by_role("heading", name="There is no such certificate")).to_be_visible()
    visitor.inspect("trust-unknown")


def _risk_at(report: dict[str, Any], alpha: float) -> str:
    levels = [one for one in report["levels"] if one["alpha"] == alpha]
    if not levels:
        return "no"
    if not levels[0]["certified"]:
        return "✕"
    return percent((levels[0]["test"] or levels[0]["calibration"])["risk"])
