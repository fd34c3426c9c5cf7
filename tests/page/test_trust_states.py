"""How far an answer can be trusted is seen at once, and nothing jumps when it comes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.page.scripted import ScriptedProcess
from tests.page.streams import STATEMENT, STATES, Told
from tests.page.visitor import Visitor, Visits

pytestmark = pytest.mark.page

MOST_SHIFT = 0.05
FIVE_WIDTHS = {360: 740, 768: 1024, 1280: 800, 1920: 1080, 2560: 1300}
LABELS = {
    "guaranteed": "Covered by the promise",
    "weak": "Weak vote: treat it as a guess",
    "none": "No promise covers this answer",
    "unfamiliar": "Unlike the tested questions",
    "withdrawn": "The promise was withdrawn",
    "abstained": "Abstained",
}
SHIFTS = """() => {
  window.shifted = [];
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.shifted.push(one.hadRecentInput ? 0 : one.value);
  }).observe({ type: "layout-shift", buffered: false });
}"""
IN_PARTS = """(parts) => {
  const real = window.fetch;
  window.fetch = (...request) => {
    if (!String(request[0]).endsWith("/solve")) return real(...request);
    const body = new ReadableStream({
      async start(controller) {
        // Input lately would excuse a shift, so the stream begins once that is over.
        await new Promise((then) => setTimeout(then, 700));
        for (const part of parts) {
          controller.enqueue(new TextEncoder().encode(part));
          await new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)));
        }
        controller.close();
      },
    });
    const headers = { "Content-Type": "text/event-stream" };
    return Promise.resolve(new Response(body, { headers }));
  };
}"""
"""Gives the page a stream event by event, each after it has drawn the one before."""


def told_as(visitor: Visitor, told: Told) -> None:
    """Has the next questions answered like this."""
    headers = {"content-type": "text/event-stream"}

    def answer(route: Route) -> None:
        route.fulfill(status=200, headers=headers, body=told.stream())

    visitor.page.route(f"{visitor.url}/solve", answer)


def asked_as(visitor: Visitor, told: Told) -> None:
    """Asks, and waits for the answer."""
    told_as(visitor, told)
    visitor.ask("Start at 19. A take 9. B add 3. What is the total?", n=told.n, alpha=0.05)


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_its_words_its_shape_and_its_size(known: Visitor, state: str) -> None:
    page = known.page
    told = STATES[state]
    asked_as(known, told)
    outcome = page.locator(".outcome")
    expect(outcome).to_have_attribute("data-state", state)
    assert known.text(".result-title") == LABELS[state]
    said = known.text(".outcome")
    assert (STATEMENT in said) == (state == "guaranteed")
    assert ("What the promise covers" in said) == (state in ("guaranteed", "weak", "abstained"))
    saved = page.get_by_text("fewer than that average")
    expect(saved).to_have_count(1 if state in ("guaranteed", "weak") else 0)
    if state == "abstained":
        assert known.text(".spending") == "260 tokens spent on this question, without an answer"
    known.inspect(f"trust-{state}")


def test_no_confidence_is_praised_where_it_was_not_tested(known: Visitor) -> None:
    page = known.page
    struck = "(it) => getComputedStyle(it).textDecorationLine"
    asked_as(known, STATES["guaranteed"])
    assert page.locator(".lane-reading").first.evaluate(struck) == "none"
    page.unroute_all()
    asked_as(known, STATES["unfamiliar"])
    assert page.locator(".lane-reading").first.evaluate(struck) == "line-through"
    said = known.text(".watch")
    assert "confident enough" not in said
    assert "not tested on such questions" in known.text(".lanes-legend")
    assert "do not trust the answer" in known.text(".promise")
    assert "At most 1 of 500 questions" in known.text(".sureness")
    assert "familiarity" not in said


def test_the_states_differ_without_colour_and_fall_in_size(
    visit: Visits, scripted: ScriptedProcess, known: Visitor
) -> None:
    looks = {}
    for state, told in STATES.items():
        known.page.unroute_all()
        asked_as(known, told)
        looks[state] = known.page.evaluate(
            """() => {
              const box = document.querySelector(".outcome");
              const value = getComputedStyle(box.querySelector(".result-verdict .result-value"));
              const border = getComputedStyle(box).borderTopStyle;
              const badge = box.querySelector(".result-verdict .badge").innerHTML;
              return { border, badge, size: parseFloat(value.fontSize) };
            }"""
        )
    shapes = {(one["border"], one["badge"]) for one in looks.values()}
    assert len(shapes) == len(STATES)
    sizes = {state: one["size"] for state, one in looks.items()}
    assert sizes["guaranteed"] > sizes["weak"] == sizes["none"]
    assert sizes["none"] > sizes["unfamiliar"] == sizes["withdrawn"] >= sizes["abstained"]


@pytest.mark.parametrize("width", FIVE_WIDTHS)
@pytest.mark.parametrize("state", ["guaranteed", "weak", "abstained"])
def test_the_answer_does_not_jump(known: Visitor, state: str, width: int) -> None:
    page = known.page
    page.set_viewport_size({"width": width, "height": FIVE_WIDTHS[width]})
    told = STATES[state]
    known.write("Start at 19. A take 9. B add 3. What is the total?", n=told.n, alpha=0.05)
    page.wait_for_load_state("networkidle")
    page.evaluate(IN_PARTS, [f"{part}\n\n" for part in told.stream().split("\n\n") if part])
    page.evaluate(SHIFTS)
    known.send()
    known.answered()
    expect(page.locator(".story")).to_be_visible()
    known.settle()
    shifted = page.evaluate("window.shifted")
    known.note(f"layout shift, {state}, {width} px: {sum(shifted):.4f}")
    assert sum(shifted) < MOST_SHIFT, shifted


def test_a_long_answer_has_its_place_too(known: Visitor) -> None:
    asked_as(known, Told(answers=("the set of all even numbers " * 12,)))
    assert known.wider() == 0
    place = known.page.locator(".outcome").bounding_box()
    value = known.page.locator(".result-value").bounding_box()
    assert place is not None
    assert value is not None
    assert value["y"] + value["height"] <= place["y"] + place["height"]
    known.inspect("trust-long-answer")
