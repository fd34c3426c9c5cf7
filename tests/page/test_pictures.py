"""Pictures of every state of trust and of the demo, held against those that were last accepted.

`make accept-pictures` accepts what the page looks like now: look at the changed files before you
commit them.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Locator, expect

from tests.page.streams import STATES
from tests.page.test_trust_states import asked_as
from tests.page.visitor import SCHEMES, WIDTHS, Visitor

pytestmark = pytest.mark.page

ACCEPTED = Path(__file__).parent / "accepted"
MOST_DIFFERENT = 0.02
"""Share of blocks that may differ: fonts are drawn a little differently from build to build."""
DIFFERENCE = """async ([one, other]) => {
  const BLOCK = 8, MOST = 28;
  const load = async (data) => {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    return createImageBitmap(new Blob([bytes], { type: "image/png" }));
  };
  const [a, b] = await Promise.all([load(one), load(other)]);
  if (Math.abs(a.width - b.width) > 2 || Math.abs(a.height - b.height) > 24) return 1;
  const [width, height] = [Math.min(a.width, b.width), Math.min(a.height, b.height)];
  const across = Math.ceil(width / BLOCK), down = Math.ceil(height / BLOCK);
  const means = (image) => {
    const canvas = new OffscreenCanvas(across, down);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height, 0, 0, across, down);
    return context.getImageData(0, 0, across, down).data;
  };
  const [first, second] = [means(a), means(b)];
  let different = 0;
  for (let at = 0; at < first.length; at += 4) {
    const off = [0, 1, 2].map((i) => Math.abs(first[at + i] - second[at + i]));
    different += Math.max(...off) > MOST;
  }
  return different / (across * down);
}"""
"""Share of blocks of eight pixels whose mean colour differs."""


def hold_against(visitor: Visitor, part: Locator, name: str) -> None:
    """Compares a part of the page with its accepted picture, or accepts it.

    Raises:
        AssertionError: it differs, or was never accepted; the picture is in the folder of pictures.
    """
    visitor.settle()
    taken = part.screenshot(path=visitor.pictures / f"{name}.png", animations="disabled")
    file = ACCEPTED / f"{name}.png"
    if os.environ.get("ACCEPT_PICTURES"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(taken)
    assert file.exists(), f"{name} was never accepted: look at it, then `make accept-pictures`"
    pair = [base64.b64encode(each).decode() for each in (taken, file.read_bytes())]
    different = float(visitor.page.evaluate(DIFFERENCE, pair))
    said = f"{name} differs from its accepted picture in {different:.1%} of its blocks"
    assert different <= MOST_DIFFERENT, f"{said}: {visitor.pictures / name}.png"


@pytest.mark.parametrize("state", STATES)
def test_each_state_looks_as_it_was_accepted(known: Visitor, state: str) -> None:
    asked_as(known, STATES[state])
    expect(known.page.locator(".outcome")).to_have_attribute("data-state", state)
    for scheme in SCHEMES:
        known.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        hold_against(known, known.page.locator(".outcome"), f"{state}-{scheme}")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_demo_looks_as_it_was_accepted(
    newcomer: Visitor, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = newcomer.page
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    newcomer.go("")
    hold_against(newcomer, page.locator(".demo"), f"demo-{width}-{scheme}")


def test_a_difference_would_be_seen(known: Visitor) -> None:
    asked_as(known, STATES["guaranteed"])
    known.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    known.page.locator(".outcome").evaluate("(it) => { it.dataset.state = 'abstained' }")
    if os.environ.get("ACCEPT_PICTURES"):
        pytest.skip("it would be accepted")
    with pytest.raises(AssertionError, match="differs from its accepted picture"):
        hold_against(known, known.page.locator(".outcome"), "guaranteed-light")


FIVE_WIDTHS = {360: 740, 768: 1024, 1280: 800, 1920: 1080, 2560: 1300}
OVERLAPS = """() => {
  const seen = (it) => it.offsetWidth > 0 && getComputedStyle(it).visibility !== "hidden";
  const texts = [...document.querySelectorAll(
    ".result-title, .result-value, .promise, .vote-rows li, .vote > p, .terms, .lanes-legend, "
    + ".story p, .story dl, .slider-head, .slider-note, .demo h1, .demo h2, .demo-intro, "
    + ".demo-question, .demo-told, .demo-count, .dots, .dots-legend, .demo-labels text"
  )].filter((it) => it instanceof SVGElement || seen(it));
  const faults = [];
  texts.forEach((one, at) => {
    const a = one.getBoundingClientRect();
    for (const other of texts.slice(at + 1)) {
      if (one.contains(other) || other.contains(one)) continue;
      const b = other.getBoundingClientRect();
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 2) faults.push(`${one.className.baseVal ?? one.className} and `
        + `${other.className.baseVal ?? other.className}: ${wide.toFixed()} x ${high.toFixed()}`);
    }
  });
  return faults;
}"""
"""Texts of the Ask view that lie on each other."""


def check_layout(visitor: Visitor) -> None:
    """No overflow and no overlap at five widths and at 200% zoom."""
    faults = []
    for width, height in FIVE_WIDTHS.items():
        for zoom in (1, 2):
            # Zoom halves the pixels that CSS has; 320 is the narrowest that WCAG asks for.
            size = {"width": max(320, width // zoom), "height": height // zoom}
            visitor.page.set_viewport_size(size)  # type: ignore[arg-type]
            visitor.settle()
            where = f"{width} px at {zoom}00%"
            if wider := visitor.wider():
                faults.append(f"{where}: {wider} px wider than the window")
            faults += [f"{where}: {one}" for one in visitor.page.evaluate(OVERLAPS)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("state", ["guaranteed", "weak", "withdrawn"])
def test_nothing_overlaps_or_overflows_in_a_state(known: Visitor, state: str) -> None:
    asked_as(known, STATES[state])
    check_layout(known)


def test_nothing_overlaps_or_overflows_in_the_demo_at_any_level(newcomer: Visitor) -> None:
    newcomer.go("")
    alpha = newcomer.page.locator(".demo input[type=range]")
    alpha.press("Home")
    for _ in range(4):
        check_layout(newcomer)
        alpha.press("ArrowRight")
