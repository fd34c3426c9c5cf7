"""Takes the documentation's pictures of the page, from a real service: `make doc-pictures`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

from tests.page.visitor import Visitor, Visits, launch
from tests.served import QUESTION, RLCM, Served, serving

IMAGES = Path(__file__).parents[2] / "docs/images"
BUS = (
    "A bus has 7 people. A 7 get on. B 7 get off. C 8 get on. D 1 get off. E 6 get on. F 9 get on. "
    "G 3 get off. H 3 get off. How many people are on the bus?"
)
AUDITED = ("--audit-share", "0.5", "--shadow-share", "0.1")
QUESTIONS = 800
AT_ONCE = 16
HEIGHT = 1560
"""CSS pixels of the pages that are longer than a picture should be."""


def take_all() -> None:
    """Writes ask.png, run.png, trust.png and operate.png."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), *AUDITED) as served,
        sync_playwright() as playwright,
        launch(playwright) as browser,
    ):
        visits = Visits(browser, IMAGES)
        visitor = visits(served.url)
        _take_ask(visitor)
        _take_run(visitor)
        _take_trust(visitor)
        _label(served)
        _take_operate(visitor)
        if complaints := visits.close():
            raise RuntimeError(f"the page reported {complaints}")


def _take_ask(visitor: Visitor) -> None:
    visitor.write(QUESTION, alpha=0.05, n=4)
    visitor.page.get_by_label("Your question").focus()
    visitor.settle()
    visitor.picture("ask")


def _take_run(visitor: Visitor) -> None:
    visitor.ask(BUS, alpha=0.05, n=4)
    visitor.settle()
    visitor.picture("run")


def _take_trust(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    visitor.go("#/trust")
    visitor.page.locator("table").first.wait_for()
    visitor.settle()
    visitor.picture("trust", whole=False)


def _take_operate(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    visitor.go("#/operate")
    expect(visitor.page.locator(".live-certificates .tag").first).to_be_visible()
    visitor.settle()
    visitor.picture("operate", whole=False)


def _label(served: Served) -> None:
    """Asks questions with known answers at several levels, and labels those drawn for audit."""

    def ask(numbered: tuple[int, dict[str, Any]]) -> str | None:
        at, problem = numbered
        alpha, n = (0.05, 0.1, 0.1, 0.1, 0.2)[at % 5], 4 if at % 40 == 0 else 1
        body = {"problem": problem["problem"], "alpha": alpha, "n": n}
        answered = served.client.post("/solve", json=body).raise_for_status().json()
        label = {"id": answered["id"], "reference": problem["answer"]}
        return json.dumps(label) if answered["answer"] is not None else None

    with ThreadPoolExecutor(AT_ONCE) as threads:
        labels = [line for line in threads.map(ask, enumerate(_problems())) if line is not None]
    served.client.post(
        "/feedback",
        content="\n".join(labels),
        headers={"content-type": "application/x-ndjson"},
    ).raise_for_status()


def _problems() -> Iterator[dict[str, Any]]:
    command = [RLCM, "examples", "--jsonl", "--count", str(QUESTIONS)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return map(json.loads, told.splitlines())


if __name__ == "__main__":
    take_all()
