"""`/calibrations` over HTTP, against the whole app."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from calibration import Certificate, read_traces, verify
from rlcm_serve.errors import DatabaseBusy
from rlcm_serve.settings import Settings
from rlcm_serve.store.calibration_tables import CalibrationRow
from rlcm_serve.store.caller import ANYONE, Caller, Scope
from rlcm_serve.store.certificate_table import STORED, StoredCertificate
from rlcm_serve.store.job import Calibration, CalibrationRequest, JobState
from tests.rlcm_serve.api.serving import Running, error_of, serving
from tests.rlcm_serve.jobs.problem_engine import SCRIPTS

FAST = {"alphas": 0.2, "method": "chains"}


@pytest.fixture
async def ready() -> AsyncIterator[Running]:
    async with serving(*SCRIPTS) as running:
        yield running


def lines(count: int = 40, **more: Any) -> bytes:
    rows = [{"id": f"p{n}", "problem": f"Problem {n}", "answer": 7} | more for n in range(count)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


async def post(
    running: Running, content: bytes | None = None, kind: str = "application/x-ndjson", **query: Any
) -> httpx.Response:
    return await running.client.post(
        "/calibrations",
        params=FAST | query,
        content=lines() if content is None else content,
        headers={"content-type": kind},
    )


async def ended(running: Running, id_: str) -> dict[str, Any]:
    async for job in running.context.jobs.watch(id_):
        last = job
    assert last.state.ended
    body: dict[str, Any] = (await running.client.get(f"/calibrations/{id_}")).json()
    return body


@pytest.mark.slow
async def test_from_problems_to_a_certified_answer(ready: Running, tmp_path: Path) -> None:
    posted = await post(ready, activate=True)
    assert posted.status_code == 202, posted.text
    job = posted.json()
    assert posted.headers["location"] == f"/calibrations/{job['id']}"
    assert (job["state"], job["done"], job["total"]) == ("queued", 0, 40)
    assert job["asked"] == {
        "profile": "default",
        "risk": "selective",
        "alphas": [0.2],
        "delta": 0.1,
        "promise": "simultaneous",
        "n": 1,
        "vote": "confidence",
        "rollouts": 1,
        "average": "problems",
        "max_group_size": None,
        "method": "chains",
        "by": None,
        "bounds": {},
        "next": None,
        "activate": True,
        "sequential": False,
        "extend": None,
        "replace": None,
    }
    job = await ended(ready, job["id"])
    assert (job["state"], job["done"], job["error"]) == ("done", 40, None)
    (verdict,) = job["verdicts"]
    assert (verdict["alpha"], verdict["certified"]) == (0.2, True)
    assert job["log"][-1]["text"] == f"certificate {job['certificate']} is active"
    listed = (await ready.client.get("/calibrations")).json()["calibrations"]
    assert [one["id"] for one in listed] == [job["id"]]

    traces = await ready.client.get(f"/calibrations/{job['id']}/traces")
    assert traces.headers["content-type"] == "application/vnd.apache.parquet"
    assert f'"{job["id"]}.parquet"' in traces.headers["content-disposition"]
    (tmp_path / "t.parquet").write_bytes(traces.content)
    saved = (await ready.client.get(f"/certificates/{job['certificate']}")).json()
    assert verify(Certificate.from_json(saved), read_traces(tmp_path / "t.parquet")) == []

    answer = (await ready.solve(alpha=0.2)).json()
    assert answer["guarantee"]["certificate"] == job["certificate"]


@pytest.mark.slow
async def test_problems_are_added_to_a_sequential_certificate(ready: Running) -> None:
    begun = await ended(ready, (await post(ready, sequential=True)).json()["id"])
    assert begun["state"] == "done"
    posted = await ready.client.post(
        "/calibrations",
        params={"extend": begun["id"], "activate": True},
        content=lines(80)[len(lines()) :],
        headers={"content-type": "application/x-ndjson"},
    )
    assert posted.status_code == 202, posted.text
    job = await ended(ready, posted.json()["id"])
    assert (job["state"], job["asked"]["extend"], job["asked"]["alphas"]) == (
        "done",
        begun["id"],
        [0.2],
    )


async def test_a_certificate_that_is_not_there_cannot_be_replaced(ready: Running) -> None:
    unknown = {"replace": "571b667eda0c"}
    error_of(await ready.client.post("/calibrations", params=unknown), 404)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"replace": "571b667eda0c", "activate": False}, "activate"),
        ({"replace": "571b667eda0c", "delta": 0.1}, "delta"),
        ({"replace": "571b667eda0c", "max_group_size": 5}, "max_group_size"),
        ({"extend": "cal_5f3a9c21d07e", "activate": False, "n": 1}, "n"),
        ({"extend": "cal_5f3a9c21d07e", "replace": "571b667eda0c"}, "replace"),
    ],
)
async def test_a_setting_that_another_fixes_is_refused_also_at_its_default(
    ready: Running, query: dict[str, Any], field: str
) -> None:
    refused = error_of(await ready.client.post("/calibrations", params=query), 422)
    assert refused["errors"][0]["field"] == field


async def test_a_job_is_told_whose_certificate_cannot_be_read(ready: Running) -> None:
    """As one that an older release wrote."""
    job, fitted = "cal_5f3a9c21d07e", "571b667eda0c"
    content = json.dumps({"version": 1})
    asked = CalibrationRequest().to_json()
    with ready.context.database.session() as session:
        session.add_all(
            [
                StoredCertificate(
                    id=fitted, content=content, origin=job, added=1, slot="s", state=STORED
                ),
                CalibrationRow(
                    id=job, state="done", asked=asked, n_problems=0, created=1, certificate=fitted
                ),
            ]
        )
    path = f"/calibrations/{job}"
    body = (await ready.client.get(path)).json()
    assert (body["state"], body["certificate"], body["verdicts"]) == ("done", fitted, [])
    assert "event: calibration" in (await ready.client.get(f"{path}/events")).text
    assert (await ready.client.delete(path)).json() == body


def of_kinds(*counts: int) -> bytes:
    """So many problems of the kinds "a", "b" and so on, in turn."""
    named = [kind for kind, count in zip("abc", counts, strict=False) for _ in range(count)]
    rows = [
        {"id": f"p{n}", "problem": f"Problem {n}", "answer": 7, "kind": kind}
        for n, kind in enumerate(named)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.slow
async def test_a_job_makes_a_certificate_for_each_kind(ready: Running, tmp_path: Path) -> None:
    asked = {"by": "kind", "delta": 0.4, "activate": True}
    posted = await post(ready, of_kinds(30, 30, 8), **asked)
    assert posted.status_code == 202, posted.text
    assert (posted.json()["asked"]["by"], posted.json()["kinds"]) == ("kind", [])
    job = await ended(ready, posted.json()["id"])
    assert (job["state"], job["error"]) == ("done", None)
    assert [one["kind"] for one in job["kinds"]] == ["a", "b"]
    assert [one["verdicts"][0]["certified"] for one in job["kinds"]] == [True, True]
    traces = await ready.client.get(f"/calibrations/{job['id']}/traces")
    (tmp_path / "t.parquet").write_bytes(traces.content)
    served = {None: job["certificate"]} | {one["kind"]: one["certificate"] for one in job["kinds"]}
    for kind, id_ in served.items():
        saved = Certificate.from_json((await ready.client.get(f"/certificates/{id_}")).json())
        assert saved.about == kind
        assert verify(saved, read_traces(tmp_path / "t.parquet")) == []
        report = await ready.client.get(f"/certificates/{id_}/report")
        assert report.json()["calibration"]["n_problems"] == {None: 68}.get(kind, 30)
        more = {} if kind is None else {"kind": kind}
        answer = (await ready.solve(alpha=0.2, problem=f"Of {kind}", **more)).json()
        assert answer["guarantee"]["certificate"] == id_
    told = "\n".join(line["text"] for line in job["log"])
    assert "certificate of kind 'a', alpha 0.2: certified" in told
    assert f"certificate of all kinds {job['certificate']} is active" in told
    await ready.client.delete(f"/calibrations/{job['id']}")
    error_of(await ready.client.get(f"/calibrations/{job['id']}"), 404)


@pytest.mark.slow
async def test_a_job_bounds_other_risks_and_the_next_questions(ready: Running) -> None:
    asked = {"bounds": ["wrong", "lost=0.5"], "answered_at_least": 0.5, "next": 100}
    job = await ended(ready, (await post(ready, lines(100), **asked)).json()["id"])
    assert (job["state"], job["error"]) == ("done", None)
    assert job["asked"]["bounds"] == {"wrong": None, "lost": 0.5, "declined": 0.5}
    assert job["asked"]["next"] == 100
    made = Certificate.from_json(
        (await ready.client.get(f"/certificates/{job['certificate']}")).json()
    )
    assert made.joint is not None
    assert {one.risk: one.at_most for one in made.joint.bounds} == job["asked"]["bounds"]
    assert made.joint.next is not None
    assert made.joint.next.questions == 100
    assert made.levels[0].certified
    wrong = made.joint.bounds[0].bounds[0]
    assert wrong is not None
    assert 0 < wrong < 0.2


@pytest.mark.slow
async def test_a_job_is_watched_as_it_gets_on(ready: Running) -> None:
    id_ = (await post(ready)).json()["id"]
    async with ready.client.stream("GET", f"/calibrations/{id_}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        told = [line async for line in response.aiter_lines()]
    assert {line for line in told if line.startswith("event")} == {"event: calibration"}
    seen = [json.loads(line.removeprefix("data: ")) for line in told if line.startswith("data")]
    assert [one["done"] for one in seen] == sorted(one["done"] for one in seen)
    assert (seen[-1]["state"], seen[-1]["done"]) == ("done", 40)
    error_of(await ready.client.get("/calibrations/nobody/events"), 404)


async def events_of(running: Running, id_: str) -> list[tuple[str, dict[str, Any]]]:
    async with running.client.stream("GET", f"/calibrations/{id_}/events") as response:
        lines = [line async for line in response.aiter_lines()]
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    bodies = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data")]
    return list(zip(names, bodies, strict=True))


async def test_a_watched_job_does_not_delay_the_stop(ready: Running) -> None:
    ready.engine.hold(8)
    id_ = (await post(ready)).json()["id"]
    watching = asyncio.create_task(events_of(ready, id_))
    await ready.engine.all_held.wait()
    ready.context.draining.close()
    *_, (name, body) = await asyncio.wait_for(watching, 20)
    assert (name, body["status"], body["detail"]) == (
        "error",
        503,
        "the service is not ready: stopping",
    )


async def test_a_stream_outlasts_a_database_that_is_busy(
    ready: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends the next state once it can be read."""
    jobs, reads = ready.context.jobs, Counter[str]()
    get = jobs.get

    async def busy_once(id_: str, caller: Caller = ANYONE) -> Calibration:
        reads[id_] += 1
        if reads[id_] == 3:  # the first one is the request's own
            raise DatabaseBusy("the database is locked", "by a test")
        return await get(id_, caller)

    ready.engine.hold(8)
    id_ = (await post(ready)).json()["id"]
    await ready.engine.all_held.wait()
    monkeypatch.setattr(jobs, "get", busy_once)
    watching = asyncio.create_task(events_of(ready, id_))
    async with asyncio.timeout(20):
        while reads[id_] < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await ready.client.delete(f"/calibrations/{id_}")
    events = await asyncio.wait_for(watching, 20)
    assert [name for name, _ in events] == ["calibration"] * len(events)
    assert events[-1][1]["state"] == "cancelled"


