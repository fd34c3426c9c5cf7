"""A visitor of the page: a Chromium tab, its requests, and the content it shows."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Playwright,
    Request,
    ViewportSize,
    expect,
)

from tests.served import events

AXE = Path(__file__).parents[2] / "page/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PATIENCE_MS = 180_000
"""Time limit for the engine's work on a busy machine, in milliseconds."""
WIDTHS = {360: 740, 1280: 800, 2560: 1300}
"""Window sizes in which every state is checked, in CSS pixels: width to height."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
INKED = """(drawn, name) => {
  const { width, height } = drawn;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  context.fillRect(0, 0, 1, 1);
  const wanted = context.getImageData(0, 0, 1, 1).data.join();
  context.clearRect(0, 0, width, height);
  context.drawImage(drawn, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) found += data.slice(at, at + 4).join() === wanted;
  return found;
}"""
"""Pixels of a canvas that have exactly the theme's colour of that name, such as "ink"."""
TAP = """() => {
  const real = window.fetch;
  window.told = "";
  window.fetch = async (...request) => {
    const response = await real(...request);
    if (response.url.endsWith("/solve") && response.body) {
      const reader = response.clone().body.pipeThrough(new TextDecoderStream()).getReader();
      const read = () => reader.read().then(({ done, value }) => {
        window.told += value ?? "";
        if (!done) return read();
      });
      read().catch(() => {});
    }
    return response;
  };
}"""
"""Keeps a copy of streamed responses, as Chromium does not make them available."""

expect.set_options(timeout=30_000)


