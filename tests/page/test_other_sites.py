"""Pages of other sites, in a real browser: what they send leaves the service as it was.

The service asks for no keys. The page comes from another port of this machine, and then from a name
that has come to stand for it (DNS rebinding).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from calibration import ExitPolicy
from tests.rlcm_serve.api.serving import PROBLEM, Running
from tests.rlcm_serve.scripted_engine import certificate
from tests.service.clients import until
from tests.service.listening import listening

pytestmark = pytest.mark.page

REAL = certificate({0.1: ExitPolicy(lambda_high=0.9)})
FORGED = certificate({0.1: ExitPolicy(lambda_high=0.1)})
QUESTION = json.dumps({"problem": PROBLEM, "alpha": 0.1, "on_infeasible": "full_budget"})
CHAT = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": PROBLEM}]})
LINES = "".join(f'{{"problem": "A dial shows {n}.", "answer": "{n}"}}\n' for n in range(40))
TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
TARGETS = {
    f"/certificates/{REAL.id}/deactivate": "",
    "/calibrations?alphas=0.1": LINES,
    "/certificates": json.dumps(FORGED.to_json()),
    "/solve": QUESTION,
    "/v1/chat/completions": CHAT,
    "/v1/responses": json.dumps({"model": "scripted", "input": PROBLEM}),
    "/aggregate": '{"rollouts": []}',
}
"""Paths with an effect, and bodies for them."""
FETCH = """async ([service, targets, types, mode]) => {
  const outcomes = [];
  for (const [path, body] of Object.entries(targets)) {
    for (const type of types) {
      const init = { method: "POST", mode, body };
      if (type) init.headers = { "Content-Type": type };
      if (type === "multipart/form-data") {
        init.body = new FormData();
        init.body.append("certificate", new Blob([body]), "a.json");
        delete init.headers;
      }
      outcomes.push(await fetch(service + path, init).then((r) => r.status, () => -1));
    }
    navigator.sendBeacon(service + path, new Blob([body], { type: "text/plain" }));
  }
  return outcomes;
}"""
FORMS = """([service, targets, types]) => {
  for (const [path, body] of Object.entries(targets)) {
    for (const enctype of types) {
      const frame = document.createElement("iframe");
      frame.name = `frame ${path} ${enctype}`;
      document.body.append(frame);
      const form = document.createElement("form");
      Object.assign(form, { action: service + path, method: "post", enctype, target: frame.name });
      const field = document.createElement("input");
      const at = body.indexOf("=") < 0 ? body.length - 1 : body.indexOf("=");
      Object.assign(field, { type: "hidden", name: body.slice(0, at), value: body.slice(at) });
      form.append(field);
      document.body.append(form);
      form.submit();
    }
  }
}"""
IMAGES = """([service, targets]) => Promise.all(Object.keys(targets).map((path) =>
  new Promise((done) => {
    const image = new Image();
    image.onload = image.onerror = done;
    image.src = service + path;
  })))"""


class EvilSite(BaseHTTPRequestHandler):
    """Serves an empty page without any policy."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><body>")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@dataclass
class Victim:
    """A service without keys, with an active certificate."""

    url: str
    running: Running

    def posts(self) -> float:
        """How many POST requests have been answered."""
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("rlcm_http_requests_total{")]
        return sum(float(line.rpartition(" ")[2]) for line in found if 'method="POST"' in line)

    def state(self) -> tuple[Any, Any, int]:
        """The certificates, the jobs, and how many samples the engine was asked for."""
        certificates = httpx.get(f"{self.url}/certificates").json()
        jobs = httpx.get(f"{self.url}/calibrations").json()
        return certificates, jobs, len(self.running.engine.policies)


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with listening(tmp_path_factory.mktemp("victim")) as (url, running):
        assert httpx.post(f"{url}/certificates", json=REAL.to_json()).status_code == 201
        assert httpx.post(f"{url}/certificates/{REAL.id}/activate").status_code == 200
        yield Victim(url, running)


@pytest.fixture
def evil(chromium: Browser) -> Iterator[Page]:
    """A tab with a page of another site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EvilSite)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    page = chromium.new_context().new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    yield page
    page.context.close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_changes_nothing(victim: Victim, evil: Page, name: str) -> None:
    """From the page at 127.0.0.1, `localhost` is another site, and 127.0.0.1 the same site."""
    before, posts = victim.state(), victim.posts()
    service = victim.url.replace("127.0.0.1", name)
    outcomes = evil.evaluate(FETCH, [service, TARGETS, [*TYPES, ""], "no-cors"])
    assert set(outcomes) == {0}, "all were sent, and none can be read"
    assert set(evil.evaluate(FETCH, [service, TARGETS, ["application/json"], "cors"])) == {-1}
    evil.evaluate(FORMS, [service, TARGETS, TYPES])
    evil.evaluate(IMAGES, [service, TARGETS])
    # For each path: scripts with three types and with none, two beacons, and three forms.
    sent = len(TARGETS) * (len(TYPES) + 1 + 2 + len(TYPES))
    until(lambda: victim.posts() - posts >= sent)
    assert victim.state() == before


def test_a_name_that_has_come_to_stand_for_this_machine_opens_nothing(
    victim: Victim, chromium: Browser
) -> None:
    """Chromium resolves names below localhost to this machine, as a rebound name is."""
    service = victim.url.replace("127.0.0.1", "rebound.localhost")
    page = chromium.new_context().new_page()
    page.route(f"{service}/evil", lambda route: route.fulfill(content_type="text/html", body="x"))
    page.goto(f"{service}/evil")
    before = victim.state()
    types = [*TYPES, "", "application/json"]
    assert set(page.evaluate(FETCH, [service, TARGETS, types, "cors"])) == {421}
    for path in ("/", "/overview", "/certificates", "/v1/models"):
        assert page.evaluate("(url) => fetch(url).then((r) => r.status)", service + path) == 421
    assert victim.state() == before
    page.context.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_page_itself_is_served_under_each_name(
    victim: Victim, chromium: Browser, name: str
) -> None:
    page = chromium.new_context().new_page()
    page.goto(victim.url.replace("127.0.0.1", name))
    ask = """(body) => fetch("solve", { method: "POST", body,
        headers: { "Content-Type": "application/json" } }).then((r) => r.status)"""
    assert page.evaluate(ask, QUESTION) == 200
    page.context.close()
