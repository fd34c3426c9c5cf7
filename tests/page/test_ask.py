"""A question from the form to its answer, around the real engine; what the form keeps."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Route, expect

from tests.page.questions import LONG, SHORT
from tests.page.visitor import INKED, PATIENCE_MS, Visitor, Visits
from tests.served import Served

pytestmark = pytest.mark.page

EXITS = {
    "high": "▲ stopped early",
    "low": "▼ low confidence",
    "natural": "● finished",
    "budget": "■ out of budget",
    "cancelled": "✕ no longer needed",
}
WATCH_TEXT = """() => {
  window.lengths = [];
  (function look() {
    const text = document.querySelector(".lane-words")?.textContent.length;
    if (text && text !== window.lengths.at(-1)) window.lengths.push(text);
    if (!document.querySelector(".result")) requestAnimationFrame(look);
  })();
}"""


def test_an_answer_comes_as_the_service_tells_it(visitor: Visitor, served: Served) -> None:
    visitor.write(LONG, n=4, alpha=0.1)
    visitor.inspect("ask")
    visitor.page.evaluate(WATCH_TEXT)
    with visitor.told() as told:
        visitor.send()
        visitor.page.locator(".lane-reading:not(:empty)").first.wait_for(timeout=PATIENCE_MS)
        visitor.picture("streaming", whole=False)
        visitor.answered()

    start = next(data for name, data in told if name == "start")
    samples = [data for name, data in told if name == "sample"]
    done = next(data for name, data in told if name == "done")
    assert len(samples) == 4
    for sample in samples:
        lane = visitor.page.get_by_role("article", name=f"Sample {sample['sample'] + 1}")
        shown = " ".join(lane.inner_text().replace("\N{NO-BREAK SPACE}", " ").split())
        assert EXITS[sample["exit"]] in shown
        assert f"{sample['reasoning_tokens']} token" in shown
        assert lane.locator("canvas").evaluate(INKED, "ink") > 20, "there is a curve"
        said = lane.locator(".lane-curve").get_attribute("aria-label") or ""
        read = [
            data["tokens"]
            for name, data in told
            if name == "checkpoint" and data["sample"] == sample["sample"]
        ]
        assert [int(at) for at in re.findall(r"(\d+): \d\.\d\d", said)] == read
    assert sum(name == "token" for name, _ in told) > 4
    lengths = visitor.page.evaluate("window.lengths")
    assert len(lengths) > 2, "text came bit by bit"

    value = visitor.text(".result-value")
    assert value == ("no answer" if done["abstained"] else done["answer"])
    promise = visitor.text(".promise")
    guarantee = start["guarantee"]
    assert guarantee["alpha_certified"] == 0.1
    if visitor.page.locator(".outcome").get_attribute("data-state") == "guaranteed":
        assert guarantee["statement"] in promise
    sure = visitor.text(".sureness")
    assert f"at least {100 * (1 - guarantee['delta']):.0f}% of the rules would keep" in sure
    link = visitor.page.locator(".promise a")
    assert link.get_attribute("href") == f"#/trust?id={guarantee['certificate']}&alpha=0.1"
    assert "You accepted a wrong answer in 1 of 10 answered questions." in visitor.text(
        ".result-told"
    )
    expect(visitor.page.locator(".others tr.mine")).to_have_count(1)
    counted = next(data for name, data in reversed(told) if name == "vote")
    assert f"{counted['counted']} of 4 counted" in visitor.text(".watch")
    visitor.inspect("answered")

    link.click()
    expect(visitor.page.locator(".trust .badges")).to_contain_text(guarantee["certificate"])
    visitor.page.go_back()
    expect(visitor.page.locator(".result")).to_be_visible()


def test_one_sample_is_shown_large(visitor: Visitor) -> None:
    visitor.ask(SHORT, n=1, alpha=0.05)
    expect(visitor.page.locator(".lane.solo")).to_have_count(1)
    visitor.inspect("answered-one")

    visitor.page.locator(".promise a").click()
    promised = visitor.page.get_by_role("heading", name="At most 5% of the answers it gives")
    expect(promised).to_be_visible()


def test_many_samples_share_a_plot(visitor: Visitor) -> None:
    visitor.ask(LONG, n=64, alpha=0.1)
    page = visitor.page
    expect(page.locator(".crowd-one")).to_have_count(64)
    assert visitor.text(".result-title") == "No promise covers this answer"
    last = page.get_by_role("button", name=re.compile("^Sample 64"))
    last.press("Enter")
    expect(last).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".crowd h3")).to_have_text(re.compile("^Sample 64: .* after "))
    expect(page.locator(".crowd .lane-words")).not_to_have_text("")
    assert page.locator(".crowd canvas").evaluate(INKED, "ink") > 20, "its curve stands out"
    assert visitor.wider() == 0
    visitor.inspect("sixty-four")


def test_a_link_repeats_a_run_and_the_question_stays_in_the_browser(
    visit: Visits, served: Served
) -> None:
    one, other = visit(served.url), visit(served.url)
    question = "A dial shows 2. A up 4. B down 5. What does the hushed dial show now?"
    settings = {"problem": question, "alpha": 0.4, "n": 1, "risk": "error", "vote": "confidence"}
    one.go()
    with one.page.expect_request("**/solve") as first:
        one.write(question, n=1, alpha=0.4, risk="error")
        one.send()
    one.answered()
    address = one.page.url
    assert address.startswith(f"{served.url}/#/ask?")
    assert parse_qs(address.split("?", 1)[1]) == {k: [str(v)] for k, v in settings.items()}

    other.go(address.removeprefix(f"{served.url}/"))
    with other.page.expect_request("**/solve") as second:
        other.send()
    other.answered()
    assert json.loads(first.value.post_data or "") == json.loads(second.value.post_data or "")
    assert json.loads(first.value.post_data or "").items() >= settings.items()

    asked = [*one.addresses, *other.addresses]
    assert f"{served.url}/solve" in asked
    assert not [at for at in asked if "hushed" in at]
    assert not [at for at in asked if at and not at.startswith((served.url, "about:", "data:"))]
    assert "hushed" not in served.log.read_text()


def test_esc_stops_the_engine(visitor: Visitor, served: Served) -> None:
    visitor.write(LONG, n=64, alpha=0.1)
    before = served.client.get("/overview").json()
    visitor.send()
    visitor.page.locator(".lane-words:not(:empty)").first.wait_for(timeout=PATIENCE_MS)
    during = served.client.get("/overview").json()
    visitor.page.keyboard.press("Escape")
    assert visitor.notice().inner_text() == "You stopped the question"
    assert during["queue"]["running"] == 1
    assert during["engine"]["requests"] > 0

    visitor.page.wait_for_timeout(1500)
    after = served.client.get("/overview").json()
    assert (after["queue"]["running"], after["engine"]["requests"]) == (0, 0)
    assert after["questions"]["failures"].get("cancelled", 0) == (
        before["questions"]["failures"].get("cancelled", 0) + 1
    )
    for outcome in ("answered", "abstained"):
        assert after["questions"][outcome] == before["questions"][outcome]
    assert "cut off" in visitor.text(".lanes")
    visitor.inspect("stopped")

    visitor.page.get_by_role("button", name="Ask another").click()
    expect(visitor.page.get_by_label("Your question")).to_be_focused()
    expect(visitor.page.get_by_label("Your question")).to_have_value(LONG)


def test_an_alpha_that_nothing_keeps_offers_those_that_something_does(
    visitor: Visitor, served: Served
) -> None:
    certificates = served.client.get("/certificates").json()["certificates"]
    (mine,) = (
        one
        for one in certificates
        if one["active"] and one["risk"] == "selective" and one["procedure"]["n"] == 4
    )
    levels = sorted(one["alpha"] for one in mine["levels"] if one["certified"])

    visitor.write(SHORT, n=4, alpha=0.001)
    visitor.send()
    assert visitor.notice().inner_text() == "That risk could not be certified with this data"
    buttons = visitor.page.locator(".notices button").all_inner_texts()
    assert buttons == [
        *(f"{100 * alpha:.10g}%" for alpha in levels),
        "Use the full budget, without a guarantee",
    ]
    visitor.inspect("infeasible")

    visitor.page.locator(".notices button").first.click()
    visitor.answered()
    assert f"alpha={levels[0]}" in visitor.page.url
    expect(visitor.page.locator(".promise a")).to_be_visible()
    visitor.write(SHORT, n=4, alpha=0.001)
    visitor.send()
    visitor.page.get_by_role("button", name="Use the full budget").click()
    visitor.answered()
    assert visitor.text(".result-title") == "No promise covers this answer"
    visitor.inspect("without-a-guarantee")


def asked_by(visitor: Visitor) -> str:
    """The question that the address has."""
    return parse_qs(visitor.page.url.partition("?")[2]).get("problem", [""])[0]


def test_what_is_written_and_asked_stays(known: Visitor) -> None:
    page = known.page
    field = page.get_by_label("Your question")
    page.route("**/page/about", with_examples)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    known.ask(SHORT, n=1, alpha=0.1)
    page.get_by_role("link", name="Trust").click()
    expect(page.locator(".trust .badges")).to_be_visible()
    page.get_by_role("link", name="Ask", exact=True).click()
    expect(page.locator(".result")).to_be_visible()
    assert asked_by(known) == SHORT
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Link copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url

    page.get_by_role("button", name="Ask another").click()
    draft = "A dial shows 1. What does"
    field.fill(draft)
    page.get_by_role("link", name="Trust").click()
    expect(page.locator(".trust .badges")).to_be_visible()
    page.go_back()
    expect(field).to_have_value(draft)
    assert asked_by(known) == draft
    page.reload()
    expect(field).to_have_value(draft)

    page.get_by_label("Kind of question").select_option(index=0)
    expect(field).not_to_have_value(draft)
    page.get_by_role("button", name="Another example").click()
    known.inspect("picked")
    page.get_by_role("button", name="Back to my own").click()
    expect(field).to_have_value(draft)
    expect(field).to_be_focused()
    expect(page.get_by_role("button", name="Back to my own")).to_be_hidden()

    field.fill(" ".join([LONG] * 8))
    known.send()
    assert known.notice().inner_text() == "The service cannot take this question"
    asked = page.get_by_role("region", name="The question")
    asked.focus()
    expect(asked).to_be_focused()
    known.inspect("long")


def with_examples(route: Route) -> None:
    """What the service says of itself, as around the embedded model."""
    about = route.fetch().json()
    route.fulfill(json=about | {"examples": True})


def test_waiting_for_an_engine_can_be_stopped(known: Visitor) -> None:
    page = known.page
    now = {"state": "starting", "stage": "loading the weights"}
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=now))
    known.go()
    expect(page.locator("#engine")).to_have_attribute("data-state", "starting")
    page.get_by_label("Your question").fill(SHORT)
    known.send()
    assert known.notice().inner_text() == "Waiting for the engine"
    expect(page.locator(".notices")).to_contain_text("(loading the weights)")
    now["stage"] = "checking the certificates"
    expect(page.locator(".notices")).to_contain_text("(checking the certificates)")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="You stopped the question")).to_be_visible()
    assert "had not started" in known.text(".notices")
    expect(page.locator(".watch")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".terms")).to_have_text("")

    page.get_by_role("button", name="Ask another").click()
    known.send()
    assert known.notice().inner_text() == "Waiting for the engine"
    now |= {"state": "failed", "stage": "given up after 3 attempts in a row (no memory)"}
    expect(page.get_by_role("heading", name="The engine is down")).to_be_visible()
    assert "Given up after 3 attempts in a row (no memory)." in known.text(".notices")
    known.inspect("given-up")
    assert f"{known.url}/solve" not in known.addresses
