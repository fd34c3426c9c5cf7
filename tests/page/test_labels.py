"""No text of Trust or Operate lies on another one, at any width, zoom and certificate."""

from __future__ import annotations

import pytest

from tests.page.by_hand import SHIPPED, move_to_the_ends, tell, tell_shipped
from tests.page.labels import FIVE_WIDTHS, faults_of, record_labels, resize
from tests.page.test_live import body, open_view
from tests.page.visitor import Visitor

pytestmark = pytest.mark.page

CERTIFICATES = sorted(file.stem for file in SHIPPED.glob("*.json"))
OF_SFT = "../../embedded-sft/certificates/selective-1"
CHOOSE = """(at) => {
  const levels = [...document.querySelectorAll("table.evidence input[type=radio]")];
  levels[at]?.click();
  return at + 1 < levels.length;
}"""
"""Chooses the level of this number; whether there are more."""


def test_trust_is_readable_for_every_certificate_and_level_at_five_widths(known: Visitor) -> None:
    names = [*CERTIFICATES, OF_SFT]
    assert len(names) >= 10
    record_labels(known)
    ids = tell_shipped(known, *names)
    faults = []
    for name, id_ in zip(names, ids, strict=True):
        known.go(f"#/trust?id={id_}")
        known.unfold()
        for width in FIVE_WIDTHS:
            where = resize(known, width)
            at, more = 0, True
            while more:
                more = known.page.evaluate(CHOOSE, at)
                faults += [f"{name}, level {at}, {where}: {one}" for one in faults_of(known, 30)]
                at += 1
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("closeness", [1e-2, 1e-4, 1e-7])
def test_a_map_has_room_for_thresholds_of_many_decimals(known: Visitor, closeness: float) -> None:
    record_labels(known)
    (one,) = tell_shipped(known, "selective-1")
    move_to_the_ends(known, one, closeness)
    known.go(f"#/trust?id={one}")
    known.unfold()
    faults = []
    for width in FIVE_WIDTHS:
        where = resize(known, width)
        faults += [f"{where}: {one}" for one in faults_of(known, 30)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("others", [0, 1, 3])
def test_trust_can_be_zoomed_to_twice_its_size(known: Visitor, others: int) -> None:
    record_labels(known)
    names = ["selective-1", "error-4", "regret-8", "selective-8"]
    ids = tell_shipped(known, *names)
    known.go("#/trust?" + "&".join(f"id={one}" for one in ids[: 1 + others]))
    known.page.locator("table.evidence").wait_for()
    if others == 0:
        known.unfold()
        known.page.locator("summary:visible", has_text="Part by part").click()
        known.page.locator("summary:visible", has_text="Tested stopping rules").click()
    faults = []
    for width in FIVE_WIDTHS:
        where = resize(known, width, zoom=2)
        faults += [f"{where}: {one}" for one in faults_of(known, 30 if others == 0 else 0)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("alarmed", [False, True])
def test_operate_is_readable_at_five_widths_and_twice_its_size(
    known: Visitor, alarmed: bool
) -> None:
    record_labels(known)
    open_view(known, body(alarmed=alarmed))
    readings = [[32, 0.2], [64, 0.97]]
    tell(known, "answers/a0", {"samples": [{"exit": "high", "readings": readings}]})
    changed = known.page.locator(".detail.answers")
    changed.locator("table").nth(1).locator("tbody button").first.click()
    changed.locator(".trace canvas").wait_for()
    faults = []
    for width in FIVE_WIDTHS:
        for zoom in (1, 2):
            where = resize(known, width, zoom)
            faults += [f"{where}: {one}" for one in faults_of(known, 10)]
    assert not faults, "\n".join(faults)


def test_a_label_on_another_one_would_be_found(known: Visitor) -> None:
    record_labels(known)
    (one,) = tell_shipped(known, "selective-1")
    known.go(f"#/trust?id={one}")
    known.unfold()
    known.settle()
    assert faults_of(known, 30) == []
    known.page.evaluate(
        """() => {
          const canvas = document.querySelector("main canvas");
          canvas.drawn.push(canvas.drawn[0]);
          const text = document.querySelector(".map-plane text");
          text.parentElement.append(text.cloneNode(true));
          document.querySelector(".pledge h2").style.marginBottom = "-30px";
        }"""
    )
    faults = "\n".join(faults_of(known, 30))
    assert "at most 10% of the answers it gives are wrong" in faults
    drawn = known.page.evaluate("document.querySelector('main canvas').drawn[0].text")
    written = known.page.evaluate("document.querySelector('.map-plane text').textContent")
    for text in (drawn, written):
        assert f'"{text}" lies on "{text}"' in faults
