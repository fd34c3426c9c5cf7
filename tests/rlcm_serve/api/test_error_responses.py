"""Every error of this service has a type of its own that never changes, and a status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError

from calibration.errors import CalibrationError, CertificateError, InfeasibleAlpha, TraceError
from rlcm_serve import errors
from rlcm_serve.api.error_responses import KEY_REUSED, MOST_ERRORS, response_of
from rlcm_serve.errors import RlcmError
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import Running
from tests.rlcm_serve.scripted_engine import ScriptedEngine

ANSWERED: list[tuple[Exception, int, str]] = [
    (errors.EngineDead("it died"), 503, "engine-dead"),
    (errors.NotReady("starting"), 503, "not-ready"),
    (errors.WorkerFailed("it was killed"), 503, "worker-failed"),
    (errors.RequestRefused("alpha", "alpha is 2"), 422, "invalid-request"),
    (errors.Infeasible(0.01, 0.02, (0.05,), "none at 0.01"), 409, "infeasible-alpha"),
    (errors.OutOfTime(1.0), 504, "out-of-time"),
    (errors.BatchOutOfTime(1.0), 504, "out-of-time"),
    (errors.Overloaded(3, 7), 429, "overloaded"),
    (errors.EngineBusy("its queue is full"), 429, "overloaded"),
    (errors.TooManyAtOnce(3, 7), 429, "overloaded"),
    (errors.RateLimited("tokens", 600, 7.2), 429, "rate-limit-exceeded"),
    (errors.BodyTooLarge(10), 413, "body-too-large"),
    (errors.TooManyRollouts(10), 413, "body-too-large"),
    (errors.UnknownHost("evil.example"), 421, "unknown-host"),
    (errors.CrossOrigin("https://evil.example"), 403, "cross-origin"),
    (errors.AccessDenied("no key"), 401, "unauthenticated"),
    (errors.AccessDenied("another scope", known=True), 403, "forbidden"),
    (errors.NotFound("no such job"), 404, "not-found"),
    (errors.ModelNotFound("a", ["b"]), 404, "model-not-found"),
    (errors.NoReport("no traces"), 404, "no-report-data"),
    (errors.Conflict("it has ended"), 409, "conflict"),
    (errors.UnreadableJob("a1", ValueError("odd")), 409, "conflict"),
    (errors.NotRestoring("its delta is too large"), 409, "conflict"),
    (errors.StillRunning(), 409, "still-running"),
    (errors.KeyReused(), 422, "idempotency-key-reused"),
    (errors.CertificateMismatch("another engine"), 422, "certificate-mismatch"),
    (errors.SignatureRefused("not signed"), 422, "signature-refused"),
    (CalibrationError("delta is 2"), 422, "invalid-calibration"),
    (TraceError("row 3"), 422, "invalid-calibration"),
    (CertificateError("edited"), 422, "invalid-calibration"),
    (InfeasibleAlpha(0.01, "risk too high", None, 0.02), 422, "invalid-calibration"),
]
AT_START = {
    # They end the start, so that nobody is there to be answered; should one come later, it is a
    # mistake of ours and tells nothing of itself.
    errors.ModelRefused,
    errors.ProfileRefused,
    errors.UnsupportedVllm,
    errors.SettingsRefused,
}
HIDDEN = {
    errors.EvidenceUnavailable: "evidence-unavailable",
    errors.DatabaseRefused: "database-unavailable",
    errors.DatabaseBusy: "database-busy",
    errors.StorageFull: "storage-full",
}
NAMED = pytest.mark.parametrize(
    ("error", "status", "name"), ANSWERED, ids=[type(error).__name__ for error, _, _ in ANSWERED]
)


def kinds(base: type[Exception]) -> set[type[Exception]]:
    """All subclasses that our packages define, without those of commands, which answer nobody."""
    below = set(base.__subclasses__())
    ours = {
        kind
        for kind in below
        if kind.__module__.startswith(("rlcm_serve.", "calibration."))
        and not kind.__module__.startswith("rlcm_serve.commands.")
    }
    return ours.union(*map(kinds, below))


def test_every_error_is_either_answered_or_ends_the_start() -> None:
    known = {type(error) for error, _, _ in ANSWERED} | AT_START | {*HIDDEN}
    assert kinds(RlcmError) | kinds(CalibrationError) == known - {CalibrationError}


@pytest.mark.parametrize(("kind", "name"), HIDDEN.items())
def test_where_data_is_stored_stays_in_the_log(kind: type[errors.RlcmError], name: str) -> None:
    response = response_of("/certificates", kind("sqlite:////secret is locked"))
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    problem = json.loads(bytes(response.body))
    assert problem["type"] == f"urn:rlcm:problem:{name}"
    assert "secret" not in problem["detail"]


def test_a_client_that_must_wait_long_gets_a_new_connection() -> None:
    """By then the service may be closing the old one, and the request would be lost."""
    soon, late = (response_of("/solve", errors.Overloaded(3, wait)) for wait in (60, 61))
    assert "connection" not in soon.headers
    assert late.headers["connection"] == "close"


@NAMED
def test_an_error_response_has_a_stable_type(error: Exception, status: int, name: str) -> None:
    response = response_of("/solve", error)
    assert response.status_code == status
    assert response.media_type == "application/problem+json"
    problem = json.loads(bytes(response.body))
    assert problem["type"] == f"urn:rlcm:problem:{name}"
    assert problem["status"] == status
    assert problem["detail"] == str(error)
    assert problem["title"]
    waits = status in (429, 503) or name == "still-running"
    assert ("retry-after" in response.headers) == waits
    assert ("www-authenticate" in response.headers) == (status == 401)


@NAMED
def test_openai_clients_get_the_same_in_their_envelope(
    error: Exception, status: int, name: str
) -> None:
    response = response_of("/v1/chat/completions", error)
    assert response.status_code == (400 if status == 422 and name != KEY_REUSED else status)
    assert ("x-should-retry" in response.headers) == (
        status == 504 or (status == 409 and name != "still-running")
    )
    assert response.media_type == "application/json"
    told = json.loads(bytes(response.body))["error"]
    assert told.keys() >= {"message", "type", "param", "code"}
    assert told["message"] == str(error)
    assert told["code"] == name.replace("-", "_")
    assert told["rlcm"]["type"] == f"urn:rlcm:problem:{name}"
    assert told["rlcm"]["status"] == response.status_code


@pytest.mark.parametrize(("limit", "shown"), [(1.0, "1"), (0.25, "0.25"), (2_000_000, "2000000")])
def test_a_limit_is_written_as_people_do(limit: float, shown: str) -> None:
    fault = {"type": "less_than", "loc": ("body", "x"), "input": 3, "ctx": {"lt": limit}}
    told = json.loads(response_of("/solve", RequestValidationError([fault])).body)
    assert told["detail"] == f"x is 3: give less than {shown}"


def test_an_error_response_is_short_however_many_faults_a_body_has() -> None:
    faults: list[dict[str, Any]] = [
        {"type": "extra_forbidden", "loc": ("body", f"f{n}"), "msg": "no", "input": value}
        for n, value in enumerate((["x" * 10_000] * 100, {"y" * 10_000: 1}, "z" * 10_000, 5) * 500)
    ]
    faults[3]["loc"] = ("body", "n" * 10_000)
    response = response_of("/solve", RequestValidationError(faults))
    told = json.loads(response.body)
    assert len(told["errors"]) == MOST_ERRORS
    assert told["detail"].endswith(f"; and {2000 - MOST_ERRORS} more errors")
    assert told["errors"][7] == {"field": "f7", "value": "5", "message": "unknown: leave it out"}
    assert len(response.body) < 10_000


@pytest.mark.parametrize("kind", [*sorted(AT_START, key=str), KeyError, ZeroDivisionError])
def test_any_other_error_tells_nothing_of_itself(kind: type[Exception]) -> None:
    for path in ("/solve", "/v1/chat/completions"):
        response = response_of(path, kind("the secret at /home/me"))
        assert response.status_code == 500
        assert b"secret" not in bytes(response.body)


def test_the_description_has_a_place_for_every_status(tmp_path: Path) -> None:
    app = Running(ScriptedEngine(), tmp_path, [], Settings(state=tmp_path)).app
    paths: dict[str, Any] = app.openapi()["paths"]
    documented = {
        int(status)
        for path in paths.values()
        for operation in path.values()
        for status in operation["responses"]
        if status.isdigit()
    }
    assert {status for _, status, _ in ANSWERED} | {400, 415, 500} <= documented
