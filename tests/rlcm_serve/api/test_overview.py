"""`/overview` over HTTP, against the whole app."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from calibration import ExitPolicy
from calibration.certificate.report_data import ReportData
from rlcm_serve.api import overview as overview_module
from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.settings import Settings
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.caller import Caller
from rlcm_serve.store.caller import Scope as AccessScope
from rlcm_serve.store.job import CalibrationRequest
from tests.rlcm_serve.api.serving import PATIENCE, Running, serving, starting
from tests.rlcm_serve.api.test_report_data import Fitted
from tests.rlcm_serve.jobs.problem_engine import problems
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, certificate

pytestmark = pytest.mark.anyio

EARLY = ExitPolicy(lambda_high=0.9)
ONE = certificate({0.05: None, 0.1: EARLY, 0.2: EARLY})
SURE = Script(confidences=(0.5, 0.97))


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    ONE.save(tmp_path / "one.json")
    async with serving(SURE, certificates=[tmp_path / "one.json"]) as running:
        yield running


async def overview(running: Running) -> dict[str, Any]:
    response = await running.client.get("/overview")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_certificates_may_change_while_the_figures_are_read(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, read = running.context.service, overview_module._read

    def changing(*args: Any) -> Any:
        service.use(Guarantees(service.guarantees.identities, []))
        return read(*args)

    monkeypatch.setattr(overview_module, "_read", changing)
    async with running.context.certificates.changing:  # nothing puts them back in between
        assert [one["id"] for one in (await overview(running))["certificates"]] == [ONE.id]
        assert (await overview(running))["certificates"] == []


async def test_before_the_first_question_everything_is_there(running: Running) -> None:
    found = await overview(running)
    assert (found["model"], found["version"]) == ("scripted", version("rlcm-serve"))
    assert found["engine"] == {
        "state": "ready",
        "detail": "ready",
        "ready": True,
        "restarts": 0,
        "requests": 0,
    }
    assert found["requests"] == {"in_flight": 1}
    assert found["queue"] == {
        "running": 0,
        "running_limit": 64,
        "waiting": 0,
        "waiting_limit": 256,
        "drain_per_second": None,
    }
    assert found["questions"]["answered"] == found["questions"]["failed"] == 0
    assert found["saved"]["share"] is None
    assert found["exits"] == dict.fromkeys(("high", "low", "natural", "budget", "cancelled"), 0)
    assert (found["jobs"], found["jobs_error"]) == ([], None)
    assert found["may_administer"] is True
    assert 0 < found["uptime_s"] < 60
    assert found["time"].endswith("+00:00")


async def test_its_counts_are_those_of_the_metrics(running: Running) -> None:
    for alpha in (0.1, 0.1, 0.2, 0.15):
        assert (await running.solve(alpha=alpha)).status_code == 200
    assert (await running.solve(alpha=0.05)).status_code == 409
    assert (await running.solve(seed=1)).status_code == 200
    found = await overview(running)
    page = (await running.client.get("/metrics")).text
    metrics = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert found["questions"] == {
        "answered": 5,
        "abstained": 0,
        "failed": 1,
        "guaranteed": 4,
        "unguaranteed": 1,
        "failures": {"infeasible": 1},
    }
    assert found["tokens"] == {kind: metrics["rlcm_tokens_total", kind] for kind in found["tokens"]}
    assert found["tokens"]["reasoning"] == 5 * 32
    assert found["exits"]["high"] == metrics["rlcm_exits_total", "high"] == 5
    saved, over = (metrics[f"rlcm_tokens_{kind}_total",] for kind in ("saved", "over"))
    full = metrics["rlcm_full_budget_tokens_total",]
    assert found["saved"] == {
        "full_budget_tokens": full,
        "saved_tokens": saved,
        "over_tokens": over,
        "share": (saved - over) / full,
    }
    assert full == 4 * 400
    (shown,) = found["certificates"]
    levels = {level["alpha"]: level["questions"] for level in shown["levels"]}
    assert levels == {0.05: 0, 0.1: 3, 0.2: 1}
    assert metrics["rlcm_certified_questions_total", *sorted(["0.1", ONE.id, "answered"])] == 3


async def test_active_certificates_say_what_to_expect(running: Running) -> None:
    (shown,) = (await overview(running))["certificates"]
    assert (shown["id"], shown["n"], shown["vote"]) == (ONE.id, 1, "confidence")
    assert (shown["max_tokens"], shown["has_report"]) == (96, False)
    infeasible, certified, _ = shown["levels"]
    assert (infeasible["certified"], infeasible["expected_tokens"]) == (False, None)
    assert infeasible["share_abstained"] is None
    assert (certified["expected_tokens"], certified["full_budget_tokens"]) == (200.0, 400.0)
    assert certified["share_abstained"] == pytest.approx(0.4)
    assert (certified["risk"], certified["risk_upper"]) == (0.01, pytest.approx(0.0256, abs=1e-4))


async def test_confidences_are_counted_from_the_first_bin_to_the_last(running: Running) -> None:
    await running.solve()
    found = (await overview(running))["confidence"]
    assert len(found["edges"]) == len(found["now"]) + 1 == 21
    assert sum(found["now"]) == 1
    assert found["now"][-1] == 1, "0.97 is in (0.95, 1]"
    assert (found["comparable"], found["calibration"]) == (None, None)


async def test_beside_them_is_what_calibration_gave_under_the_same_levels(
    tmp_path: Path,
) -> None:
    fitted = Fitted(tmp_path)
    fitted.save_report_data()
    async with serving(SURE, certificates=[fitted.file]) as running:
        report_data: ReportData = running.context.certificates.report(fitted.certificate.id)
        for alpha in (0.3, 0.4, 0.4, 0.4):
            assert (await running.solve(alpha=alpha)).status_code == 200
        assert (await running.solve(alpha=0.4, seed=1)).status_code == 200
        found = await overview(running)
    (shown,) = found["certificates"]
    assert shown["has_report"]
    served = {level["alpha"]: level["questions"] for level in shown["levels"]}
    assert sum(served.values()) == 4
    expected = [0.0] * 20
    for alpha, questions in served.items():
        counts = report_data.confidence_at(alpha)
        if questions and counts:
            for place, count in enumerate(counts):
                expected[place] += questions * count / sum(counts) / 4
    assert found["confidence"]["calibration"] == pytest.approx(expected)
    assert sum(expected) == pytest.approx(1)
    assert sum(found["confidence"]["now"]) == 5
    assert sum(found["confidence"]["comparable"]) == 4, "the fifth has no guarantee"


async def test_a_question_under_way_is_seen(running: Running) -> None:
    running.engine.hold(1)
    asking = asyncio.create_task(running.solve())
    await asyncio.wait_for(running.engine.all_held.wait(), 5)
    found = await overview(running)
    assert found["queue"]["running"] == 1
    assert found["engine"]["requests"] == 1
    assert found["requests"]["in_flight"] == 2
    asking.cancel()
    await asyncio.wait({asking})


async def test_every_state_of_the_engine_has_its_word(tmp_path: Path) -> None:
    async with starting() as running:
        found = await overview(running)
        assert (found["engine"]["state"], found["engine"]["ready"]) == ("starting", False)
        assert found["certificates"] == []
        await running.until_settled()
        assert (await overview(running))["engine"]["state"] == "ready"
        running.engine.kill()
        assert (await overview(running))["engine"]["state"] == "restarting"
        running.context.admission.close()
        assert (await overview(running))["engine"]["state"] == "stopping"
    async with starting() as running:
        running.engine.dead = True
        await running.until_settled()
        found = await overview(running)
        assert found["engine"]["state"] == "failed"
        assert found["engine"]["detail"] == "failed to start: the log says why"


async def test_the_latest_jobs_are_told_of_with_their_last_lines(running: Running) -> None:
    store = CalibrationStore(running.context.database)
    for number in range(12):
        job = store.create(f"cal_{number}", CalibrationRequest(), problems(3))
        for line in range(15):
            store.log(job, f"line {line} of {number}")
    jobs = (await overview(running))["jobs"]
    assert [job["id"] for job in jobs] == [f"cal_{number}" for number in range(11, 1, -1)]
    assert (jobs[0]["state"], jobs[0]["done"], jobs[0]["total"]) == ("queued", 0, 3)
    assert [line["text"] for line in jobs[0]["log"]] == [
        f"line {line} of 11" for line in range(5, 15)
    ]


async def test_a_job_that_waits_says_why(running: Running) -> None:
    fitted_on = fingerprint_of(replace(IDENTITY, model="m1"))
    store = running.context.jobs.store
    store.create("cal_x", CalibrationRequest(), problems(60), None, None, fitted_on)
    async with asyncio.timeout(PATIENCE):
        while (job := (await running.client.get("/calibrations/cal_x")).json())["error"] is None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    (told,) = (await overview(running))["jobs"]
    assert (told["state"], told["error"]) == ("queued", job["error"])


async def test_without_the_database_the_rest_is_told(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(jobs: int, lines: int, caller: Caller) -> None:
        raise DatabaseRefused("sqlite:////secret is locked")

    monkeypatch.setattr(running.context.jobs.store, "latest", refuse)
    found = await overview(running)
    assert found["jobs"] == []
    assert "the database cannot be reached" in found["jobs_error"]
    assert "secret" not in found["jobs_error"]
    assert found["engine"]["state"] == "ready"


async def test_it_takes_a_key_as_questions_do(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, auth="on")) as running:
        refused = await running.client.get("/overview")
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"
        key, _ = running.context.keys.create("reader", [AccessScope.SOLVE])
        response = await running.client.get("/overview", headers={"x-api-key": key})
        assert response.status_code == 200


async def test_who_polls_it_fills_no_log(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "rlcm_serve.access"):
        await overview(running)
        await running.client.get("/page/examples.json")
        await running.client.get("/")
    levels = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert levels == [
        ("DEBUG", "GET /overview 200"),
        ("DEBUG", "GET /page/{path:path} 200"),
        ("INFO", "GET / 200"),
    ]
