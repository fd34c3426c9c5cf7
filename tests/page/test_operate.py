"""What the page says of the service while it works."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.page.visitor import Visitor
from tests.served import Served

pytestmark = pytest.mark.page

REFRESH_MS = 20_000


TOP = """async () => {
  const { plot } = await import(new URL("page/js/plot.js", document.baseURI));
  const root = document.body.appendChild(document.createElement("div"));
  const y = { min: 0, max: 5 };
  const { u } = plot(root, { x: {}, y, height: 100, series: [{}], data: [[0, 1], [0, 4]] });
  y.max = 50;
  u.batch(() => u.setData([[0, 1], [0, 40]]));
  return u.scales.y.max;
}"""
"""Upper end of a plot whose axis was lengthened after it was drawn."""


def shown(visitor: Visitor, outcome: str) -> int:
    """Questions of this outcome, as the page says."""
    item = visitor.page.locator(".bar-list[aria-label='Questions by outcome'] li").filter(
        has_text=re.compile(rf"^\W*{outcome}")
    )
    return int(item.locator(".bar-text").inner_text().split()[0].replace(",", ""))


def test_questions_are_counted_as_they_come(visitor: Visitor, served: Served) -> None:
    visitor.go("#/operate")
    expect(visitor.page.locator(".figures")).to_be_visible()
    before = served.client.get("/overview").json()
    for outcome in ("answered", "abstained"):
        assert shown(visitor, outcome) == before["questions"][outcome]

    for n in (1, 4):
        assert served.solve(n=n).status_code == 200
    after = served.client.get("/overview").json()
    sums = [one["questions"]["answered"] + one["questions"]["abstained"] for one in (before, after)]
    assert sums[1] == sums[0] + 2
    answered = re.compile(rf"^{after['questions']['answered']:,}\b")
    row = visitor.page.locator(".bar-list[aria-label='Questions by outcome'] li").first
    expect(row.locator(".bar-text")).to_have_text(answered, timeout=REFRESH_MS)
    assert shown(visitor, "abstained") == after["questions"]["abstained"]

    ended = sum(after["exits"].values())
    assert visitor.text("section:has(> h3:text-is('Why samples stopped'))").startswith(
        f"Why samples stopped {ended:,} samples since the start."
    )
    assert "● engine ready" in visitor.text(".status")
    for one in after["certificates"]:
        table = visitor.page.locator(".active-certificates table", has_text=one["id"])
        cells = table.locator("tbody tr td:nth-of-type(1)").all_inner_texts()
        certified = sorted(
            (level for level in one["levels"] if level["certified"]), key=lambda it: it["alpha"]
        )
        assert cells == [f"{level['questions']:,}" for level in certified]
    visitor.inspect("operate")


def test_a_plot_grows_with_its_figures(known: Visitor) -> None:
    known.go("#/operate")
    assert known.page.evaluate(TOP) == 50


def test_it_can_be_paused(visitor: Visitor, served: Served) -> None:
    visitor.go("#/operate")
    visitor.page.get_by_role("button", name="Pause").click()
    asked = visitor.addresses.count(f"{served.url}/overview")
    assert served.solve(n=1).status_code == 200
    visitor.page.wait_for_timeout(5000)
    assert visitor.addresses.count(f"{served.url}/overview") == asked
    assert "Paused." in visitor.text(".status")
    visitor.page.get_by_role("button", name="Resume").click()
    expect(visitor.page.locator(".status")).not_to_contain_text("Paused.")
    assert visitor.addresses.count(f"{served.url}/overview") > asked
