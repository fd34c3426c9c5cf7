"""How much the page computes while samples stream in."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from statistics import median

import httpx
import pytest

from tests.page.questions import LONG
from tests.page.visitor import Visitor
from tests.served import Served

pytestmark = pytest.mark.page

LANES = 16
EVENTS_PER_SECOND = 800
"""Sixteen samples at fifty tokens a second each, more than any of them will get on one GPU."""
MOST_MS = 8.0
FRAME = "BeginMainThreadFrame"
SCRIPT = {"FunctionCall", "EvaluateScript", "RunMicrotasks", "v8.callFunction", "v8.run"}
TRACED = ["devtools.timeline", "v8", "v8.execute", "disabled-by-default-devtools.timeline"]
REPLAY = """([told, perSecond]) => {
  const real = window.fetch;
  window.fetch = (...request) => {
    if (!String(request[0]).endsWith("/solve")) return real(...request);
    const began = performance.now();
    const body = new ReadableStream({
      start(controller) {
        let sent = 0;
        const timer = setInterval(() => {
          const due = Math.ceil(((performance.now() - began) * perSecond) / 1000);
          const text = told.slice(sent, due).join("");
          if (text) controller.enqueue(new TextEncoder().encode(text));
          sent = Math.max(sent, due);
          if (sent < told.length) return;
          clearInterval(timer);
          controller.close();
        }, 5);
      },
    });
    const headers = { "Content-Type": "text/event-stream" };
    return Promise.resolve(new Response(body, { headers }));
  };
}"""
"""Gives the page a stream that was recorded, at a speed of its own."""


def recorded(served: Served) -> list[str]:
    """The events of a question with as many samples, as they came over the wire."""
    asked = {"problem": LONG, "alpha": 0.1, "n": LANES, "on_infeasible": "full_budget"}
    asked |= {"stream": True}
    with httpx.stream("POST", f"{served.url}/solve", json=asked, timeout=180) as response:
        assert response.status_code == 200, response.read()
        text = "".join(response.iter_text())
    return [f"{event}\n\n" for event in text.split("\n\n") if event]


def script_by_frame(trace: bytes) -> list[float]:
    """Scripting between one frame of the page and the next, ms of the main thread's processor time.

    Other processes take the processor away from it, but add nothing to what it used.
    """
    events = json.loads(trace)["traceEvents"]
    threads = Counter((one["pid"], one["tid"]) for one in events if one["name"] == FRAME)
    main = threads.most_common(1)[0][0]
    mine = [one for one in events if (one["pid"], one["tid"]) == main]
    frames = sorted(one["ts"] for one in mine if one["name"] == FRAME)
    spent = [0.0] * (len(frames) + 1)
    end = 0.0
    for one in sorted(mine, key=lambda event: (event["ts"], -event.get("dur", 0))):
        if one["name"] in SCRIPT and one["ph"] == "X" and one["ts"] >= end:  # else within the last
            spent[bisect_right(frames, one["ts"])] += one.get("tdur", one["dur"]) / 1000
            end = one["ts"] + one["dur"]
    return spent[1:-1]


def test_a_frame_of_sixteen_lanes_leaves_time_for_the_rest(
    visitor: Visitor, served: Served
) -> None:
    told = recorded(served)
    visitor.write(LONG, n=LANES, alpha=0.1)
    visitor.page.wait_for_load_state("networkidle")
    visitor.page.evaluate(REPLAY, [told, EVENTS_PER_SECOND])
    browser = visitor.context.browser
    assert browser is not None
    browser.start_tracing(page=visitor.page, categories=TRACED)
    visitor.send()
    visitor.page.locator(".lane").nth(LANES - 1).wait_for()
    visitor.answered()
    spent = script_by_frame(browser.stop_tracing())
    assert len(spent) > len(told) / EVENTS_PER_SECOND * 10, "it was drawn as it came"
    at = sorted(spent)
    visitor.note(
        f"scripting of {len(spent)} frames, {len(told)} events in {LANES} lanes: median "
        f"{median(at):.1f} ms, 99 of 100 {at[len(at) * 99 // 100]:.1f} ms, most {at[-1]:.1f} ms",
    )
    assert at[-1] <= MOST_MS, at[-10:]
