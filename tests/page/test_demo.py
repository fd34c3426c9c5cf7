"""The demo: what α does, on recorded questions, before the visitor has typed anything."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Route, expect

from calibration import ExitPolicy
from calibration.certificate.report_data import ReportData, report_data_path
from calibration.policy.exit_search import find_exits
from rlcm_serve.errors import NotReady
from rlcm_serve.page.demo import demo_of
from tests.page.by_hand import SHIPPED, refuse, tell_shipped
from tests.page.test_trust_states import SHIFTS
from tests.page.visitor import Visitor

pytestmark = pytest.mark.page

FILE = SHIPPED / "selective-1.json"
MOST_MS = 12.0
DRAGS = 40
STEP_MS = 130
TRIES = 3
DRAG = """(times) => new Promise((done) => {
  const input = document.querySelector(".demo input[type=range]");
  let at = 0;
  (function next() {
    input.value = String(at % (Number(input.max) + 1));
    input.dispatchEvent(new Event("input"));
    at += 1;
    requestAnimationFrame(at < times ? next : () => requestAnimationFrame(done));
  })();
})"""
"""Moves the slider to another level in every frame."""


def outcomes() -> dict[float, list[str]]:
    """What comes of each recorded question at each level, by the vectorised exit rule."""
    recorded = ReportData.load(report_data_path(FILE)).recorded
    assert recorded is not None
    demo: dict[str, Any] = json.loads(demo_of((FILE,)).content)  # type: ignore[union-attr]
    longest = max(len(one.tokens) for one in recorded.questions)
    shape = (len(recorded.questions), longest)
    tokens_RC, read_RC = np.zeros(shape, np.int64), np.full(shape, np.nan)
    for row, one in enumerate(recorded.questions):
        tokens_RC[row, : len(one.tokens)] = one.tokens
        read_RC[row, : len(one.tokens)] = one.confidence
    final_R = np.array([len(one.tokens) - 1 for one in recorded.questions])
    policies = [ExitPolicy.from_scalars(level["policy"]) for level in demo["levels"]]
    exits = find_exits(policies, tokens_RC, read_RC, final_R)
    found: dict[float, list[str]] = {}
    for at, level in enumerate(demo["levels"]):
        right = [one.right[exits.stop_RT[row, at]] for row, one in enumerate(recorded.questions)]
        found[level["alpha"]] = [
            {"1": "right", "0": "wrong", "-": "abstained"}[is_right] if answered else "abstained"
            for is_right, answered in zip(right, exits.answered_RT[:, at], strict=True)
        ]
    return found


def key_of(visitor: Visitor) -> list[str]:
    """How many dots there are of each shape, as the demo says below them."""
    return [one.strip() for one in visitor.page.locator(".dots-legend li").all_inner_texts()]


def test_each_level_makes_of_each_question_what_the_service_would(newcomer: Visitor) -> None:
    page = newcomer.page
    newcomer.go("")
    expect(page.locator(".demo")).to_be_visible()
    alpha = page.locator(".demo input[type=range]")
    alpha.press("Home")
    expected = outcomes()
    assert len(expected) > 3
    for level, wanted in expected.items():
        expect(alpha).to_have_attribute("aria-valuetext", f"at most {100 * level:g}%, certified")
        shown = page.locator(".dots .dot").evaluate_all(
            "(all) => all.map((it) => it.dataset.outcome)"
        )
        assert shown == wanted
        wrong, abstained = wanted.count("wrong"), wanted.count("abstained")
        said = newcomer.text(".demo-count")
        assert f"At {100 * level:g}%: {wrong} wrong of {100 - abstained} answered, " in said
        assert "% of the tokens of thinking to the end." in said
        assert key_of(newcomer) == [
            f"{wanted.count(outcome)} {outcome}" for outcome in ("right", "wrong", "abstained")
        ]
        alpha.press("ArrowRight")
    newcomer.inspect("demo")


@pytest.mark.parametrize("slow", ["page/about", "page/demo"])
def test_the_page_says_that_it_loads_until_the_demo_is_there(newcomer: Visitor, slow: str) -> None:
    page = newcomer.page
    held: list[Route] = []
    page.route(f"{newcomer.url}/{slow}", lambda route: held.append(route))
    page.goto(newcomer.url, wait_until="commit")
    loading = page.locator("main").get_by_text("Loading …", exact=True)
    expect(loading).to_be_visible()
    purpose = [newcomer.text("main h1"), newcomer.text(".demo-intro")]
    assert purpose[0].startswith("Say how often an answer may be wrong.")
    while not held:
        page.wait_for_timeout(20)
    page.evaluate(SHIFTS)
    held[0].fallback()
    expect(page.locator(".demo")).to_be_visible()
    expect(loading).to_have_count(0)
    newcomer.settle()
    assert [newcomer.text("main h1"), newcomer.text(".demo-intro")] == purpose
    expect(page.locator("#opening")).to_have_count(0)
    assert sum(page.evaluate("window.shifted")) < 0.05


def test_it_comes_first_until_it_is_left(newcomer: Visitor) -> None:
    page = newcomer.page
    newcomer.go("")
    expect(page.get_by_label("Your question")).to_be_hidden()
    page.locator(".demo input[type=range]").press("Home")
    page.get_by_role("button", name="Ask your own question").click()
    expect(page.get_by_label("Your question")).to_be_focused()
    expect(page.locator(".demo")).to_be_hidden()
    expect(page.locator(".ask-form input[type=range]").first).to_have_attribute(
        "aria-valuetext", re.compile("^1%")
    )
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask your own question")
    page.reload()
    expect(page.get_by_label("Your question")).to_be_visible()
    expect(page.locator(".demo")).to_have_count(0)
    page.get_by_role("button", name="Watch the twenty-second demo").click()
    expect(page.locator(".demo")).to_be_visible()


def test_the_same_levels_stand_at_the_same_places_in_the_form(newcomer: Visitor) -> None:
    page = newcomer.page
    tell_shipped(newcomer, "selective-1")
    newcomer.go("")
    expect(page.locator(".demo")).to_be_visible()
    places = "(all) => all.map((it) => [it.lastChild.textContent, it.style.left])"
    shown = page.locator(".demo .tick").evaluate_all(places)
    assert len(shown) > 3
    page.get_by_role("button", name="Ask your own question").click()
    alpha = page.locator(".ask-form .slider").first
    expect(alpha.locator(".tick")).to_have_count(len(shown))
    assert alpha.locator(".tick").evaluate_all(places) == shown


def test_what_it_shows_is_seen_without_scrolling(newcomer: Visitor) -> None:
    page = newcomer.page
    newcomer.go("")
    alpha = page.locator(".demo input[type=range]")
    alpha.press("Home")
    for _ in outcomes():
        for part in (".dots", ".demo-told", ".demo-proof", ".demo .primary"):
            box = page.locator(part).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800, part
        alpha.press("ArrowRight")


def test_a_measured_risk_is_told_with_its_interval_and_its_side(newcomer: Visitor) -> None:
    demo: dict[str, Any] = json.loads(demo_of((FILE,)).content)  # type: ignore[union-attr]
    newcomer.go("")
    alpha = newcomer.page.locator(".demo input[type=range]")
    alpha.press("Home")
    sides = set()
    for level in demo["levels"]:
        low, high = level["measured"]["low"], level["measured"]["high"]
        side = "below" if high <= level["alpha"] else "which includes"
        assert low <= level["alpha"]
        said = newcomer.text(".demo-proof")
        assert (
            f"of answers wrong (95% interval: {100 * low:.1f}% to {100 * high:.1f}%), {side} "
            in said
        )
        assert f"{side} {100 * level['alpha']:g}%." in said
        sides.add(side)
        alpha.press("ArrowRight")
    assert len(sides) == 2


def test_a_zone_begins_where_it_can_stop(newcomer: Visitor) -> None:
    """Patience: what is low earlier than that does not lie in it."""
    page = newcomer.page
    demo: dict[str, Any] = json.loads(demo_of((FILE,)).content)  # type: ignore[union-attr]
    policy = demo["levels"][0]["policy"]
    assert policy["patience"] > 100
    newcomer.go("")
    page.locator(".demo input[type=range]").press("Home")
    ends = [one["tokens"][-1] for one in demo["questions"]]
    page.get_by_role("option").nth(ends.index(max(ends))).click()
    zone = page.locator(".demo-line.low rect")
    left, width = (float(zone.get_attribute(name) or "nan") for name in ("x", "width"))
    start = float(page.locator(".demo-axes line").first.get_attribute("x1") or "nan")
    share = (left - start) / (left + width - start)
    assert share == pytest.approx(policy["patience"] / max(ends), abs=0.01)


def test_a_link_to_a_question_goes_past_it(newcomer: Visitor) -> None:
    newcomer.go("#/ask?problem=What+is+2+%2B+2%3F")
    expect(newcomer.page.get_by_label("Your question")).to_have_value("What is 2 + 2?")
    expect(newcomer.page.locator(".demo")).to_have_count(0)


def test_it_needs_no_engine_and_no_key(newcomer: Visitor) -> None:
    page = newcomer.page
    refuse(newcomer, "readyz", NotReady("loading the weights", "starting"))
    newcomer.go("")
    expect(page.locator("#engine")).to_have_attribute("data-state", "starting")
    expect(page.locator(".dots .dot[data-outcome=right]").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert f"{newcomer.url}/certificates" not in newcomer.addresses


def test_its_slider_follows_the_pointer_while_the_engine_starts(newcomer: Visitor) -> None:
    page = newcomer.page
    refuse(newcomer, "readyz", NotReady("loading the weights", "starting"))
    page.emulate_media(reduced_motion="no-preference")
    newcomer.go("")
    expect(page.locator("#engine")).to_have_attribute("data-state", "starting")
    value = page.locator(".demo .slider-value")
    ticks = page.locator(".demo .tick")
    expect(ticks).to_have_count(5)
    for tick in ticks.all():
        name, box = tick.inner_text().removeprefix("◆"), tick.bounding_box()
        assert box is not None
        page.get_by_role("button", name="Replay").click()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.wait_for_timeout(2 * STEP_MS)  # the replay draws meanwhile
        page.mouse.up()
        expect(value).to_have_text(f"at most {name}", timeout=1000)
    page.get_by_role("button", name="Replay").click()
    track = page.locator(".demo input[type=range]").bounding_box()
    assert track is not None
    across = track["y"] + track["height"] / 2
    page.mouse.move(track["x"] + track["width"] / 2, across)
    page.mouse.down()
    page.wait_for_timeout(2 * STEP_MS)
    for share, shown in ((0.99, "at most 20%"), (0.01, "at most 1%")):
        page.mouse.move(track["x"] + track["width"] * share, across, steps=4)
        expect(value).to_have_text(shown, timeout=1000)
    page.mouse.up()


def test_the_keyboard_chooses_a_question(newcomer: Visitor) -> None:
    page = newcomer.page
    newcomer.go("")
    field = page.get_by_role("listbox")
    asked = newcomer.text(".demo-question")
    field.press("ArrowDown")
    field.press("ArrowRight")
    assert newcomer.text(".demo-question") != asked
    expect(page.get_by_role("option", selected=True)).to_have_count(1)
    page.get_by_role("option").first.click()
    chosen = page.get_by_role("option", selected=True)
    expect(chosen).to_have_attribute("aria-label", re.compile("Question 1:"))


def test_it_replays_where_things_may_move(newcomer: Visitor) -> None:
    page = newcomer.page
    page.emulate_media(reduced_motion="no-preference")
    newcomer.go("")
    expect(page.locator(".demo-told")).to_have_text("Thinking …")
    expect(page.locator(".demo-told")).not_to_have_text("Thinking …")
    expect(page.locator(".demo-stop")).to_be_visible()


def test_the_count_is_said_again_only_if_the_level_changes(newcomer: Visitor) -> None:
    page = newcomer.page
    page.emulate_media(reduced_motion="no-preference")
    newcomer.go("")
    expect(page.locator(".demo-told")).not_to_have_text("Thinking …")
    page.evaluate(
        """() => {
          window.said = 0;
          const watching = { childList: true, subtree: true, characterData: true };
          new MutationObserver(() => { window.said += 1; })
            .observe(document.querySelector(".demo-count"), watching);
        }"""
    )
    page.get_by_role("button", name="Replay").click()
    page.wait_for_timeout(4 * STEP_MS)
    assert page.evaluate("window.said") == 0
    page.locator(".demo input[type=range]").press("ArrowRight")
    page.wait_for_function("window.said === 1")


def test_nothing_jumps_while_it_is_dragged(newcomer: Visitor) -> None:
    page = newcomer.page
    for width, height in ((360, 740), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        newcomer.go("")
        expect(page.locator(".demo")).to_be_visible()
        newcomer.settle()
        page.evaluate(SHIFTS)
        page.evaluate(DRAG, DRAGS)
        assert sum(page.evaluate("window.shifted")) < 0.05


def test_a_dragged_frame_is_cheap(newcomer: Visitor) -> None:
    page = newcomer.page
    newcomer.go("")
    expect(page.locator(".demo")).to_be_visible()
    session = newcomer.context.new_cdp_session(page)
    # Processor time of the page's thread: what other programs take does not count.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(1000 * float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    page.evaluate(DRAG, DRAGS)
    each = []
    for _ in range(TRIES):
        before = spent()
        page.evaluate(DRAG, DRAGS)
        each.append((spent() - before) / DRAGS)
    newcomer.note(f"a dragged frame of the demo: {', '.join(f'{one:.1f} ms' for one in each)}")
    assert min(each) <= MOST_MS, each
