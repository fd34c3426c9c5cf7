"""Where texts lie on the page: in elements, in SVG, and drawn on a canvas."""

from __future__ import annotations

from tests.page.visitor import Visitor

FIVE_WIDTHS = {360: 740, 768: 1024, 1280: 800, 1920: 1080, 2560: 1300}
"""Window sizes, CSS pixels: width to height."""

RECORD = """() => {
  const of = CanvasRenderingContext2D.prototype;
  const { clearRect, fillText } = of;
  of.clearRect = function (x, y, width, height) {
    if (width >= this.canvas.width && height >= this.canvas.height) this.canvas.drawn = [];
    return clearRect.call(this, x, y, width, height);
  };
  of.fillText = function (text, x, y, ...rest) {
    const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right,
      actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = this.measureText(text);
    const matrix = this.getTransform();
    const corners = [[x - left, y - up], [x + right, y - up], [x + right, y + down],
      [x - left, y + down]].map(([a, b]) => matrix.transformPoint(new DOMPoint(a, b)));
    (this.canvas.drawn ??= []).push({ text, corners: corners.map((one) => [one.x, one.y]) });
    return fillText.call(this, text, x, y, ...rest);
  };
}"""
"""Remembers the corners of every text that is drawn on a canvas, in its pixels."""

FAULTS = """() => {
  const TOUCH = 1.5;
  const texts = [];
  const box = (r) => [[r.left, r.top], [r.right, r.top], [r.right, r.bottom], [r.left, r.bottom]];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.parentElement;
    if (!node.data.trim() || at.closest("svg, .unseen, option, noscript")) continue;
    if (!at.checkVisibility({ visibilityProperty: true })) continue;
    const head = at.closest("thead"); // is for screen readers alone where rows are folded
    if (head && getComputedStyle(head).clipPath !== "none") continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const scrolling = at.closest(".wide, .scrolls, .chart-table, pre, ol.job-log") !== null;
    for (const rect of range.getClientRects()) {
      if (rect.width < 2) continue;
      if (!scrolling && (rect.left < -1 || rect.right > innerWidth + 1)) {
        texts.push({ text: node.data, fault: "leaves the window" });
      }
      if (!scrolling) texts.push({ text: node.data, corners: box(rect) });
    }
  }
  for (const at of document.querySelectorAll("main svg text")) {
    const size = at.getBBox(), matrix = at.getScreenCTM();
    if (!size.width || !at.checkVisibility({ visibilityProperty: true })) continue;
    const corners = [[0, 0], [1, 0], [1, 1], [0, 1]].map(([x, y]) => {
      // A line of text is a fifth higher than its letters.
      const point = new DOMPoint(size.x + x * size.width, size.y + (0.1 + 0.8 * y) * size.height);
      const { x: left, y: top } = point.matrixTransform(matrix);
      return [left, top];
    });
    const room = at.ownerSVGElement.getBoundingClientRect();
    texts.push({ text: at.textContent, corners, room });
  }
  for (const at of document.querySelectorAll("main canvas")) {
    const room = at.getBoundingClientRect();
    if (!room.width || !at.checkVisibility({ visibilityProperty: true })) continue;
    const scale = room.width / at.width;
    for (const { text, corners } of at.drawn ?? []) {
      const placed = corners.map(([x, y]) => [room.left + scale * x, room.top + scale * y]);
      texts.push({ text, corners: placed, room });
    }
  }
  const apart = (one, other) => [one, other].some((shape) => shape.some(([x, y], i) => {
    const [a, b] = shape[(i + 1) % 4];
    const length = Math.hypot(a - x, b - y) || 1;
    const normal = [(y - b) / length, (a - x) / length];
    const along = (points) => points.map((p) => p[0] * normal[0] + p[1] * normal[1]);
    const [first, second] = [along(one), along(other)];
    const over = Math.min(Math.max(...first), Math.max(...second))
      - Math.max(Math.min(...first), Math.min(...second));
    return over < TOUCH;
  }));
  const faults = texts.filter((one) => one.fault).map((one) => `"${one.text}" ${one.fault}`);
  const found = texts.filter((one) => one.corners);
  for (const { text, corners, room } of found) {
    const out = room && corners.some(([x, y]) => x < room.left - TOUCH || x > room.right + TOUCH
      || y < room.top - TOUCH || y > room.bottom + TOUCH);
    if (out) faults.push(`"${text}" is cut off`);
  }
  for (const one of found) {
    const across = one.corners.map((point) => point[1]);
    [one.top, one.bottom] = [Math.min(...across), Math.max(...across)];
  }
  found.sort((one, other) => one.top - other.top);
  found.forEach((one, at) => {
    for (const other of found.slice(at + 1)) {
      if (other.top > one.bottom) break;
      if (!apart(one.corners, other.corners)) faults.push(`"${one.text}" lies on "${other.text}"`);
    }
  });
  return { texts: found.length, drawn: found.filter((one) => one.room).length, faults };
}"""
"""Texts that lie on each other, that leave the window, or that their drawing cuts off."""


def record_labels(visitor: Visitor) -> None:
    """Call it before the page is opened, so that labels on canvases are known."""
    visitor.context.add_init_script(f"({RECORD})()")


def faults_of(visitor: Visitor, least: int) -> list[str]:
    """What is wrong with the texts as they lie now.

    Args:
        least: labels that are drawn, on canvases and in SVG, at least.

    Raises:
        AssertionError: fewer labels were found, so the check would see nothing.
    """
    found = visitor.page.evaluate(FAULTS)
    assert found["drawn"] >= least, f"only {found['drawn']} labels are drawn"
    faults = list(found["faults"])
    if wider := visitor.wider():
        faults.append(f"{wider} px wider than the window")
    return faults


def resize(visitor: Visitor, width: int, zoom: int = 1) -> str:
    """Resizes the window to one of `FIVE_WIDTHS`; returns its description."""
    # Zoom halves the pixels that CSS has; 320 is the narrowest that WCAG asks for.
    size = {"width": max(320, width // zoom), "height": FIVE_WIDTHS[width] // zoom}
    visitor.page.set_viewport_size(size)  # type: ignore[arg-type]
    visitor.settle()
    return f"{width} px at {zoom}00%"
