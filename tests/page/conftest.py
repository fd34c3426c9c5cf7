"""A real Chromium, for most tests a real service and engine, and pictures of every state.

The pictures go to the folder that PAGE_PICTURES names, or else into pytest's temporary folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from rlcm_serve.page.demo import demo_of
from tests.page.by_hand import SHIPPED, alter
from tests.page.scripted import ScriptedProcess
from tests.page.visitor import Visitor, Visits, launch
from tests.served import Served


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("PAGE_PICTURES")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def visit(chromium: Browser, pictures: Path) -> Iterator[Visits]:
    """Opens tabs; no tab may report an error."""
    visits = Visits(chromium, pictures)
    yield visits
    assert visits.close() == []


@pytest.fixture
def visitor(visit: Visits, served: Served) -> Visitor:
    """A visitor of the real service."""
    return visit(served.url)


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedProcess]:
    """A service that requires keys, in a separate process, with a scripted engine."""
    process = ScriptedProcess(tmp_path_factory.mktemp("scripted"))
    process.start()
    yield process
    process.kill()


@pytest.fixture
def known(visit: Visits, scripted: ScriptedProcess) -> Visitor:
    """A visitor of the scripted service who has a key."""
    visitor = visit(scripted.url)
    kept = f"sessionStorage.setItem('rlcm-key', '{scripted.key}')"
    visitor.context.add_init_script(f"if (location.origin === '{scripted.url}') {kept}")
    return visitor


@pytest.fixture
def newcomer(visit: Visits, scripted: ScriptedProcess) -> Visitor:
    """Someone who has never seen the page of a service with the embedded model's certificate."""
    visitor = visit(scripted.url, is_new=True, reduced_motion="reduce")
    kept = f"sessionStorage.setItem('rlcm-key', '{scripted.key}')"
    visitor.context.add_init_script(f"if (location.origin === '{scripted.url}') {kept}")
    asset = demo_of((SHIPPED / "selective-1.json",))
    assert asset is not None
    alter(visitor, "page/about", keys=False, demo=True)
    visitor.page.route(
        f"{visitor.url}/page/demo",
        lambda route: route.fulfill(body=asset.content, content_type=asset.media_type),
    )
    return visitor
