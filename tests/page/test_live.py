"""The four questions of the Operate view, told by hand in the service's format."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from rlcm_serve.api.wire.monitoring.answers import RecentAnswer
from rlcm_serve.api.wire.monitoring.figures import (
    AuditNow,
    DriftNow,
    HistoryPoint,
    LabelCounts,
    LabelTest,
    MonitoredCertificate,
    MonitoredLevel,
    MonitoringBody,
    MonitoringEventBody,
)
from rlcm_serve.errors import NotFound, NotReady
from tests.page.by_hand import alter, refuse, tell
from tests.page.scripted import ScriptedProcess
from tests.page.visitor import Visitor

pytestmark = pytest.mark.page

NOW = datetime(2026, 1, 12, 9, 30, tzinfo=UTC)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat(timespec="milliseconds")


def level(alpha: float, *, alarmed: bool) -> dict[str, Any]:
    """A level over a week whose risk rises if it ends in an alarm."""
    end = 0.19 if alarmed else 0.06
    history = [
        HistoryPoint.example(
            time=ago(7 - day / 4),
            risk=0.05 + (end - 0.05) * day / 28,
            low=max(0.0, 0.05 + (end - 0.05) * day / 28 - 0.3 / (1 + day) ** 0.5),
            high=0.05 + (end - 0.05) * day / 28 + 0.3 / (1 + day) ** 0.5,
        )
        for day in range(29)
    ]
    drift = [
        DriftNow.example(statistic="confidence", rank=0.38, alarmed=alarmed),
        DriftNow.example(statistic="declined", now=0.06, calibration=0.07, rank=0.5),
    ]
    last = {name: history[-1][name] for name in ("risk", "low", "high")}
    test = LabelTest.example(**last, alarmed=alarmed, alarmed_at=ago(0.5) if alarmed else None)
    counts = LabelCounts.example()
    return MonitoredLevel.example(alpha=alpha, history=history, drift=drift, test=test) | {
        "labels": counts,
        "risk_upper": 0.09,
    }


def body(*, alarmed: bool) -> dict[str, Any]:
    lost = {"guarantee": "withdrawn", "why": "risk alarm at alpha 0.1", "since": ago(0.5)}
    levels = [level(0.1, alarmed=alarmed), level(0.2, alarmed=False) | {"test": None}]
    one = MonitoredCertificate.example(levels=levels) | (lost if alarmed else {})
    events = [MonitoringEventBody.example(time=ago(0.5))] if alarmed else []
    audit = AuditNow.example(oldest=ago(2))
    made = MonitoringBody.example(time=ago(0), audit=audit, certificates=[one], events=events)
    return MonitoringBody.model_validate(made).model_dump(mode="json")


def answers(count: int) -> list[dict[str, Any]]:
    """One every minute, the newest first; the newer half took longer and half as many tokens."""
    found = []
    for number in range(count):
        newer = number < count // 2
        given = NOW - timedelta(minutes=number)
        asked = given - timedelta(seconds=4 if newer else 2)
        found.append(
            RecentAnswer.example(
                id=f"a{number}",
                time=given.isoformat(timespec="milliseconds"),
                asked=asked.isoformat(timespec="milliseconds"),
                tokens=60 if newer else 120,
                outcome="abstained" if number % 10 == 9 else "answered",
                label="wrong" if number == 1 else None,
                record=f"/answers/a{number}",
            )
        )
    return found


def open_view(
    visitor: Visitor, told: dict[str, Any], *, listed: int = 200, **overview: Any
) -> None:
    alter(visitor, "overview", figures="service", **overview)
    tell(visitor, "monitoring", told)
    tell(visitor, "answers?limit=200", {"answers": answers(listed), "next": None})
    visitor.go("#/operate")
    expect(visitor.page.locator(".question.todo")).not_to_be_empty()
    expect(visitor.page.locator(".detail.risks table").first).to_be_visible()


def test_the_view_answers_four_questions(known: Visitor) -> None:
    open_view(known, body(alarmed=False))
    heads = known.page.locator(".question > h2")
    expect(heads).to_have_text(
        [
            "Is the promise kept now?",
            "Why, or why not?",
            "What changed?",
            "What do I do?",
            "How does it run?",
        ]
    )


@pytest.mark.parametrize("alarmed", [False, True])
def test_the_four_questions_come_before_everything_else(known: Visitor, alarmed: bool) -> None:
    told = body(alarmed=alarmed)
    others = [one | {"id": f"{number:012x}"} for number in range(8) for one in told["certificates"]]
    told["certificates"] += others
    open_view(known, told)
    page = known.page
    for name in ("kept", "why", "changed", "todo"):
        expect(page.locator(f".question.{name} > h2")).to_be_in_viewport()
    order = page.locator(".figures > *").evaluate_all("them => them.map((it) => it.className)")
    names = [f"question {name}" for name in ("kept", "why", "changed", "todo")]
    assert order[:5] == [*names, "detail risks"]
    expect(page.locator(".detail.risks article")).to_have_count(9)
    expect(page.locator(".question table, .question article")).to_have_count(0)


def test_the_chart_of_a_young_service_begins_with_a_known_risk(known: Visitor) -> None:
    told = body(alarmed=False)
    (first, _) = told["certificates"][0]["levels"]
    last = first["history"][-1]
    minutes = [last | {"time": ago(age / 1440)} for age in (20, 15, 10)]
    minutes[0] |= {"risk": None, "low": 0.0, "high": 1.0}
    first["history"] = minutes
    open_view(known, told)
    live = known.page.locator(".live-chart")
    expect(live).to_contain_text("over minutes")
    live.get_by_text("Figures as a table").click()
    expect(live.locator("tbody tr").first).to_contain_text("15")
    expect(live).not_to_contain_text("100%")

    first["history"] = minutes[:2]
    open_view(known, told)
    expect(live).to_have_count(0)


def test_certificates_of_one_risk_are_told_apart(known: Visitor, scripted: ScriptedProcess) -> None:
    authorization = {"Authorization": f"Bearer {scripted.key}"}
    overview = known.page.request.get(f"{known.url}/overview", headers=authorization).json()
    (title,) = {
        f"Wrong answers among the answers given, {one['n']} sample"
        for one in overview["certificates"]
        if one["risk"] == "selective"
    }
    told = body(alarmed=False)
    (active,) = [one["id"] for one in overview["certificates"] if one["risk"] == "selective"]
    told["certificates"][0]["id"] = active
    open_view(known, told)
    expect(known.page.locator(".detail.risks article h3")).to_have_text(f"{title} {active}")


def test_certificates_without_a_question_are_folded_away(known: Visitor) -> None:
    told = body(alarmed=False)
    (one,) = told["certificates"]
    idle = [level | {"questions": 0, "test": None, "drift": []} for level in one["levels"]]
    told["certificates"].insert(0, one | {"id": "0" * 12, "levels": idle})
    open_view(known, told)
    risks = known.page.locator(".detail.risks")
    expect(risks.locator("article:visible")).to_have_count(1)
    risks.get_by_text("1 certificate without a question so far").click()
    expect(risks.locator("article:visible")).to_have_count(2)


def test_a_promise_that_is_kept(known: Visitor) -> None:
    open_view(known, body(alarmed=False))
    kept = known.page.locator(".question.kept")
    expect(kept.locator(".verdict")).to_have_text(
        "○ No sign that it is broken; at 1 of 2\u00a0levels too few labels to be sure yet and "
        "at 1 of 2\u00a0levels labels cannot test it."
    )
    risks = known.page.locator(".detail.risks")
    expect(risks).to_contain_text("● guarantee given")
    expect(risks).to_contain_text("5% of all answers are drawn at random for a label.")
    expect(risks).to_contain_text("all hold with probability at least 90%, however often you look")
    row = risks.locator("tbody tr").first
    expect(row.get_by_role("rowheader")).to_have_text("10%")
    expect(row).to_contain_text("6.0% 0.4% to 11.6%")
    expect(row).to_contain_text("the interval includes 10%")
    expect(row).to_contain_text("210 right, 15 wrong; 12 awaited; 3 too late, counted as right")
    expect(row).to_contain_text("6.0% (7.0% in calibration)")
    expect(risks.locator("tbody tr").nth(1)).to_contain_text("labels cannot test it")
    chart = known.page.get_by_role("img", name="Live risk at α = 10% with its interval")
    expect(chart).to_be_visible()
    expect(known.page.locator(".live-events")).to_have_count(0)
    todo = known.page.locator(".question.todo")
    expect(todo.locator("li")).to_have_count(1)
    expect(todo).to_contain_text("Label 12 answers")
    why = known.page.locator(".question.why li")
    expect(why.first).to_have_text(
        "Labels: of 2 levels of 1 active certificate, at 1 there are too few labels to tell and "
        "1 has no test that labels can make."
    )
    expect(why.nth(1)).to_contain_text("6\u00a0labels came too late")
    expect(why.nth(2)).to_contain_text("does not explain confidence at the end now")
    known.inspect("live")


def test_a_promise_that_is_broken(known: Visitor) -> None:
    open_view(known, body(alarmed=True))
    kept = known.page.locator(".question.kept")
    expect(kept.locator(".verdict")).to_have_text(
        "✕ No: a certificate has given no guarantee since an alarm."
    )
    risks = known.page.locator(".detail.risks")
    expect(risks).to_contain_text("✕ guarantee withdrawn")
    expect(risks).to_contain_text("Reason: risk alarm at α = 10%, on")
    expect(risks.locator("tbody tr").first).to_contain_text("alarm: risk above 10%")
    events = known.page.locator(".live-events li")
    expect(events).to_have_count(1)
    expect(events).to_contain_text("Risk alarm at α = 10%: 31 of 120 labels are wrong.")
    expect(events).to_contain_text("The guarantee was withdrawn. The webhook has received it.")
    first = known.page.locator(".question.todo li").first
    expect(first).to_contain_text("Get the guarantee back")
    expect(first).to_contain_text("read the wrong answers of 571b667eda0c first")
    expect(first).to_contain_text("rlcm recalibrate 571b667eda0c")
    expect(first).to_contain_text("docs/guides/runbooks.md#rlcmguaranteewithdrawn")
    why = known.page.locator(".question.why")
    expect(why).to_contain_text("have changed since the calibration: confidence at the end")
    expect(why.locator("li").first).to_contain_text("guarantee withdrawn: risk alarm at α = 10%")
    expect(why).to_contain_text("at 1 the labels show a risk above the target")
    drifts = known.page.locator(".detail.drifts tbody tr")
    expect(drifts.first).to_contain_text("0.38; noise 0.44 to 0.56")
    known.inspect("live-alarm")


def test_without_labels_there_is_something_to_do(known: Visitor) -> None:
    told = body(alarmed=False)
    for one in told["certificates"][0]["levels"]:
        one |= {"test": None, "drift": []}
        one["labels"] = dict.fromkeys(one["labels"], 0)
    told["audit"] = {"share": 0.0, "waiting": 0, "oldest": None} | {"deadline_s": 60.0}
    open_view(known, told)
    verdict = known.page.locator(".kept .verdict")
    expect(verdict).to_contain_text("Not known")
    todo = known.page.locator(".question.todo")
    expect(todo).to_contain_text("Have answers drawn for labels")

    told["audit"]["share"] = 0.05
    open_view(known, told)
    expect(todo).to_contain_text("✓ Nothing.")


def test_runbooks_that_are_published_are_links(known: Visitor) -> None:
    told = body(alarmed=True)
    page = "https://docs.example.com/guides/runbooks.html"
    told["events"][0]["runbook"] = f"{page}#rlcmriskalarm"
    told["certificates"][0]["runbook"] = f"{page}#rlcmguaranteewithdrawn"
    open_view(known, told)
    event = known.page.locator(".live-events").get_by_role("link", name="Runbook RlcmRiskAlarm")
    expect(event).to_have_attribute("href", f"{page}#rlcmriskalarm")
    name = "Runbook RlcmGuaranteeWithdrawn"
    step = known.page.locator(".question.todo").get_by_role("link", name=name)
    expect(step).to_have_attribute("href", f"{page}#rlcmguaranteewithdrawn")


def test_history_needs_no_open_tab(known: Visitor) -> None:
    open_view(known, body(alarmed=False))
    changed = known.page.locator(".detail.answers")
    compared = changed.locator("table").first
    expect(compared.locator("tbody tr")).to_have_count(5)
    rows = {
        row.get_by_role("rowheader").inner_text(): row.locator("td").all_inner_texts()
        for row in compared.locator("tbody tr").all()
    }
    assert rows["Time to the answer, median"] == ["4\N{NO-BREAK SPACE}s", "2\N{NO-BREAK SPACE}s"]
    assert rows["Tokens per question"] == ["60", "120"]
    assert rows["Abstained"] == ["10.0%", "10.0%"]
    listed = changed.locator("table").nth(1).locator("tbody tr")
    expect(listed).to_have_count(15)
    expect(listed.nth(1)).to_contain_text("✕ wrong")
    readings = [[32, 0.2], [64, 0.97]]
    tell(known, "answers/a0", {"samples": [{"exit": "high", "readings": readings}]})
    listed.first.get_by_role("button").click()
    expect(changed.locator(".trace canvas")).to_be_visible()
    known.inspect("live-trace")


def test_what_is_read_stays_open_while_figures_are_renewed(known: Visitor) -> None:
    known.page.clock.install()
    told = body(alarmed=False)
    open_view(known, told)
    fold = known.page.locator(".live-chart").first.get_by_text("Figures as a table")
    fold.click()
    expect(fold).to_be_focused()
    figures = known.page.locator(".live-chart tbody").first
    expect(figures).to_be_visible()
    told["certificates"][0]["levels"][0]["labels"]["right"] += 1
    tell(known, "monitoring", told)
    known.page.clock.fast_forward(21_000)
    expect(known.page.locator(".detail.risks .evidence").first).to_contain_text("211 right")
    expect(figures).to_be_visible()
    expect(fold).to_be_focused()


def test_what_to_do_follows_the_time_at_which_monitoring_last_looked(known: Visitor) -> None:
    known.page.clock.install()
    told = body(alarmed=False)
    open_view(known, told)
    todo = known.page.locator(".question.todo")
    for behind, words in ((400.0, "for 6\u00a0min 40\u00a0s"), (460.0, "for 7\u00a0min 40\u00a0s")):
        tell(known, "monitoring", told | {"behind_s": behind})
        known.page.clock.fast_forward(21_000)
        expect(todo).to_contain_text(f"no process has looked at new answers {words}")
    tell(known, "monitoring", told)
    known.page.clock.fast_forward(21_000)
    expect(todo).not_to_contain_text("no process has looked")


def test_only_the_list_of_answers_is_old_if_only_that_could_not_be_loaded(known: Visitor) -> None:
    known.page.clock.install()
    open_view(known, body(alarmed=False))
    answers_part = known.page.locator(".detail.answers")
    expect(answers_part.locator("tbody tr").first).to_be_visible()
    refuse(known, "answers?limit=200", NotReady("the database is busy"))
    tell(known, "monitoring", body(alarmed=True))
    known.page.clock.fast_forward(21_000)
    expect(known.page.locator(".kept .verdict")).to_have_text(re.compile("^✕ No: "))
    expect(known.page.locator(".question.kept")).not_to_contain_text("old")
    expect(answers_part).to_contain_text("This list is old; the latest answers could not be loaded")


def test_labels_that_came_too_late_are_a_reason_and_no_step(known: Visitor) -> None:
    told = body(alarmed=False)
    told["audit"] |= {"waiting": 0, "oldest": None}
    for one in told["certificates"][0]["levels"]:
        one["test"] = LabelTest.example(alarmed=False)
        one["drift"] = []
    open_view(known, told)
    expect(known.page.locator(".question.why")).to_contain_text("came too late or not at all")
    expect(known.page.locator(".question.todo")).to_contain_text("✓ Nothing.")


def test_few_answers_are_not_compared(known: Visitor) -> None:
    open_view(known, body(alarmed=False), listed=10)
    changed = known.page.locator(".detail.answers")
    expect(changed).to_contain_text("are compared once 40 answers are stored")
    expect(changed.locator("tbody tr")).to_have_count(10)


def test_without_monitoring_nothing_is_claimed(known: Visitor) -> None:
    alter(known, "overview", figures="service")
    refuse(known, "monitoring", NotFound("monitoring is off"))
    known.go("#/operate")
    expect(known.page.locator(".kept .verdict")).to_have_text("○ Not known.")
    expect(known.page.locator(".question.why")).to_contain_text("Monitoring is off")
    expect(known.page.locator(".question.todo")).to_contain_text(
        "Start the service with monitoring"
    )
    expect(known.page.locator(".detail.risks")).to_be_hidden()


def test_while_the_engine_starts_no_certificate_is_called_inactive(known: Visitor) -> None:
    told = body(alarmed=True) | {"certificates_known": False}
    told["certificates"][0]["active"] = False
    alter(known, "overview", figures="service")
    tell(known, "monitoring", told)
    known.go("#/operate")
    expect(known.page.locator(".kept .verdict")).to_have_text("○ Not known.")
    expect(known.page.locator(".question.why")).to_contain_text(
        "The engine is starting, so it is not known yet which certificates are active."
    )
    expect(known.page.locator(".question.todo")).to_contain_text("Wait: the page asks again")


def test_who_may_not_read_it_sees_no_figures(known: Visitor) -> None:
    refuse(known, "monitoring", AssertionError("nobody asks"))
    known.go("#/operate")
    expect(known.page.locator(".kept .verdict")).to_have_text("○ Not known.")
    expect(known.page.locator(".question.why")).to_contain_text(
        "This key may not read metrics, so the page cannot show whether the promise is kept."
    )
    expect(known.page.locator(".question.todo")).to_contain_text("a key with the scope “metrics”")
    assert f"{known.url}/monitoring" not in known.addresses
    known.inspect("live-not-allowed")
