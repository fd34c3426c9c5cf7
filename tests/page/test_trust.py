"""The certificates that ship, as the page shows them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.visitor import Visitor
from tests.served import Served

pytestmark = pytest.mark.page


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
    compared = visitor.page.locator("table.fingerprint td.compared").all_inner_texts()
    assert compared == ["✓ equal"] * parts

    alpha = float((visitor.text(".pledge h2").split("%")[0]).split()[-1]) / 100
    drawn = next(one for one in mine["maps"] if one["alpha"] == pytest.approx(alpha))
    certified = [one for one in drawn["tested"] if one["certified"]]
    label = visitor.page.locator(".map-field").get_attribute("aria-label") or ""
    assert f"{len(certified)} policies certified" in label
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
    expect(visitor.page.locator(".tokens-part canvas")).to_be_visible()
    assert len(visitor.page.locator(".coverage-out li").all()) == len(mine["does_not_cover"])
    visitor.inspect("trust")


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
    table = visitor.page.locator("table.compared")
    heads = table.locator("thead code")
    expect(heads).to_have_text([one["id"], other["id"]])
    assert visitor.page.url.endswith(f"#/trust?id={one['id']}&id={other['id']}")

    risks = [
        visitor_row.locator("td").all_inner_texts()
        for visitor_row in table.get_by_role("row", name=re.compile("^Realised risk")).all()
    ]
    alphas = sorted({level["alpha"] for it in (one, other) for level in it["levels"]})
    assert risks == [[_risk_at(it, alpha) for it in (one, other)] for alpha in alphas]
    expect(visitor.page.locator(".comparison canvas")).to_be_visible()
    expect(visitor.page.locator("article.certificate")).to_have_count(2)
    visitor.inspect("trust-compared")


def test_a_certificate_that_is_not_there(visitor: Visitor) -> None:
    visitor.go("#/trust?id=000000000000")
    expect(visitor.page.get_by_role("heading", name="No such certificate")).to_be_visible()
    visitor.inspect("trust-unknown")


def _risk_at(report: dict[str, Any], alpha: float) -> str:
    levels = [one for one in report["levels"] if one["alpha"] == alpha]
    if not levels:
        return "not tested"
    if not levels[0]["certified"]:
        return "✕ not certified"
    risk = (levels[0]["test"] or levels[0]["calibration"])["risk"]
    return f"{round(100 * risk, 1):g}%"
