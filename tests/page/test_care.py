"""Who has no mouse, a small window, a dark room, or no wish for things that move."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.page.questions import LONG, SHORT
from tests.page.visitor import INKED, PATIENCE_MS, SCHEMES, Visitor, Visits
from tests.served import Served

pytestmark = pytest.mark.page

MOVES = """() => [...document.querySelectorAll("*")].filter((node) => {
  const style = getComputedStyle(node);
  const times = `${style.transitionDuration},${style.animationDuration}`.split(",");
  return times.some((time) => parseFloat(time) > 0);
}).map((node) => node.className || node.tagName)"""
OUTLINE = """() => {
  const at = document.activeElement;
  return [at, ...(at.labels ?? [])].map((one) => getComputedStyle(one)).some(
    ({ outlineStyle, outlineWidth }) => outlineStyle !== "none" && parseFloat(outlineWidth) > 0);
}"""
SMALL = """() => [...document.querySelectorAll("button, nav a, summary")].filter((it) => {
  const { width, height } = it.getBoundingClientRect();
  return height > 0 && (height < 24 || width < 24);
}).map((it) => it.textContent)"""
"""What is shown and smaller than the 24 pixels that a finger needs (WCAG 2.5.8)."""
LUMINANCE = """() => { const canvas = document.createElement("canvas")
    .getContext("2d", { willReadFrequently: true });
  canvas.fillStyle = getComputedStyle(document.documentElement).backgroundColor;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255 }"""


def tab_until(visitor: Visitor, there: Callable[[], bool], key: str = "Tab") -> None:
    """Presses Tab until the focus is there; wherever it goes, it can be seen."""
    for _ in range(80):
        visitor.page.keyboard.press(key)
        assert visitor.page.evaluate(OUTLINE), f"the focus is not seen: {visitor.focused()}"
        if there():
            return
    raise AssertionError(f"not reached by {key}; the last one is {visitor.focused()}")


def test_the_keyboard_is_enough(visitor: Visitor) -> None:
    page = visitor.page
    keys = page.keyboard
    visitor.go()
    expect(page.get_by_label("Your question")).to_be_focused()
    keys.type("Start at 19. A take 9.")
    keys.press("Shift+Enter")
    expect(page.get_by_label("Your question")).to_have_value("Start at 19. A take 9.\n")
    keys.press("Backspace")
    keys.type(" B add 3. What is the total?")

    tab_until(visitor, lambda: visitor.focused().startswith("How often may it be wrong?"))
    keys.press("ArrowRight")
    alpha = page.locator("input[type=range]").first
    expect(alpha).to_have_attribute("aria-valuetext", re.compile(r"^20%"))
    keys.press("ArrowLeft")
    expect(alpha).to_have_attribute("aria-valuetext", "10%, certified")
    tab_until(visitor, lambda: visitor.focused().startswith("How many samples?"))
    keys.press("Home")
    tab_until(visitor, lambda: visitor.focused() == "More")
    keys.press("Enter")
    tab_until(visitor, lambda: visitor.focused().startswith("Wrong answers among the answers"))
    tab_until(visitor, lambda: visitor.focused() == "Ask")
    keys.press("Enter")

    visitor.answered()
    expect(page.locator(".result-title")).to_be_focused()
    announced = visitor.page.locator("#announcer").inner_text()
    labels = ("Covered by the promise.", "Weak vote: treat it as a guess.", "Abstained.")
    assert announced.startswith(labels)
    tab_until(visitor, lambda: "What the promise covers" in visitor.focused())
    keys.press("Enter")
    expect(page.locator("section.trust .badges")).to_be_visible()
    tab_until(visitor, lambda: visitor.focused() == "Which stopping rules were tested")
    keys.press("Enter")
    field = page.locator(".map-field")
    field.wait_for()
    tab_until(visitor, lambda: bool(field.evaluate("(it) => it === document.activeElement")))
    reading = visitor.text(".map-reading")
    keys.press("ArrowDown")
    assert visitor.text(".map-reading") != reading

    tab_until(visitor, lambda: visitor.focused() == "Operate", "Shift+Tab")
    keys.press("Enter")
    expect(page.locator("section.operate .figures")).to_be_visible()
    tab_until(visitor, lambda: visitor.focused() == "Pause")
    keys.press("Enter")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()


def test_a_phone_can_ask(visit: Visits, served: Served) -> None:
    visitor = visit(served.url, 360, has_touch=True, is_mobile=True, color_scheme="dark")
    page = visitor.page
    visitor.go()
    page.get_by_role("button", name="Another example").tap()
    expect(page.get_by_label("Your question")).not_to_have_value("")
    assert visitor.wider() == 0
    page.get_by_role("button", name="Ask", exact=True).tap()
    page.locator(".lane-words:not(:empty)").first.wait_for(timeout=PATIENCE_MS)
    assert visitor.wider() == 0
    visitor.picture("phone-streaming", whole=False)
    visitor.answered()
    assert visitor.wider() == 0
    assert page.evaluate(SMALL) == []
    for view in ("Trust", "Operate"):
        page.get_by_role("link", name=view, exact=True).tap()
        if view == "Trust":
            visitor.unfold()
        page.locator(f"section.{view.lower()} canvas").first.wait_for()
        assert visitor.wider() == 0
        assert page.evaluate(SMALL) == []


def test_light_and_dark_are_followed_at_once(visitor: Visitor) -> None:
    page = visitor.page
    visitor.ask(SHORT, n=1, alpha=0.1)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        visitor.settle()
        luminance = page.evaluate(LUMINANCE)
        assert luminance > 0.8 if scheme == "light" else luminance < 0.15
        assert page.locator(".lane canvas").evaluate(INKED, "ink") > 50, "its curve is drawn anew"


def test_nothing_moves_for_those_who_want_it_so(visit: Visits, served: Served) -> None:
    moving = visit(served.url, reduced_motion="no-preference")
    still = visit(served.url, reduced_motion="reduce")
    moving.ask(LONG, n=4, alpha=0.1)
    assert "vote-bar" in moving.page.evaluate(MOVES)
    still.write(LONG, n=4, alpha=0.1)
    still.send()
    still.page.locator(".lane-words:not(:empty)").first.wait_for(timeout=PATIENCE_MS)
    assert still.page.evaluate(MOVES) == []
    still.answered()
    assert still.page.evaluate(MOVES) == []
    assert still.page.evaluate("document.getAnimations().length") == 0
    for view in ("trust", "operate"):
        still.go(f"#/{view}")
        if view == "trust":
            still.unfold()
        still.page.locator(f"section.{view} canvas").first.wait_for()
        assert still.page.evaluate(MOVES) == []
