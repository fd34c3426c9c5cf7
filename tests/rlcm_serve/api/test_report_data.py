"""`/certificates/{id}/report` over HTTP, against the whole app."""

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from calibration import Certificate, ExitReason, certify, read_traces, write_traces
from calibration.certificate.report_data import EXIT_EDGES, old_report_data_path, report_data_path
from calibration.report.build_data import build_report_data
from calibration.traces.table import Reading, Rollout
from rlcm_serve.settings import Settings
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.caller import Scope as AccessScope
from tests.rlcm_serve.api.serving import Running, detail_of, serving, starting
from tests.rlcm_serve.scripted_engine import IDENTITY

pytestmark = pytest.mark.anyio


def rollouts(count: int, name: str, seed: int) -> list[Rollout]:
    """Answers that are right with a chance that is their confidence."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        shown = rng.random(3) ** 0.25
        right = rng.random(3) < shown
        readings = tuple(
            Reading(at, float(c), "7" if ok else "8", int(not ok), 3, bool(ok))
            for at, c, ok in zip((16, 32, 40), shown, right, strict=True)
        )
        made.append(Rollout(f"{name}{number}", 0, ExitReason.NATURAL, readings[:-1], readings[-1]))
    return made


class Fitted:
    """A certificate of the scripted engine in a file, and its traces."""

    def __init__(self, folder: Path) -> None:
        self.file, self.traces, self.test = (
            folder / name for name in ("one.json", "t.parquet", "test.parquet")
        )
        write_traces(self.traces, rollouts(200, "p", 1), fingerprint_of(IDENTITY))
        write_traces(self.test, rollouts(80, "q", 2), fingerprint_of(IDENTITY))
        self.certificate = certify(read_traces(self.traces), alphas=(0.01, 0.3, 0.4))
        self.certificate.save(self.file)

    def save_report_data(self) -> None:
        made = build_report_data(self.certificate, read_traces(self.traces), read_traces(self.test))
        made.save(report_data_path(self.file))


@pytest.fixture
def fitted(tmp_path: Path) -> Fitted:
    return Fitted(tmp_path)


async def read(running: Running, certificate: Certificate) -> httpx.Response:
    return await running.client.get(f"/certificates/{certificate.id}/report")


def missing(response: httpx.Response) -> str:
    detail = detail_of(response, 404, "no-report-data")
    assert "`rlcm report-data`" in detail
    return detail


async def test_it_has_what_the_certificate_says_and_what_was_seen(fitted: Fitted) -> None:
    fitted.save_report_data()
    async with serving(certificates=[fitted.file]) as running:
        response = await read(running, fitted.certificate)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    made = fitted.certificate
    assert (found["id"], found["active"], found["fits"], found["misfit"]) == (
        made.id,
        True,
        True,
        None,
    )
    assert (found["withdrawn"], found["voided"]) == (None, None)
    assert found["covers"] == made.covers
    assert found["does_not_cover"] == list(made.does_not_cover)
    assert found["fingerprint"] == fingerprint_of(IDENTITY).to_json()
    assert found["engine_fingerprint"] == found["fingerprint"]
    assert (found["calibration"]["n_problems"], found["test"]["n_problems"]) == (
        made.n_problems,
        80,
    )
    assert [level["alpha"] for level in found["levels"]] == [0.01, 0.3, 0.4]
    none, *_, last = found["levels"]
    assert (none["certified"], none["policy"], none["calibration"]) == (False, None, None)
    assert none["reason"]
    assert last["certified"]
    assert last["policy"] == made.levels[-1].policy.to_scalars()  # type: ignore[union-attr]
    for part, problems in (("calibration", made.n_problems), ("test", 80)):
        figures = last[part]
        assert figures["risk_low"] <= figures["risk"] <= figures["risk_high"]
        assert sum(figures["exits"].values()) == sum(figures["confidence"]) == problems
        share = figures["tokens"] / figures["full_budget_tokens"]
        assert figures["tokens_share"] == pytest.approx(share, rel=1e-3)
    assert last["calibration"]["risk"] == pytest.approx(made.levels[-1].risk, rel=1e-3)  # type: ignore[union-attr]
    assert found["confidence_edges"] == list(EXIT_EDGES)
    shown = found["maps"][-1]
    assert len(shown["p_values"]) == len(shown["lambda_high"])
    assert {len(row) for row in shown["p_values"]} == {len(shown["lambda_low"])}
    assert shown["chosen"]["lambda_high"] == pytest.approx(last["lambda_high"], rel=1e-5)
    assert any(one["certified"] for one in shown["tested"])
    assert found["reliability"]["on_test"] is True
    assert found["reliability"]["final"]["n_readings"] == 80
    assert set(found["captions"]) == {"risk", "tokens", "p_values", "reliability"}


async def test_while_the_engine_starts_nothing_is_said_of_it(
    fitted: Fitted, tmp_path: Path
) -> None:
    settings = Settings(state=tmp_path)
    fitted.save_report_data()
    async with starting(certificates=[fitted.file], settings=settings) as running:
        running.context.certificates.add(fitted.certificate, "test")
        assert "it was neither fitted" in missing(await read(running, fitted.certificate))
        await running.until_settled()
        found = (await read(running, fitted.certificate)).json()
        assert found["engine_fingerprint"] is not None
        running.engine.kill()
        assert (await read(running, fitted.certificate)).status_code == 200


@pytest.mark.slow
async def test_without_one_it_is_said_how_to_have_one(fitted: Fitted) -> None:
    async with serving(certificates=[fitted.file]) as running:
        detail = missing(await read(running, fitted.certificate))
        assert "it was neither fitted nor recomputed from traces here" in detail
        files = {
            "certificate": ("c.json", json.dumps(fitted.certificate.to_json()).encode()),
            "traces": ("t.parquet", fitted.traces.read_bytes()),
        }
        uploaded = await running.client.post("/certificates", files=files)
        assert uploaded.status_code == 201, uploaded.text
        found = (await read(running, fitted.certificate)).json()
        assert found["calibration"]["n_problems"] == fitted.certificate.n_problems
        assert found["test"] is None
        assert found["reliability"]["on_test"] is False


async def test_a_file_that_cannot_be_used_is_none(fitted: Fitted, tmp_path: Path) -> None:
    file = report_data_path(fitted.file)
    file.parent.mkdir()
    other = certify(read_traces(fitted.test), alphas=(0.4,))
    build_report_data(other, read_traces(fitted.test)).save(file)
    async with serving(certificates=[fitted.file]) as running:
        assert "belongs to another certificate" in missing(await read(running, fitted.certificate))
        file.write_text("{")
        detail = missing(await read(running, fitted.certificate))
        assert "not JSON" in detail
        assert str(tmp_path) not in detail
        fitted.save_report_data()
        assert (await read(running, fitted.certificate)).status_code == 200


async def test_an_unknown_certificate_has_none(fitted: Fitted) -> None:
    async with serving() as running:
        response = await running.client.get("/certificates/nobody/report")
    assert response.status_code == 404
    assert response.json()["type"] == "urn:rlcm:problem:not-found"


async def test_it_takes_a_key_as_questions_do(fitted: Fitted, tmp_path: Path) -> None:
    fitted.save_report_data()
    settings = Settings(state=tmp_path, auth="on")
    async with serving(certificates=[fitted.file], settings=settings) as running:
        assert (await read(running, fitted.certificate)).status_code == 401
        key, _ = running.context.keys.create("reader", [AccessScope.SOLVE])
        response = await running.client.get(
            f"/certificates/{fitted.certificate.id}/report", headers={"x-api-key": key}
        )
        assert response.status_code == 200


async def test_the_names_of_earlier_releases_still_answer(fitted: Fitted) -> None:
    fitted.save_report_data()
    report_data_path(fitted.file).parent.rename(old_report_data_path(fitted.file).parent)
    async with serving(certificates=[fitted.file]) as running:
        found = await read(running, fitted.certificate)
        assert found.status_code == 200, found.text
        before = await running.client.get(f"/certificates/{fitted.certificate.id}/exhibit")
        assert (before.status_code, before.json()) == (200, found.json())
        assert "/certificates/{id}/exhibit" not in running.app.openapi()["paths"]