async def test_a_job_is_cancelled(ready: Running) -> None:
    ready.engine.hold(8)
    id_ = (await post(ready)).json()["id"]
    await ready.engine.all_held.wait()
    running = (await ready.client.get(f"/calibrations/{id_}")).json()
    assert (running["state"], running["seconds_left"]) == ("recording", None)
    detail = error_of(await ready.client.get(f"/calibrations/{id_}/traces"), 409)["detail"]
    assert "has no traces" in detail
    cancelled = await ready.client.delete(f"/calibrations/{id_}")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert ready.engine.thinking == 0
    assert (await ready.client.delete(f"/calibrations/{id_}")).json()["state"] == "cancelled"
    error_of(await ready.client.get(f"/calibrations/{id_}"), 404)
    error_of(await ready.client.delete(f"/calibrations/{id_}"), 404)


async def test_a_question_is_answered_while_a_job_records(ready: Running) -> None:
    ready.engine.hold(8)
    await post(ready)
    await ready.engine.all_held.wait()
    ready.engine.held = 0
    assert (await ready.solve()).status_code == 200
    priorities = [generation.priority for generation in ready.engine.drawings]
    assert priorities.count(0) == 1, "the question's"
    assert set(priorities) == {0, 1}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the body holds no problem"),
        (lines(3) + b'{"problem": "x?"}\n', "the body, line 4: no answer"),
        (lines(3) + lines(1), "the body, line 4: the id 'p0' comes twice"),
        (lines(3) + b"\n{", "the body, line 5"),
        (lines(3) + b"\xff\n", "the body, line 4"),
        (lines(1, problem="a\x00b"), "the body, line 1: a text holds the character U+0000"),
        (b'{"problem": "\\ud800", "answer": 1}', "the body, line 1"),
        (b"[" * 100_000, "the body, line 1"),
        (lines(5), "5 problems or groups leave 5 to test on"),
        (lines(40) + b'{"id": "l", "problem": "%s", "answer": 1}' % (b"up " * 101), "problem 'l'"),
    ],
)
async def test_a_malformed_line_is_named(ready: Running, content: bytes, why: str) -> None:
    refused = error_of(await post(ready, content), 422)
    assert why in refused["detail"]
    assert refused["errors"][0]["field"] == "data"
    assert (await ready.client.get("/calibrations")).json() == {"calibrations": []}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"alphas": 1.5}, "alphas[0]"),
        ({"alphas": [0.1, 0.1]}, "alphas"),
        ({"alphas": "x"}, "alphas[0]"),
        ({"delta": 0}, "delta"),
        ({"delta": "nan"}, "delta"),
        ({"risk": "none"}, "risk"),
        ({"promise": "none"}, "promise"),
        ({"vote": "none"}, "vote"),
        ({"method": "none"}, "method"),
        ({"n": 65}, "n"),
        ({"n": 4, "rollouts": 3}, "rollouts"),
        ({"rollouts": 0}, "rollouts"),
        ({"rollouts": 10**6}, "rollouts"),
        ({"activate": "perhaps"}, "activate"),
        ({"average": "questions"}, "average"),
        ({"max_group_size": 0}, "max_group_size"),
        ({"extend": "cal_5f3a9c21d07e", "alphas": 0.1}, "alphas"),
        ({"replace": "571b667eda0c", "delta": 0.2}, "alphas"),
        ({"sequential": True, "method": "split"}, "method"),
        ({"average": "groups", "max_group_size": 3}, "max_group_size"),
        ({"by": "topic"}, "by"),
        ({"by": "kind"}, "by"),
        ({"by": "kind", "sequential": True}, "by"),
        ({"bounds": "much"}, "bounds"),
        ({"bounds": "declined=much"}, "bounds"),
        ({"bounds": "declined=1.5"}, "bounds"),
        ({"bounds": ["wrong", "wrong=0.1"]}, "bounds"),
        ({"bounds": "declined", "answered_at_least": 0.5}, "bounds"),
        ({"bounds": "lost", "risk": "regret"}, "bounds"),
        ({"bounds": "wrong", "sequential": True}, "bounds"),
        ({"answered_at_least": 1}, "answered_at_least"),
        ({"next": 0}, "next"),
        ({"next": 10, "sequential": True}, "next"),
        ({"alpha": 0.1}, "alpha"),
    ],
)
async def test_what_is_asked_must_be_possible(
    ready: Running, query: dict[str, Any], field: str
) -> None:
    refused = error_of(await post(ready, **query), 422)
    assert refused["errors"][0]["field"] == field


