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


def tell_shipped(visitor: Visitor, *names: str) -> list[str]:
    """Lists these certificates of the embedded model, with reports; returns their ids."""
    bodies = []
    for name in names:
        file = SHIPPED / f"{name}.json"
        kept = KeptCertificate(Certificate.load(file), name, added=None, active=True, misfit=None)
        body = CertificateBody.from_kept(kept, engine_known=True).model_dump(mode="json")
        shown = ReportBody.of(
            kept, ReportData.load(report_data_path(file)), kept.certificate.fingerprint
        )
        tell(visitor, f"certificates/{body['id']}/report", shown.model_dump(mode="json"))
        bodies.append(body)
    tell(visitor, "certificates", {"certificates": bodies})
    return [str(body["id"]) for body in bodies]
