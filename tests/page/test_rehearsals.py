"""What the Operate view says of a certificate in rehearsal, and its button Activate."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from rlcm_serve.api.wire.monitoring.rehearsals import FigureBody, RehearsalBody, RehearsedLevel
from rlcm_serve.errors import AccessDenied
from tests.page.by_hand import alter, refuse, tell
from tests.page.scripted import ScriptedProcess
from tests.page.test_live import body, open_view
from tests.page.visitor import Visitor

pytestmark = pytest.mark.page

ID = "571b667eda0c"


def figure(value: float | None, of: int) -> dict[str, Any]:
    if value is None:
        return FigureBody.example(of=0, value=None, low=None, high=None)
    return FigureBody.example(of=of, value=value, low=value - 0.05, high=value + 0.05)


def level(alpha: float, *, undecided: int = 0, labels: int = 0, missing: int = 0) -> dict[str, Any]:
    return RehearsedLevel.example(
        alpha=alpha,
        questions=12_000,
        undecided=undecided,
        saved=figure(0.31, 12_000),
        answered=figure(0.82, 12_000 - undecided),
        lost=figure(0.07 if labels else None, labels),
        wrong=figure(0.09 if labels else None, labels),
        missing=missing,
    )


def rehearsal(*levels: dict[str, Any]) -> dict[str, Any]:
    return RehearsalBody.example(certificate=ID, levels=list(levels))


def open_rehearsals(visitor: Visitor, *rehearsals: dict[str, Any]) -> None:
    tell(visitor, "rehearsals", {"rehearsals": list(rehearsals)})
    open_view(visitor, body(alarmed=False))


def test_the_figures_of_a_rehearsal_stand_beside_its_button(known: Visitor) -> None:
    open_rehearsals(known, rehearsal(level(0.05, labels=600), level(0.1, undecided=40, labels=600)))
    card = known.page.locator(".rehearsals-section .card")
    expect(card).to_contain_text(f"Certificate {ID}")
    expect(card).to_contain_text("● judged since")
    first, second = (card.locator("tbody tr").nth(number) for number in (0, 1))
    expect(first).to_contain_text("31.0% 26.0% to 36.0%of 12,000 questions")
    expect(first).to_contain_text("82.0% 77.0% to 87.0%of 12,000 questions")
    expect(first).to_contain_text("7.0% 2.0% to 12.0%of 600 labels")
    expect(first).to_contain_text("9.0% 4.0% to 14.0%of 600 labels")
    expect(second).to_contain_text("12,000, 40 undecided")
    expect(second).to_contain_text("at most 31.0%")
    expect(card).to_contain_text("Undecided questions were stopped before")
    expect(card.get_by_role("button", name=f"Activate {ID}")).to_be_visible()
    known.inspect("rehearsal")


def test_what_is_not_known_yet_is_said(known: Visitor) -> None:
    open_rehearsals(known, rehearsal(level(0.1)))
    card = known.page.locator(".rehearsals-section .card")
    expect(card.get_by_text("no label yet")).to_have_count(2)
    expect(card.get_by_text("Undecided questions")).to_be_hidden()


def test_answers_of_unknown_outcome_are_said_to_be_missing(known: Visitor) -> None:
    open_rehearsals(known, rehearsal(level(0.1, labels=600, missing=3)))
    card = known.page.locator(".rehearsals-section .card")
    expect(card.locator("tbody tr")).to_contain_text("12,000, 3 missing")
    expect(card).to_contain_text("Of missing answers it is not known")
    expect(card.get_by_text("Undecided questions")).to_be_hidden()


def test_without_rehearsals_nothing_is_said_of_them(known: Visitor) -> None:
    open_rehearsals(known)
    expect(known.page.locator(".rehearsals-section")).to_be_hidden()


def test_a_certificate_is_activated_after_a_question(known: Visitor) -> None:
    open_rehearsals(known, rehearsal(level(0.1, labels=600)))
    asked: list[str] = []
    address = f"certificates/{ID}/activate"
    known.page.on("request", lambda one: asked.append(f"{one.method} {one.url}"))
    tell(known, address, {})
    card = known.page.locator(".rehearsals-section .card")
    activate = card.get_by_role("button", name=f"Activate {ID}")
    activate.click()
    expect(card).to_contain_text("Questions that this certificate covers will be answered under it")
    expect(card.get_by_role("button", name="Activate now")).to_be_focused()
    known.inspect("rehearsal-question")
    card.get_by_role("button", name="Cancel").click()
    expect(activate).to_be_focused()
    assert not [one for one in asked if address in one]
    activate.click()
    card.get_by_role("button", name="Activate now").click()
    expect(card.get_by_role("status")).to_have_text("● This certificate is active.")
    assert f"POST {known.url}/{address}" in asked
    expect(activate).to_be_hidden()


def test_a_certificate_that_another_one_replaced_is_no_longer_said_to_be_active(
    known: Visitor, scripted: ScriptedProcess
) -> None:
    open_rehearsals(known, rehearsal(level(0.1, labels=600)))
    tell(known, f"certificates/{ID}/activate", {})
    card = known.page.locator(".rehearsals-section .card")
    activate = card.get_by_role("button", name=f"Activate {ID}")
    activate.click()
    card.get_by_role("button", name="Activate now").click()
    status = card.locator(".activation [role=status]")
    expect(status).to_have_text("● This certificate is active.")
    authorization = {"Authorization": f"Bearer {scripted.key}"}
    overview = known.page.request.get(f"{known.url}/overview", headers=authorization).json()
    listed = overview["certificates"]
    alter(known, "overview", figures="service", certificates=[listed[0] | {"id": ID}])
    expect(known.page.locator(".active-certificates-section")).to_contain_text(ID)
    expect(status).to_have_text("● This certificate is active.")
    alter(known, "overview", figures="service", certificates=listed)
    expect(activate).to_be_visible()
    expect(status).to_be_hidden()


def test_without_a_response_nothing_is_said_to_be_refused(known: Visitor) -> None:
    open_rehearsals(known, rehearsal(level(0.1, labels=600)))
    known.page.route(f"{known.url}/certificates/{ID}/activate", lambda route: route.abort())
    card = known.page.locator(".rehearsals-section .card")
    card.get_by_role("button", name=f"Activate {ID}").click()
    card.get_by_role("button", name="Activate now").click()
    expect(card.get_by_role("status")).to_have_text(
        "The service cannot be reached. It may have been done all the same: look again before you "
        "repeat it."
    )


def test_a_refused_activation_says_why(known: Visitor) -> None:
    open_rehearsals(known, rehearsal(level(0.1, labels=600)))
    refuse(
        known, f"certificates/{ID}/activate", AccessDenied("this needs the scope admin", known=True)
    )
    card = known.page.locator(".rehearsals-section .card")
    card.get_by_role("button", name=f"Activate {ID}").click()
    card.get_by_role("button", name="Activate now").click()
    expect(card.get_by_role("status")).to_have_text("Not activated: This needs the scope admin.")
    expect(card.get_by_role("button", name="Activate now")).to_be_enabled()
