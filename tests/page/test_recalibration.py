"""The button of the Operate view that fits a fresh certificate in place of a withdrawn one."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from rlcm_serve.api.wire.calibrations import CalibrationBody
from rlcm_serve.api.wire.overview import JobNow
from rlcm_serve.errors import RequestRefused
from tests.page.by_hand import refuse, tell
from tests.page.test_live import body, open_view
from tests.page.visitor import Visitor

pytestmark = pytest.mark.page

ID = "571b667eda0c"
ADDRESS = f"calibrations?replace={ID}"
JOB = "cal_5f3a9c21d07e"


def job(state: str, **more: Any) -> dict[str, Any]:
    started = {"seconds_left": None, "finished": None, "certificate": None, "error": None}
    return JobNow.example(id=JOB, state=state, done=12, total=40, **(started | more))


def button(visitor: Visitor) -> Locator:
    return visitor.page.locator(".todo").get_by_role("button", name=f"Calibrate again {ID}")


def test_a_withdrawn_certificate_is_replaced_after_a_question(known: Visitor) -> None:
    tell(known, ADDRESS, CalibrationBody.example(id=JOB, state="queued", error=None))
    asked: list[str] = []
    known.page.on("request", lambda one: asked.append(f"{one.method} {one.url}"))
    open_view(known, body(alarmed=True), may_administer=True, jobs=[job("recording")])
    todo = known.page.locator(".todo")
    button(known).click()
    expect(todo).to_contain_text("The audited questions since the alarm that have a reference")
    expect(todo.get_by_role("button", name="Calibrate now")).to_be_focused()
    known.inspect("recalibration-question")
    todo.get_by_role("button", name="Cancel").click()
    expect(button(known)).to_be_focused()
    assert not [one for one in asked if ADDRESS in one]
    button(known).click()
    todo.get_by_role("button", name="Calibrate now").click()
    expect(todo.get_by_role("status")).to_have_text(
        f"◐ Job {JOB}: recording, 12 of 40 rollouts recorded"
    )
    assert f"POST {known.url}/{ADDRESS}" in asked
    expect(button(known)).to_be_hidden()
    known.inspect("recalibration-job")


def test_what_goes_wrong_is_said_and_can_be_tried_again(known: Visitor) -> None:
    failed = job("failed", error="no certificate could be fitted: too few problems")
    open_view(known, body(alarmed=True), may_administer=True, jobs=[failed])
    why = "No audited question since the withdrawal has a reference answer and its text"
    refuse(known, ADDRESS, RequestRefused("data", why[0].lower() + why[1:]))
    todo = known.page.locator(".todo")
    button(known).click()
    now = todo.get_by_role("button", name="Calibrate now")
    now.click()
    expect(todo.get_by_role("status")).to_contain_text("Not started: ")
    expect(todo.get_by_role("status")).to_contain_text(why)
    tell(known, ADDRESS, CalibrationBody.example(id=JOB, state="queued", error=None))
    now.click()
    expect(todo.get_by_role("status")).to_have_text(
        f"✕ Job {JOB}: failed. No certificate could be fitted: too few problems."
    )
    expect(button(known)).to_be_visible()


def test_it_is_offered_to_those_who_may_alone_and_only_after_a_withdrawal(known: Visitor) -> None:
    open_view(known, body(alarmed=True))
    expect(known.page.locator(".todo")).to_contain_text(f"rlcm recalibrate {ID}")
    expect(button(known)).to_have_count(0)
    open_view(known, body(alarmed=False), may_administer=True)
    expect(button(known)).to_have_count(0)