def launch(playwright: Playwright) -> Browser:
    """The path of the system's Chromium, or of the Chromium that CHROMIUM names."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        raise RuntimeError("no chromium: install Debian's package, or name one in CHROMIUM")
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


@dataclass
class Visitor:
    """One tab with its own storage."""

    page: Page
    url: str
    pictures: Path
    complaints: list[str] = field(default_factory=list)
    """The page's console messages and its uncaught errors."""
    addresses: list[str] = field(default_factory=list)
    """All requested addresses, each with the referrer that the page sent."""

    @property
    def context(self) -> BrowserContext:
        return self.page.context

    def go(self, fragment: str = "#/ask") -> None:
        """Reloads the page."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{fragment}")
        self.page.wait_for_selector("main > section:not([hidden])", timeout=PATIENCE_MS)

    def write(self, problem: str, **settings: object) -> None:
        """Fills in the form through the page's address."""
        self.go("#/ask?" + urlencode({"problem": problem} | settings))
        expect(self.page.get_by_label("Your question")).to_have_value(problem)
        expect(self.page.locator("#engine")).to_have_attribute("data-state", "ready")

    def send(self) -> None:
        self.page.get_by_label("Your question").press("Enter")

    def ask(self, problem: str, **settings: object) -> None:
        """Waits for the answer."""
        self.write(problem, **settings)
        self.send()
        self.answered()

    def answered(self) -> None:
        self.page.wait_for_selector(".result, .notices .bad", timeout=PATIENCE_MS)
        expect(self.page.locator(".notices")).to_have_text("")

    def notice(self) -> Locator:
        """Waits for the page's error; returns its heading, which should have the focus."""
        heading = self.page.locator(".notices h2")
        heading.wait_for(timeout=PATIENCE_MS)
        return heading

    @contextmanager
    def told(self) -> Iterator[list[tuple[str, dict[str, Any]]]]:
        """Collects the events of the stream that starts inside the block."""
        read: list[tuple[str, dict[str, Any]]] = []
        self.page.evaluate(TAP)
        yield read
        read.extend(events(self.page.evaluate("window.told").splitlines()))

    def picture(self, name: str, *, whole: bool = True) -> None:
        self.page.screenshot(path=self.pictures / f"{name}.png", full_page=whole, timeout=60_000)

    def note(self, figure: str) -> None:
        """Stores a measured figure beside the pictures."""
        with (self.pictures / "figures.txt").open("a") as file:
            file.write(f"{figure}\n")

    def inspect(self, name: str) -> None:
        """Checks a stable state at every width, in light and dark, and with axe.

        Raises:
            AssertionError: something is wider than the window, or axe finds a violation.
        """
        faults = []
        for width, height in WIDTHS.items():
            self.page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                self.page.emulate_media(color_scheme=scheme)
                self.settle()
                if wider := self.wider():
                    faults.append(f"{width} {scheme}: wider than the window: {wider}")
                if width != 2560 or scheme == "light":
                    self.picture(f"{name}-{width}-{scheme}")
                if width != 2560:
                    faults += [f"{width} {scheme}: {found}" for found in self.violations()]
        self.page.set_viewport_size({"width": 1280, "height": WIDTHS[1280]})
        self.page.emulate_media(color_scheme="light")
        self.settle()
        if faults:
            raise AssertionError(f"{name}:\n" + "\n".join(faults))

    def unfold(self) -> None:
        """Opens the sections of Trust that are closed at first."""
        self.page.locator(".fold").first.wait_for()
        for summary in self.page.locator(".fold > summary").all():
            summary.click()
        self.page.locator(".map-field svg rect").first.wait_for()

    def settle(self) -> None:
        """Waits until the page is redrawn after a change of the window."""
        self.page.evaluate(
            "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() =>"
            " requestAnimationFrame(done)), 150))"
        )

    def wider(self) -> int:
        """CSS pixels by which the page can be scrolled sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def violations(self) -> list[str]:
        """The violations that axe finds.

        Raises:
            FileNotFoundError: axe is not there.
        """
        if not AXE.exists():
            raise FileNotFoundError(f"no axe at {AXE}: run `npm ci` in page/, or `make test-page`")
        # The page's policy forbids other scripts, but the debugger may inject one.
        session = self.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": AXE.read_text()})
        options = json.dumps({"runOnly": RULES, "resultTypes": ["violations"]})
        found = self.page.evaluate(f"axe.run(document, {options})")
        session.detach()
        return [
            f"{one['id']}: {node['target']}: {node['failureSummary']}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def focused(self) -> str:
        """The focused element: its name, or its text."""
        return str(
            self.page.evaluate(
                "() => { const at = document.activeElement;"
                " return (at.getAttribute('aria-label') || at.labels?.[0]?.textContent"
                " || at.textContent || at.tagName).trim() }"
            )
        )

    def text(self, selector: str) -> str:
        """Of what is seen there, with plain spaces."""
        shown = self.page.locator(selector).first.inner_text()
        return " ".join(shown.replace("\N{NO-BREAK SPACE}", " ").split())


@dataclass
class Visits:
    """Opens tabs, and closes them."""

    browser: Browser
    pictures: Path
    opened: list[Visitor] = field(default_factory=list)

    def __call__(
        self, url: str, width: int = 1280, *, is_new: bool = False, **options: Any
    ) -> Visitor:
        """A visitor of the service at this address, who has not opened the page yet.

        Args:
            url: of the service.
            width: of the window, one of `WIDTHS`.
            is_new: whether the page greets them with its demo; others have left it before.
            options: further ones of Playwright's `new_context`.
        """
        size = ViewportSize(width=width, height=WIDTHS[width])
        page = self.browser.new_context(viewport=size, locale="en", **options).new_page()
        visitor = Visitor(page, url, self.pictures)
        if not is_new:
            page.add_init_script("try { localStorage.setItem('rlcm-demo-seen', 'yes') } catch {}")
        page.on("console", lambda message: _note(visitor, message))
        page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        page.on("request", lambda request: _note_request(visitor, request))
        self.opened.append(visitor)
        return visitor

    def close(self) -> list[str]:
        """The errors of all tabs."""
        for visitor in self.opened:
            if visitor.page.is_closed():
                continue
            visitor.page.unroute_all(behavior="ignoreErrors")  # what is altered may be under way
            visitor.context.close()
        return [line for visitor in self.opened for line in visitor.complaints]


def _note(visitor: Visitor, message: ConsoleMessage) -> None:
    # The browser reports every status from 400 up, which some tests cause on purpose.
    if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
        visitor.complaints.append(message.text)


def _note_request(visitor: Visitor, request: Request) -> None:
    visitor.addresses += [request.url, request.headers.get("referer", "")]