@pytest.mark.parametrize(("count", "query"), [(11, {"next": 10}), (16, {"by": "kind"}), (10, {})])
async def test_the_fewest_problems_are_counted_at_the_part_of_delta_that_the_levels_have(
    ready: Running, count: int, query: dict[str, Any]
) -> None:
    """Of delta = 0.1, the levels have 4/5 beside one statement, and all kinds together 1/4."""
    refused = error_of(await post(ready, of_kinds(count), **query), 422)
    assert f"takes at least {count + 1} " in refused["detail"]
    ready.engine.hold(8)
    assert (await post(ready, of_kinds(count + 1), **query)).status_code == 202


async def test_what_sequential_certificates_cannot_have_is_refused_with_the_reason(
    ready: Running,
) -> None:
    detail = error_of(await post(ready, by="kind", sequential=True), 422)["detail"]
    assert "known only once all problems have come. Leave out by, or leave out sequential" in detail


async def test_groups_of_unequal_size_are_refused_unless_it_is_said_how_they_count(
    ready: Running,
) -> None:
    ready.engine.hold(8)
    rows = [{"problem": f"Problem {n}", "answer": 7, "group": str(n // 2)} for n in range(40)]
    rows.append({"problem": "Problem 40", "answer": 7})
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    refused = error_of(await post(ready, content), 422)
    assert refused["errors"][0]["field"] == "max_group_size"
    assert "groups have 1 to 2 problems" in refused["detail"]
    for how in ({"max_group_size": 3}, {"average": "groups"}):
        job = (await post(ready, content, **how)).json()
        shown = {name: job["asked"][name] for name in ("average", "max_group_size")}
        assert shown == {"average": "problems", "max_group_size": None} | how


async def test_rollouts_are_as_many_as_samples_unless_said(ready: Running) -> None:
    ready.engine.hold(8)
    asked = [(await post(ready, n=4)).json(), (await post(ready, n=2, rollouts=6)).json()]
    assert [(job["asked"]["rollouts"], job["total"]) for job in asked] == [(4, 160), (6, 240)]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/vnd.apache.parquet"]
)
async def test_only_lines_are_taken(ready: Running, kind: str) -> None:
    """The first two are what any web page can send without asking."""
    refused = error_of(await post(ready, kind=kind), 415)
    assert "application/x-ndjson" in refused["detail"]


async def test_unknown_jobs_are_404(ready: Running) -> None:
    for method, path in (("GET", ""), ("GET", "/traces"), ("DELETE", "")):
        response = await ready.client.request(method, f"/calibrations/nobody{path}")
        assert "'nobody'" in error_of(response, 404)["detail"]


async def test_jobs_and_certificates_are_changed_by_administrators_only(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, auth="on")
    async with serving(*SCRIPTS, settings=settings) as running:
        keys = running.context.keys
        solve, admin = [
            {"authorization": f"Bearer {keys.create(scope, [scope])[0]}"}
            for scope in (Scope.SOLVE, Scope.ADMIN)
        ]
        reading = ["/certificates", "/certificates/x", "/calibrations", "/calibrations/x"]
        changing = [
            ("POST", "/certificates"),
            ("POST", "/certificates/x/activate"),
            ("POST", "/certificates/x/deactivate"),
            ("POST", "/calibrations"),
            ("DELETE", "/calibrations/x"),
            ("GET", "/calibrations/x/traces"),
        ]
        for path in reading:
            assert (await running.client.get(path)).status_code == 401
            assert (await running.client.get(path, headers=solve)).status_code in (200, 404)
        for method, path in changing:
            assert (await running.client.request(method, path)).status_code == 401
            refused = await running.client.request(method, path, headers=solve)
            assert "scope admin" in error_of(refused, 403)["detail"]
            allowed = await running.client.request(method, path, headers=admin)
            assert allowed.status_code in (404, 415)
        assert running.context.jobs.store.count()[JobState.QUEUED] == 0
