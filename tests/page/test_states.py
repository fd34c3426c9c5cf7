"""What a service seldom says, told by hand: jobs, refusals, an engine that was given up."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Route, expect

from rlcm_serve.errors import AccessDenied, NotReady, OutOfTime, Overloaded
from tests.page.by_hand import alter, refuse, spoil_level, tell, tell_shipped
from tests.page.questions import SHORT
from tests.page.scripted import ScriptedProcess
from tests.page.visitor import Visitor, Visits

pytestmark = pytest.mark.page

GIVEN_UP = "the engine is given up after 10 attempts in a row (no memory)"


def job(name: str, state: str, **changes: Any) -> dict[str, Any]:
    """A calibration job as `/overview` tells of it."""
    created = "2026-01-12T09:30:00.000+00:00"
    log = [{"time": created, "text": f"{name} was posted"}]
    never = dict.fromkeys(("seconds_left", "started", "finished", "certificate", "error"))
    rest = never | {"done": 0, "total": 1600, "created": created, "log": log}
    return {"id": f"cal_{name}", "state": state} | rest | changes


def lines(count: int) -> list[dict[str, str]]:
    """Of a log, one a second."""
    return [
        {"time": f"2026-01-12T09:{31 + at // 60}:{at % 60:02}.000+00:00", "text": f"line {at}"}
        for at in range(count)
    ]


def ask(visitor: Visitor) -> None:
    visitor.go()
    visitor.page.get_by_label("Your question").fill(SHORT)
    visitor.send()


def test_jobs_tell_how_far_they_are(known: Visitor) -> None:
    ended = "2026-01-12T10:02:00.000+00:00"
    recording = job("one", "recording", done=320, seconds_left=412.0, log=lines(60)[-10:])
    failed = job("two", "failed", done=40, finished=ended, error="row 3 has no answer")
    done = job("three", "done", done=1600, finished=ended, certificate="571b667eda0c")
    alter(known, "overview", jobs=[recording, job("four", "queued"), failed, done])
    tell(known, "calibrations/cal_one", recording | {"log": lines(60)})
    known.go("#/operate")
    items = known.page.locator(".jobs > li")
    expect(items).to_have_count(4)

    one = items.nth(0)
    expect(one.get_by_role("progressbar", name="Progress of cal_one")).to_have_js_property(
        "value", 0.2
    )
    expect(one).to_contain_text("◐ recording")
    expect(one).to_contain_text("320 of 1,600 rollouts recorded (20.0%)")
    expect(one).to_contain_text("about 6\N{NO-BREAK SPACE}min 52\N{NO-BREAK SPACE}s left")
    expect(one.locator(".job-log li")).to_have_count(60)
    expect(one.locator(".job-log li").first).to_contain_text("line 0")
    one.locator(".job-log").scroll_into_view_if_needed()
    expect(one.locator(".job-log li").last).to_be_in_viewport()

    expect(items.nth(1)).to_contain_text("○ waiting")
    expect(items.nth(1).locator(".job-log")).not_to_be_visible()
    expect(items.nth(2)).to_contain_text("row 3 has no answer")
    expect(items.nth(2).get_by_role("progressbar")).not_to_be_visible()
    expect(items.nth(3).get_by_role("link")).to_have_attribute("href", "#/trust?id=571b667eda0c")
    items.nth(2).locator("summary").click()
    expect(items.nth(2).get_by_text("Earlier lines could not be loaded")).to_be_visible()
    known.inspect("operate-jobs")


@pytest.mark.parametrize(
    ("error", "title", "words"),
    [
        (Overloaded(256, 7), "The service is busy", "in about 7 s"),
        (OutOfTime(60), "It took too long", "Not answered within 60 s"),
        (OutOfTime(60, "it was cut"), "It took too long", "No guarantee: it was cut."),
    ],
    ids=["429", "504", "504-guarantee"],
)
def test_a_question_that_is_refused_says_why(
    known: Visitor, error: Exception, title: str, words: str
) -> None:
    refuse(known, "solve", error)
    ask(known)
    assert known.notice().inner_text() == title
    assert words in known.text(".notices")
    expect(known.page.get_by_role("button", name="Ask again")).to_be_visible()
    known.inspect(f"refused-{title.split()[-1]}")


def test_a_key_that_may_not_ask_gives_way_to_another(
    known: Visitor, scripted: ScriptedProcess
) -> None:
    refuse(known, "solve", AccessDenied("it needs `solve`", known=True))
    ask(known)
    assert known.notice().inner_text() == "This key may not ask questions"
    assert "`solve`" in known.text(".notices")
    known.inspect("refused-key")

    known.page.get_by_role("button", name="Use another key").click()
    expect(known.page.get_by_role("heading", name="This key was refused")).to_be_visible()
    known.page.unroute(f"{known.url}/solve")
    known.page.get_by_label("Key", exact=True).fill(scripted.key)
    known.page.keyboard.press("Enter")
    known.answered()


def test_a_key_may_see_no_state(known: Visitor) -> None:
    refuse(known, "overview", AccessDenied("this key has no scope `solve`", known=True))
    known.go("#/operate")
    heading = known.page.get_by_role("heading", name="This key may not read the service’s state")
    expect(heading).to_be_visible()
    expect(known.page.locator(".figures")).not_to_be_visible()
    assert "Trying again" not in known.text(".status")
    known.page.get_by_role("button", name="Use another key").click()
    expect(known.page.get_by_role("heading", name="This key was refused")).to_be_visible()
    known.page.keyboard.press("Escape")
    known.inspect("operate-forbidden")


def test_an_engine_that_was_given_up_is_not_waited_for(known: Visitor) -> None:
    page = known.page
    gone = {"state": "failed", "detail": GIVEN_UP, "ready": False, "restarts": 0, "requests": 0}
    refuse(known, "readyz", NotReady(GIVEN_UP, "failed"))
    refuse(known, "solve", NotReady(GIVEN_UP))
    alter(known, "overview", engine=gone)
    ask(known)
    expect(page.locator("#engine")).to_have_text("✕ engine failed")
    assert known.notice().inner_text() == "The engine is down"
    known.inspect("asked-and-given-up")
    page.get_by_role("link", name="Operate").click()
    expect(page.get_by_role("heading", name="could not be restarted")).to_be_visible()
    expect(page.locator(".status")).to_contain_text("given up after 10 attempts")
    known.inspect("operate-given-up")


def test_whoever_listens_hears_no_countdown(known: Visitor) -> None:
    page = known.page
    known.go("#/operate")
    expect(page.locator(".figures")).to_be_visible()
    page.route(f"{known.url}/overview", lambda route: route.abort())
    expect(page.get_by_role("heading", name="Reconnecting")).to_be_visible()
    note = page.locator(".status")
    countdown = note.get_by_text("Trying again")
    expect(countdown).to_be_visible()
    expect(note.get_by_role("status")).to_contain_text("cannot be reached")
    expect(note.get_by_role("status")).not_to_contain_text("Trying again")

    page.get_by_role("button", name="Pause").click()
    expect(note).to_contain_text("Paused.")
    expect(countdown).not_to_be_visible()
    page.unroute(f"{known.url}/overview")
    page.get_by_role("button", name="Try now").click()
    expect(note).to_contain_text("● engine ready")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(note.get_by_role("status")).to_have_text("")


def test_a_key_that_is_given_is_used_at_once(visit: Visits, scripted: ScriptedProcess) -> None:
    visitor = visit(scripted.url)
    page = visitor.page
    visitor.go("#/operate")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="This needs an API key")).to_be_visible()
    page.get_by_role("button", name="API key").click()
    page.keyboard.type(scripted.key)
    page.keyboard.press("Enter")
    expect(page.locator(".figures")).to_be_visible()


def test_a_question_can_be_written_as_soon_as_its_view_is_there(known: Visitor) -> None:
    known.go("#/trust")
    known.page.get_by_role("link", name="Operate").click()
    expect(known.page.locator("main")).to_be_focused()
    known.page.get_by_role("link", name="Ask", exact=True).click()
    expect(known.page.get_by_label("Your question")).to_be_focused()


def test_no_certificate(known: Visitor) -> None:
    tell(known, "certificates", {"certificates": []})
    known.go("#/trust")
    heading = known.page.get_by_role("heading", name="No certificate is loaded")
    expect(heading).to_be_visible()
    known.inspect("trust-none")


def test_a_certificate_without_report_data_still_says_what_it_promises(known: Visitor) -> None:
    known.go("#/trust")
    heading = known.page.get_by_role(
        "heading", name="The measurements of this certificate are not stored here"
    )
    expect(heading).to_be_visible()
    assert known.text(".pledge h2") == (
        "The promise: at most 10% of the answers it gives are wrong"
    )
    expect(known.page.locator(".map-field")).to_have_count(0)
    expect(known.page.locator(".coverage-out li")).to_have_count(6)
    known.inspect("trust-without-report-data")


def test_four_are_compared_and_no_more(known: Visitor) -> None:
    page = known.page
    names = ("selective-1", "selective-4", "selective-8", "regret-1", "error-4")
    ids = tell_shipped(known, *names)
    known.go(f"#/trust?id={ids[0]}")
    expect(page.locator(".pledge")).to_be_visible()

    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"{known.url}/certificates/{ids[1]}/report", hold)
    page.locator(f".chip input[data-id='{ids[1]}']").check()
    expect(page.locator(".trust .loading")).to_be_visible()
    expect(page.locator("article.certificate")).to_have_count(0)
    held.pop().fallback()
    expect(page.locator(".compared-names li")).to_have_count(2)
    page.unroute(f"{known.url}/certificates/{ids[1]}/report", hold)

    for count, other in enumerate(ids[2:4], start=3):
        page.locator(f".chip input[data-id='{other}']").check()
        expect(page.locator(".compared-names li")).to_have_count(count)
    expect(page.locator(f".chip input[data-id='{ids[4]}']")).to_be_disabled()
    expect(page.locator(".compared-names code")).to_have_text(ids[:4])
    known.inspect("trust-four")


def test_a_level_that_could_not_be_certified_says_so_in_plain_words(known: Visitor) -> None:
    (one,) = tell_shipped(known, "selective-1")
    reason = "risk too high: the policy has a total loss of 107.12 on 1440 problems; choose another"
    spoil_level(known, one, reason)
    known.go(f"#/trust?id={one}&alpha=0.01")
    expect(known.page.locator(".pledge h2")).to_have_text("No guarantee at α = 1%")
    said = known.text(".pledge .plain")
    assert said.startswith(
        "α = 1% could not be certified with this data: the stopping rule that is tested first made"
    )
    expect(known.page.locator("table.evidence .none")).to_have_text(
        "✕ not certified: too many errors"
    )
    assert "107.12" not in known.text(".pledge")
    known.inspect("trust-refused-level")


def test_a_withdrawn_promise_is_shown_as_one_before_anybody_asks(known: Visitor) -> None:
    (one,) = tell_shipped(known, "selective-1", withdrawn="risk alarm at alpha 0.1: 9 of 40 wrong")
    known.go(f"#/trust?id={one}&alpha=0.1")
    expect(known.page.locator(".pledge h2")).to_have_text(
        "The promise that was withdrawn: at most 10% of the answers it gives are wrong"
    )
    expect(known.page.locator(".badges .tag")).to_have_text("✕ promise withdrawn")
    told = known.text(".pledge")
    assert "answers come without it until a fresh certificate is active" in told
    assert "risk alarm at alpha" not in told
    known.inspect("evidence-withdrawn")

    known.write(SHORT, n=1, alpha=0.1)
    form = known.page.locator(".ask-form")
    expect(form).to_contain_text("was withdrawn after an alarm, so the answer has no guarantee")
    expect(form.locator(".ask-certified")).to_be_hidden()
    expect(form.locator(".tick")).to_have_count(0)
    known.inspect("ask-withdrawn")


def test_a_certificate_that_must_not_be_served_says_why(known: Visitor) -> None:
    (one,) = tell_shipped(known, "selective-1", refusal="certificate c has no signature: sign it")
    known.go(f"#/trust?id={one}")
    told = known.page.locator(".pledge")
    expect(told).to_contain_text(
        "no question runs under it now. It must not be served. Certificate c has no signature: "
        "sign it."
    )


def test_a_finger_reads_the_map_and_the_keyboard_the_figures(
    visit: Visits, scripted: ScriptedProcess
) -> None:
    visitor = visit(scripted.url, 360, has_touch=True, is_mobile=True)
    page = visitor.page
    (one,) = tell_shipped(visitor, "selective-1")
    visitor.go(f"#/trust?id={one}")
    visitor.unfold()
    before = visitor.text(".map-reading")
    page.locator(".map-field").tap(position={"x": 200, "y": 40})
    tapped = visitor.text(".map-reading")
    assert tapped != before
    page.locator(".map-field").tap(position={"x": 120, "y": 120})
    assert visitor.text(".map-reading") not in (before, tapped)

    for summary in page.locator(".chart-figures > summary:visible").all():
        summary.tap()
    for table in page.locator(".chart-table:visible").all():
        table.focus()
        expect(table).to_be_focused()
    visitor.inspect("trust-figures")
