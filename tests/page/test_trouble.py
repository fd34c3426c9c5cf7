"""Services that fail, and services that ask for a key."""

from __future__ import annotations

import os
import re
import signal

import pytest
from playwright.sync_api import expect

from tests.page.questions import LONG, SHORT
from tests.page.scripted import ANSWER, MARKUP, ScriptedProcess
from tests.page.visitor import PATIENCE_MS, Visitor, Visits
from tests.served import Served

pytestmark = pytest.mark.page

UNDER_WAY = ".lane-words:not(:empty)"


def test_a_kind_can_be_chosen_where_certificates_tell_kinds_apart(known: Visitor) -> None:
    question = "A dial shows 2. A up 6. B down 1. What does it show now?"  # that no other test asks
    kind = known.page.get_by_label("Kind, for the guarantee")
    known.write(question, n=1)
    expect(known.page.locator(".ask-certified")).to_be_visible()
    expect(kind).to_be_hidden()
    known.write(question, n=1, risk="regret", kind="geometry")
    expect(kind).to_have_value("geometry")
    assert kind.inner_text().split() == ["none", "algebra", "geometry", "logic"]
    known.inspect("ask-kind")
    kind.select_option("algebra")
    known.send()
    known.answered()
    promise = known.text(".promise")
    assert "Of all questions of kind 'algebra', at most 10% on average lose" in promise
    assert "kind “algebra”" in known.text(".bar-terms")
    assert "kind=algebra" in known.page.url

    known.write(question, n=1, risk="regret", kind="history")
    expect(kind).to_have_value("")


def test_a_key_is_asked_for_until_it_is_right(visit: Visits, scripted: ScriptedProcess) -> None:
    visitor = visit(scripted.url)
    page = visitor.page
    visitor.go()
    dialog = page.get_by_role("dialog", name="This service needs an API key")
    expect(dialog).to_be_visible()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    visitor.inspect("key-needed")

    page.keyboard.type("rlcm_00000000_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="This key was refused")).to_be_visible()
    visitor.inspect("key-refused")
    page.keyboard.press("Escape")

    page.get_by_label("Your question").fill(SHORT)
    page.locator("input[type=range]").nth(1).press("Home")
    visitor.send()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    assert visitor.notice().inner_text() == "An API key is needed"
    visitor.inspect("key-not-given")

    page.get_by_role("button", name="Give a key").click()
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    page.keyboard.type(scripted.key)
    page.keyboard.press("Enter")
    visitor.answered()
    assert scripted.key not in " ".join(visitor.addresses)
    assert scripted.key not in page.content()
    assert (
        page.evaluate("[...Object.keys(localStorage), document.cookie].join()") == "rlcm-demo-seen,"
    )

    visitor.go("#/operate")
    expect(page.locator(".figures")).to_be_visible()


def test_what_the_model_writes_is_text(known: Visitor) -> None:
    known.write(SHORT, n=1, alpha=0.1)
    with known.told() as told:
        known.send()
        known.answered()
    text = "".join(data["text"] for name, data in told if name == "token")
    assert text.count(MARKUP) > 1
    known.page.get_by_role("button", name="Show all of Sample 1").press("Enter")
    words = known.page.locator(".lane-words")
    expect(words.locator(".katex").first).to_be_visible()
    expect(words).to_contain_text(
        '<img src="page/none.png" onerror="document.title=1"> <b>bold</b>'
    )
    expect(words).to_contain_text("<script>alert(1)</script>")
    for tag in ("img", "b", "i", "a", "script"):
        expect(words.locator(tag)).to_have_count(0)
    assert known.text(".result-value") == ANSWER
    expect(known.page.locator(".result-value a")).to_have_count(0)
    assert known.page.title() == "Ask · rlcm-serve"
    assert not [at for at in known.addresses if "none.png" in at]
    known.inspect("mathematics")


def test_of_many_samples_a_text_is_typeset_once_it_is_asked_for(known: Visitor) -> None:
    known.ask(SHORT, n=16, alpha=0.1)
    words = known.page.locator(".crowd .lane-words")
    expect(words).to_contain_text("<b>bold</b>")
    expect(words.locator(".math")).to_have_count(0)
    known.page.get_by_role("button", name=re.compile("^Sample 2 ")).press("Enter")
    expect(words.locator(".katex").first).to_be_visible()


def test_what_is_asked_is_text(visitor: Visitor) -> None:
    question = f'<img src=x onerror="document.title=1"><b>Bold.</b> {SHORT}'
    visitor.ask(question, n=1, alpha=0.1)
    assert visitor.text(".bar-problem") == question
    expect(visitor.page.locator(".bar-problem *")).to_have_count(0)
    assert visitor.page.title() == "Ask · rlcm-serve"


def test_the_service_is_killed_and_comes_back(known: Visitor, scripted: ScriptedProcess) -> None:
    page = known.page
    known.write(SHORT, n=1, alpha=0.1)
    page.get_by_role("link", name="Operate").click()
    expect(page.locator(".figures")).to_be_visible()
    page.get_by_role("link", name="Ask", exact=True).click()
    known.send()
    page.locator(UNDER_WAY).first.wait_for(timeout=PATIENCE_MS)
    scripted.kill()
    try:
        assert known.notice().inner_text() == "The connection was lost"
        assert "there is no guarantee" in known.text(".notices")
        expect(page.locator(".reach")).to_contain_text("Reconnecting")
        expect(page.locator("#engine")).to_have_attribute("data-state", "gone")
        expect(page.locator(".lane-exit")).to_contain_text("cut off")
        known.inspect("connection-lost")

        page.get_by_role("link", name="Operate").click()
        expect(page.get_by_role("heading", name="Reconnecting")).to_be_visible()
        known.inspect("operate-reconnecting")
    finally:
        scripted.start()
    expect(page.locator(".figures")).to_be_visible(timeout=60_000)
    page.get_by_role("link", name="Ask", exact=True).click()
    expect(page.locator(".reach")).to_contain_text("The service answers")
    page.get_by_role("button", name="Ask again").click()
    known.answered()
    assert known.text(".result-value") == ANSWER


def test_the_engine_is_killed_and_comes_back(visitor: Visitor, served: Served) -> None:
    page = visitor.page
    visitor.write(LONG, n=64, alpha=0.1)
    visitor.send()
    page.locator(UNDER_WAY).first.wait_for(timeout=PATIENCE_MS)
    os.kill(served.engine_core().pid, signal.SIGKILL)
    assert visitor.notice().inner_text() == "The engine stopped while it worked on this question"
    expect(page.locator("#engine")).to_have_attribute("data-state", "restarting")
    visitor.picture("engine-died", whole=False)

    page.get_by_role("button", name="Ask again").click()
    assert visitor.notice().inner_text() == "Waiting for the engine"
    visitor.inspect("engine-restarting")
    page.get_by_role("link", name="Operate").click()
    died = page.get_by_role("heading", name="The engine stopped and is restarting")
    expect(died).to_be_visible()
    visitor.inspect("operate-restarting")
    page.get_by_role("link", name="Ask", exact=True).click()
    page.wait_for_selector(".result", timeout=300_000)
    expect(page.locator("#engine")).to_have_attribute("data-state", "ready")
    assert served.client.get("/overview").json()["engine"]["restarts"] >= 1
