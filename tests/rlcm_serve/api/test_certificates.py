"""`/certificates` over HTTP, against the whole app."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from calibration import (
    Certificate,
    ExitPolicy,
    ExitReason,
    certify,
    read_traces,
    verify,
    write_traces,
)
from calibration.traces.table import Reading, Rollout
from rlcm_serve.settings import Settings
from rlcm_serve.signing import load_signing_key, sign, write_key_pair
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.api.serving import Running, detail_of, serving, starting
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate
from tests.rlcm_serve.store.test_restoring import withdraw

EARLY = ExitPolicy(lambda_high=0.9)
ONE = certificate({0.05: None, 0.1: EARLY})
BETTER = certificate({0.05: EARLY, 0.1: EARLY})


@pytest.fixture
async def ready(tmp_path: Path) -> AsyncIterator[Running]:
    """Served under ONE, from a file."""
    ONE.save(tmp_path / "one.json")
    async with serving(certificates=[tmp_path / "one.json"]) as running:
        yield running


async def listed(running: Running) -> dict[str, dict[str, Any]]:
    response = await running.client.get("/certificates")
    assert response.status_code == 200
    return {one["id"]: one for one in response.json()["certificates"]}


async def upload(running: Running, made: Certificate) -> httpx.Response:
    return await running.client.post("/certificates", json=made.to_json())


async def test_active_certificates_are_listed_with_all_fields(ready: Running) -> None:
    (one,) = (await listed(ready)).values()
    assert one["id"] == ONE.id
    assert (one["active"], one["fits"], one["misfit"]) == (True, True, None)
    assert (one["withdrawn"], one["voided"], one["average"]) == (None, None, "problems")
    assert (one["origin"], one["added"], one["created"]) == ("file one.json", None, None)
    assert one["procedure"] == {"n": 1, "vote": "confidence", "max_tokens": 96}
    assert (one["risk"], one["promise"], one["delta"]) == ("selective", "simultaneous", 0.1)
    assert one["does_not_cover"] == list(ONE.does_not_cover)
    assert one["fingerprint"] == fingerprint_of(IDENTITY).to_json()
    infeasible, certified = one["levels"]
    assert (infeasible["certified"], infeasible["reason"]) == (False, "risk too high: 9 of 50")
    assert (infeasible["policy"], infeasible["risk"]) == (None, None)
    assert (certified["certified"], certified["reason"]) == (True, None)
    assert certified["policy"] == EARLY.to_scalars()
    assert (certified["expected_tokens"], certified["full_budget_tokens"]) == (200.0, 400.0)


async def test_the_list_has_the_budget_of_a_plain_question(ready: Running) -> None:
    found = (await ready.client.get("/certificates")).json()
    assert found["max_tokens"] == IDENTITY.budget.thinking


async def test_an_active_certificate_of_other_numbers_says_that_it_is_void(tmp_path: Path) -> None:
    fitted = replace(fingerprint_of(IDENTITY), dtype="bfloat16")
    certificate({0.1: EARLY}, fingerprint=fitted).save(tmp_path / "one.json")
    async with serving(certificates=[tmp_path / "one.json"]) as running:
        (one,) = (await listed(running)).values()
    assert (one["active"], one["fits"], one["misfit"]) == (True, True, None)
    assert "the certified value is bfloat16" in one["voided"]


async def test_a_certificate_is_returned_as_it_was_saved(ready: Running, tmp_path: Path) -> None:
    response = await ready.client.get(f"/certificates/{ONE.id}")
    assert response.status_code == 200
    (tmp_path / "again.json").write_bytes(response.content)
    assert Certificate.load(tmp_path / "again.json") == ONE


async def test_an_upload_is_kept_and_served_once_activated(ready: Running) -> None:
    response = await upload(ready, BETTER)
    assert response.status_code == 201
    assert response.headers["location"] == f"/certificates/{BETTER.id}"
    body = response.json()
    assert (body["id"], body["active"], body["origin"]) == (BETTER.id, False, "upload")
    assert body["added"].endswith("+00:00")
    assert (await ready.solve(alpha=0.05)).status_code == 409

    activated = await ready.client.post(f"/certificates/{BETTER.id}/activate")
    assert activated.status_code == 200
    assert activated.json()["active"] is True
    assert {id_ for id_, one in (await listed(ready)).items() if one["active"]} == {BETTER.id}
    answer = (await ready.solve(alpha=0.05)).json()
    assert answer["guarantee"]["certificate"] == BETTER.id

    ended = await ready.client.post(f"/certificates/{BETTER.id}/deactivate")
    assert (ended.status_code, ended.json()["active"]) == (200, False)
    assert (await ready.solve()).json()["guarantee"]["certificate"] == ONE.id
    again = await ready.client.post(f"/certificates/{BETTER.id}/deactivate")
    assert "is not active" in detail_of(again, 409, "conflict")


async def test_who_leaves_while_the_rehearsal_is_read_has_activated_nothing(
    ready: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upload(ready, BETTER)
    read, left = asyncio.Event(), asyncio.Event()

    async def slow_levels(*_: Any) -> Any:
        read.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("rlcm_serve.api.routes.certificates.levels_of", slow_levels)
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        pass

    path = f"/certificates/{BETTER.id}/activate"
    address = {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": ""}
    scope = {"type": "http", "method": "POST", "scheme": "http", "http_version": "1.1"}
    hosts = {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 9), "server": None}
    asked = asyncio.create_task(ready.app(scope | address | hosts, receive, send))
    async with asyncio.timeout(60):
        await read.wait()
        left.set()
        await asyncio.wait({asked})
    assert (await listed(ready))[BETTER.id]["active"] is False


async def test_a_second_upload_changes_nothing(ready: Running) -> None:
    await upload(ready, BETTER)
    await ready.client.post(f"/certificates/{BETTER.id}/activate")
    response = await upload(ready, BETTER)
    assert (response.status_code, response.json()["active"]) == (201, True)
    assert len(await listed(ready)) == 2


async def test_the_last_of_many_activations_is_the_one_that_is_served(ready: Running) -> None:
    made = [certificate({0.1: EARLY, 0.2 + number / 100: EARLY}) for number in range(6)]
    for one in made:
        await upload(ready, one)
    responses = await asyncio.gather(
        *(ready.client.post(f"/certificates/{one.id}/activate") for one in made)
    )
    assert {response.status_code for response in responses} == {200}
    (stored,) = [id_ for id_, one in (await listed(ready)).items() if one["active"]]
    (served,) = ready.service.guarantees.certificates
    assert served.id == stored


def edited() -> dict[str, Any]:
    return BETTER.to_json() | {"delta": 0.001}


@pytest.mark.parametrize(
    ("content", "name", "why"),
    [
        (json.dumps(edited()), "invalid-request", "does not match its digest"),
        (json.dumps(BETTER.to_json() | {"version": 1}), "invalid-request", "version 1 is unknown"),
        ("{}", "invalid-request", "not a certificate"),
        ("[]", "invalid-request", "not a certificate"),
        ("{", "invalid-request", "not JSON"),
        ("\xff", "invalid-request", "not JSON"),
        ("[" * 100_000, "invalid-request", "not JSON"),
        (
            json.dumps(
                certificate(
                    {0.1: EARLY}, fingerprint=fingerprint_of(replace(IDENTITY, model="m1"))
                ).to_json()
            ),
            "certificate-mismatch",
            "model: 'm1' here, 'm0' there",
        ),
        (
            json.dumps(certificate({0.1: EARLY}, fingerprint=None).to_json()),
            "certificate-mismatch",
            "not servable",
        ),
        (
            json.dumps(certificate({0.1: EARLY}, risk="my own").to_json()),
            "certificate-mismatch",
            "is for the risk 'my own'",
        ),
    ],
)
async def test_a_certificate_of_another_engine_is_refused(
    ready: Running, content: str, name: str, why: str
) -> None:
    response = await ready.client.post(
        "/certificates",
        content=content.encode("latin-1"),
        headers={"content-type": "application/json"},
    )
    assert why in detail_of(response, 422, name)
    assert set(await listed(ready)) == {ONE.id}


async def test_a_forged_certificate_is_refused(ready: Running) -> None:
    """Alpha .001 with p = .9 and a digest that fits was once accepted, activated and served."""
    (_, level) = BETTER.levels
    forged = replace(BETTER, levels=(replace(level, alpha=0.001, p_value=0.9),))
    detail = detail_of(await upload(ready, forged), 422, "invalid-request")
    assert "contradicts itself: levels[0].p_value is 0.9, and must be 0.999739" in detail
    assert set(await listed(ready)) == {ONE.id}


def recorded(folder: Path) -> tuple[bytes, Certificate]:
    """Traces of the scripted engine, and their certificate."""
    rollouts = [
        Rollout(
            f"p{number}",
            0,
            ExitReason.NATURAL,
            (Reading(16, 0.95, "7", 0, 3, number % 20 > 0),),
            Reading(30, 0.97, "7", 0, 5, True),
        )
        for number in range(60)
    ]
    write_traces(folder / "t.parquet", rollouts, fingerprint_of(IDENTITY))
    traces = read_traces(folder / "t.parquet")
    made = certify(traces, alphas=(0.2,))
    assert verify(made, traces) == []
    return (folder / "t.parquet").read_bytes(), made


async def with_traces(running: Running, made: Certificate, traces: bytes) -> httpx.Response:
    files = {
        "certificate": ("c.json", json.dumps(made.to_json()).encode()),
        "traces": ("t.parquet", traces),
    }
    return await running.client.post("/certificates", files=files)


@pytest.mark.slow
async def test_with_its_traces_every_figure_is_recomputed(ready: Running, tmp_path: Path) -> None:
    traces, made = recorded(tmp_path)
    response = await with_traces(ready, made, traces)
    assert response.status_code == 201, response.text
    assert response.json()["origin"] == "upload, recomputed from its traces"
    assert response.json()["verified"] == "traces"

    (level,) = made.levels
    forged = replace(made, levels=(replace(level, expected_tokens=1.0),), created="2026-01-12")
    detail = detail_of(await with_traces(ready, forged, traces), 422, "invalid-request")
    assert "alpha 0.2: expected_tokens is 1.0 in the certificate, 35.0 from the traces" in detail
    detail = detail_of(await with_traces(ready, made, b"PAR1"), 422, "invalid-request")
    assert "traces.parquet is not Parquet" in detail
    assert set(await listed(ready)) == {ONE.id, made.id}


@pytest.mark.parametrize(
    "place", ["api.uploads.NamedTemporaryFile", "jobs.fitting.TemporaryDirectory"]
)
async def test_where_no_file_can_be_created_the_disk_is_full(
    ready: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    traces, made = recorded(tmp_path)

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"rlcm_serve.{place}", full)
    detail = detail_of(await with_traces(ready, made, traces), 503, "storage-full")
    assert "no space is left on the disk" in detail


@pytest.fixture
async def demanding(tmp_path: Path) -> AsyncIterator[Running]:
    """Demands signatures of the key in signing.pem; ONE is there as a file, without one."""
    write_key_pair(tmp_path / "signing.pem")
    ONE.save(tmp_path / "one.json")
    settings = Settings(
        state=tmp_path / "state",
        trusted_keys=[tmp_path / "signing.pub.pem"],
        require_signature=True,
    )
    async with serving(certificates=[tmp_path / "one.json"], settings=settings) as running:
        yield running


async def with_signature(running: Running, made: Certificate, signature: str) -> httpx.Response:
    files = {
        "certificate": ("c.json", json.dumps(made.to_json()).encode()),
        "signature": ("c.dsse.json", signature.encode()),
    }
    return await running.client.post("/certificates", files=files)


async def test_a_service_that_demands_signatures_serves_nothing_else(
    demanding: Running, tmp_path: Path
) -> None:
    client = demanding.client
    assert (await client.get("/readyz")).status_code == 200
    shown = (await client.get("/overview")).json()
    assert (shown["certificates"], shown["unsigned"]) == ([], [ONE.id])
    answer = (await demanding.solve()).json()
    assert answer["guarantee"] is None
    assert "demands signed certificates" in answer["no_guarantee_reason"]
    assert "has no signature" in (await listed(demanding))[ONE.id]["refusal"]
    for refused in (
        await upload(demanding, BETTER),
        await client.post(f"/certificates/{ONE.id}/activate"),
        await client.post(f"/certificates/{ONE.id}/activate", params={"dry_run": True}),
    ):
        assert "has no signature" in detail_of(refused, 422, "signature-refused")

    key = load_signing_key(tmp_path / "signing.pem")
    write_key_pair(tmp_path / "stranger.pem")
    stranger = load_signing_key(tmp_path / "stranger.pem")
    for signature, why in [
        (sign(BETTER, stranger).to_text(), "not signed by a trusted key"),
        (sign(ONE, key).to_text(), f"is for certificate {ONE.id}"),
        ("{}", "is not a DSSE envelope"),
    ]:
        response = await with_signature(demanding, BETTER, signature)
        assert why in detail_of(response, 422, "signature-refused")
    assert set(await listed(demanding)) == {ONE.id}

    response = await with_signature(demanding, BETTER, sign(BETTER, key).to_text())
    assert response.status_code == 201, response.text
    assert (response.json()["verified"], response.json()["refusal"]) == ("signature", None)
    assert (await client.post(f"/certificates/{BETTER.id}/activate")).status_code == 200
    answer = (await demanding.solve()).json()
    assert answer["guarantee"]["verified"] == "signature"
    (served,) = (await client.get("/overview")).json()["certificates"]
    assert (served["id"], served["verified"]) == (BETTER.id, "signature")


async def test_a_signature_for_an_active_certificate_reaches_its_answers(tmp_path: Path) -> None:
    write_key_pair(tmp_path / "signing.pem")
    ONE.save(tmp_path / "one.json")
    trusted = Settings(state=tmp_path / "state", trusted_keys=[tmp_path / "signing.pub.pem"])
    async with serving(certificates=[tmp_path / "one.json"], settings=trusted) as running:
        assert (await running.solve()).json()["guarantee"]["verified"] == "none"
        signature = sign(ONE, load_signing_key(tmp_path / "signing.pem")).to_text()
        assert (await with_signature(running, ONE, signature)).status_code in (200, 201)
        async with asyncio.timeout(30):
            while (await running.solve()).json()["guarantee"]["verified"] != "signature":  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_a_dry_run_is_refused_where_activation_is(ready: Running) -> None:
    store = ready.context.certificates
    elsewhere = certificate({0.1: EARLY}, fingerprint=fingerprint_of(replace(IDENTITY, model="m1")))
    store.add(elsewhere, "upload")
    store.add(BETTER, "upload")
    await ready.client.post(f"/certificates/{ONE.id}/activate")
    withdraw(ready.context.database, ONE)
    for made, status in ((elsewhere, 422), (BETTER, 409)):
        path = f"/certificates/{made.id}/activate"
        dry = await ready.client.post(path, params={"dry_run": True})
        done = await ready.client.post(path)
        assert (dry.status_code, done.status_code) == (status, status), dry.text
        assert dry.json()["detail"] == done.json()["detail"]
    dry = await ready.client.post("/certificates/nothing/activate", params={"dry_run": True})
    assert dry.status_code == 404


async def test_a_signature_that_nobody_here_can_check_is_refused(
    ready: Running, tmp_path: Path
) -> None:
    write_key_pair(tmp_path / "signing.pem")
    signature = sign(BETTER, load_signing_key(tmp_path / "signing.pem")).to_text()
    response = await with_signature(ready, BETTER, signature)
    detail = detail_of(response, 422, "signature-refused")
    assert "trusted: none: set trusted_keys" in detail


async def test_every_guarantee_says_how_its_figures_were_verified(ready: Running) -> None:
    assert (await ready.solve()).json()["guarantee"]["verified"] == "none"
    ready.context.certificates.add(BETTER, "job cal_1", recomputed=True)
    await ready.client.post(f"/certificates/{BETTER.id}/activate")
    assert (await ready.solve()).json()["guarantee"]["verified"] == "traces"
    assert (await listed(ready))[BETTER.id]["verified"] == "traces"


async def test_a_form_may_hold_the_certificate_alone(ready: Running) -> None:
    content = json.dumps(BETTER.to_json()).encode()
    response = await ready.client.post("/certificates", files={"certificate": ("c", content)})
    assert response.status_code == 201


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"traces": ("t", b"PAR1")}, "has no certificate"),
        ({"certificate": ("c", b"{}"), "trace": ("t", b"PAR1")}, "the form has ['trace']"),
        ({"certificate": ("c", b"{}")}, "not a certificate"),
        ({"certificate": ("c", b"{}"), "traces": (None, b"text")}, "traces is not a file"),
    ],
)
async def test_a_form_must_be_one(
    ready: Running, files: dict[str, tuple[str | None, bytes]], why: str
) -> None:
    response = await ready.client.post("/certificates", files=files)
    assert why in detail_of(response, 422, "invalid-request")


async def test_only_json_and_forms_are_taken(ready: Running) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        response = await ready.client.post(
            "/certificates", content=b"{}", headers={"content-type": kind}
        )
        assert kind in detail_of(response, 415, "unsupported-media-type")
    broken = {"content-type": "multipart/form-data; boundary=x"}
    response = await ready.client.post("/certificates", content=b"--y", headers=broken)
    assert response.status_code in (400, 422)
    broken = {"content-type": "multipart/form-data"}
    response = await ready.client.post("/certificates", content=b"--y", headers=broken)
    assert "boundary" in detail_of(response, 400, "bad-request")


async def test_unknown_certificates_are_404(ready: Running) -> None:
    for method, path in (("GET", ""), ("POST", "/activate"), ("POST", "/deactivate")):
        response = await ready.client.request(method, f"/certificates/nobody{path}")
        assert "'nobody'" in detail_of(response, 404, "not-found")


async def test_while_the_engine_starts_nothing_says_what_fits(tmp_path: Path) -> None:
    ONE.save(tmp_path / "one.json")
    async with starting(certificates=[tmp_path / "one.json"]) as running:
        assert await listed(running) == {}
        detail_of(await upload(running, BETTER), 503, "not-ready")
        response = await running.client.post(f"/certificates/{ONE.id}/activate")
        detail_of(response, 503, "not-ready")
        await running.until_settled()
        assert set(await listed(running)) == {ONE.id}
