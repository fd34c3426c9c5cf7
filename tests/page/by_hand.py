"""Handmade responses for the page, in the service's format, for rare situations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Route

import rlcm_serve
from calibration.certificate.certificate import Certificate
from calibration.certificate.report_data import ReportData, report_data_path
from rlcm_serve.api.error_responses import response_of
from rlcm_serve.api.wire.certificates import CertificateBody
from rlcm_serve.api.wire.report_data import ReportBody
from rlcm_serve.store.certificates import KeptCertificate
from tests.page.visitor import Visitor

SHIPPED = Path(rlcm_serve.__file__).parent / "models/embedded/certificates"


def refuse(visitor: Visitor, path: str, error: Exception) -> None:
    """Makes every request for this path fail with this error."""
    response = response_of(f"/{path}", error)

    def answer(route: Route) -> None:
        route.fulfill(
            status=response.status_code, body=response.body, headers=dict(response.headers)
        )

    visitor.page.route(f"{visitor.url}/{path}", answer)


def tell(visitor: Visitor, path: str, body: Any) -> None:
    """Answers every request for this path with this response."""
    visitor.page.route(f"{visitor.url}/{path}", lambda route: route.fulfill(json=body))


def alter(visitor: Visitor, path: str, **changes: Any) -> None:
    """Replaces these fields in the service's responses for this path."""

    def answer(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | changes)

    visitor.page.route(f"{visitor.url}/{path}", answer)


def move_to_the_ends(visitor: Visitor, id_: str, closeness: float) -> None:
    """Moves λ1 and λ2 of every p-value map to within `closeness` of 0 and of 1."""

    def low(value: float | None) -> float | None:
        return None if value is None else value * closeness

    def high(value: float | None) -> float | None:
        return None if value is None else 1 - (1 - value) * closeness

    body = _report(id_)
    for shown in body["maps"]:
        shown["lambda_low"] = [low(value) for value in shown["lambda_low"]]
        shown["lambda_high"] = [high(value) for value in shown["lambda_high"]]
    tell(visitor, f"certificates/{id_}/report", body)


def spoil_level(visitor: Visitor, id_: str, reason: str) -> None:
    """Says of the first level of a certificate told by hand that it is not certified, and why."""
    body = _report(id_)
    none = dict.fromkeys(("calibration", "test", "policy", "lambda_low", "lambda_high"))
    body["levels"][0] |= none | {"certified": False, "reason": reason}
    tell(visitor, f"certificates/{id_}/report", body)


def _report(id_: str) -> dict[str, Any]:
    """The report of a shipped certificate, as the service sends it."""
    file = next(f for f in SHIPPED.glob("*.json") if Certificate.load(f).id == id_)
    kept = KeptCertificate(Certificate.load(file), file.stem, added=None, active=True, misfit=None)
    report = ReportData.load(report_data_path(file))
    body: dict[str, Any] = ReportBody.of(kept, report, kept.certificate.fingerprint).model_dump(
        mode="json"
    )
    return body


def tell_shipped(
    visitor: Visitor, *names: str, withdrawn: str | None = None, refusal: str | None = None
) -> list[str]:
    """Lists these certificates of the embedded model, with reports; returns their ids.

    `withdrawn` says why their promise is, `refusal` why they must not be served and are not active;
    None if they are not.
    """
    bodies = []
    for name in names:
        file = SHIPPED / f"{name}.json"
        made = Certificate.load(file)
        kept = KeptCertificate(
            made,
            name,
            added=None,
            active=refusal is None,
            misfit=None,
            withdrawn=withdrawn,
            refusal=refusal,
        )
        body = CertificateBody.from_kept(kept, engine_known=True).model_dump(mode="json")
        body["profiles"] = ["default"]
        shown = ReportBody.of(
            kept, ReportData.load(report_data_path(file)), kept.certificate.fingerprint
        )
        tell(visitor, f"certificates/{body['id']}/report", shown.model_dump(mode="json"))
        bodies.append(body)
    budget = bodies[0]["procedure"]["max_tokens"]
    tell(visitor, "certificates", {"certificates": bodies, "max_tokens": budget})
    return [str(body["id"]) for body in bodies]
