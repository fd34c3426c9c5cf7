"""Recent answers, as operators list them: the whole app around a scripted engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.settings import Settings
from rlcm_serve.store.answers import recent
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import Running, serving
from tests.rlcm_serve.api.test_monitoring import answered, feedback
from tests.rlcm_serve.scripted_engine import Script

pytestmark = pytest.mark.anyio


async def listed(running: Running, query: str = "", key: str = "") -> dict[str, Any]:
    await answered(running)
    response = await running.client.get(f"/answers{query}", headers={"X-API-Key": key})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def ids(running: Running, query: str) -> list[str]:
    return [one["id"] for one in (await listed(running, query))["answers"]]


async def test_recent_answers_say_what_is_known_and_lead_to_their_records(
    certified: Path, tmp_path: Path
) -> None:
    scripts = Script(c_end=0.6), Script(c_end=0.2), Script(confidences=(0.95,), c_end=0.95)
    settings = Settings(state=tmp_path, audit_share=1, audit_texts=True, evidence=True)
    async with serving(*scripts, certificates=[certified], settings=settings) as running:
        given = (await running.solve(alpha=0.15, kind="dials")).json()
        declined = (await running.solve(problem="A dial shows 5.", alpha=0.2)).json()
        full = (await running.solve(problem="A dial shows 6.", temperature=0.3)).json()
        await feedback(running, {"id": given["id"], "right": False})
        await feedback(running, {"id": full["id"], "right": True})
        body = await listed(running)
        record = (await running.client.get(body["answers"][2]["record"])).json()
    assert body["next"] is None
    last, middle, first = body["answers"]
    assert [one["id"] for one in (first, middle, last)] == [
        one["id"] for one in (given, declined, full)
    ]
    assert first["certificate"] == given["guarantee"]["certificate"]
    assert (first["alpha"], first["outcome"], first["confidence"]) == (0.1, "answered", 0.6)
    assert (first["kind"], first["question"], first["answer"]) == (
        "dials",
        "A dial shows 3. A up 5.",
        "7",
    )
    assert (first["audit"], first["label"], first["tested"]) == (True, "wrong", True)
    assert first["asked"] <= first["time"] < first["due"]
    assert (middle["outcome"], middle["alpha"], middle["label"]) == ("abstained", 0.2, None)
    assert (last["certificate"], last["alpha"], last["label"]) == (None, None, "right")
    assert last["tested"] is False  # no guarantee, nothing to test
    assert record["id"] == first["id"]
    assert record["samples"][0]["readings"]


async def test_filters_and_pages_list_each_answer_once(certified: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, audit_share=1)
    script = Script(c_end=0.6), Script(c_end=0.2)
    async with serving(*script * 3, certificates=[certified], settings=settings) as running:
        given = [
            (await running.solve(problem=f"Dial {n}?", alpha=(0.1, 0.1, 0.2)[n % 3])).json()["id"]
            for n in range(6)
        ]
        await feedback(running, {"id": given[0], "right": True}, {"id": given[2], "right": False})
        newest = given[::-1]
        assert await ids(running, "") == newest
        assert await ids(running, "?outcome=abstained") == [given[n] for n in (5, 3, 1)]
        assert await ids(running, "?alpha=0.2") == [given[n] for n in (5, 2)]
        assert await ids(running, "?label=wrong") == [given[2]]
        assert await ids(running, "?label=right&audited=true") == [given[0]]
        assert await ids(running, "?label=none&outcome=answered") == [given[4]]
        assert await ids(running, "?audited=false") == []
        id_ = (await listed(running))["answers"][0]["certificate"]
        assert await ids(running, f"?certificate={id_}") == newest
        assert await ids(running, "?certificate=0123456789ab") == []
        pages, query = [], "?limit=4"
        while query:
            page = await listed(running, query)
            pages.append([one["id"] for one in page["answers"]])
            query = "" if page["next"] is None else f"?limit=4&before={page['next']}"
        assert pages == [newest[:4], newest[4:]]
        for wrong in ("?limit=0", "?limit=501", "?label=maybe", "?certificate=x", "?before=-1"):
            assert (await running.client.get(f"/answers{wrong}")).status_code == 422, wrong


async def test_one_page_looks_at_so_many_answers_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that few answers pass: pages may be empty, and the last one is reached."""
    monkeypatch.setattr(recent, "MOST_LOOKED_AT", 2)
    async with serving(settings=Settings(state=tmp_path, audit_share=0)) as running:
        given = [(await running.solve(problem=f"Dial {n}?")).json()["id"] for n in range(5)]
        await feedback(running, {"id": given[0], "right": False})
        pages, query = [], "?label=wrong"
        while query:
            page = await listed(running, query)
            pages.append([one["id"] for one in page["answers"]])
            query = "" if page["next"] is None else f"?label=wrong&before={page['next']}"
        assert pages == [[], [], [given[0]]]


async def test_who_may_list_answers_and_who_reads_their_texts(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, auth="on", audit_texts=True, audit_share=1, evidence=True)
    async with serving(settings=settings) as running:
        keys = {scope: running.context.keys.create(scope, [scope])[0] for scope in Scope}
        body = {"problem": "A dial shows 4.", "alpha": 0.1, "on_infeasible": "full_budget"}
        asked = await running.client.post(
            "/solve", json=body, headers={"X-API-Key": keys[Scope.SOLVE]}
        )
        assert asked.status_code == 200
        refused = await running.client.get("/answers", headers={"X-API-Key": keys[Scope.SOLVE]})
        assert refused.status_code == 403
        (shown,) = (await listed(running, key=keys[Scope.METRICS]))["answers"]
        assert (shown["question"], shown["answer"], shown["record"]) == (None, None, None)
        assert shown["id"] == asked.json()["id"]
        (whole,) = (await listed(running, key=keys[Scope.ADMIN]))["answers"]
        assert (whole["question"], whole["record"]) == (
            body["problem"],
            f"/answers/{shown['id']}",
        )


async def test_without_monitoring_there_are_no_answers_to_list(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, monitor=False)) as running:
        assert (await running.client.get("/answers")).status_code == 404
