"""`/certificates`: lists, uploads, activates and deactivates certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from rlcm_serve.api.access import keyed, require_admin, require_solve
from rlcm_serve.api.ask import while_connected
from rlcm_serve.api.context import Context, ContextOfApp
from rlcm_serve.api.routes.parameters import CertificateOfPath
from rlcm_serve.api.routes.rehearsals import body_of, levels_of
from rlcm_serve.api.uploads import uploaded_certificate
from rlcm_serve.api.wire.certificates import CertificateBody, CertificateList, json_body
from rlcm_serve.api.wire.monitoring.rehearsals import ActivationBody
from rlcm_serve.api.wire.report_data import ReportBody
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import NotReady
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.jobs.fitting import require_verified
from rlcm_serve.profiles.profile import DEFAULT_NAME
from rlcm_serve.solving.fingerprints import nearest_identity, profiles_of, served_like
from rlcm_serve.store.activation import activate, deactivate, require_activable
from rlcm_serve.store.evidence import RECOMPUTED_UPLOAD

router = APIRouter(tags=["certificates"])

_EXAMPLE = {"format": "rlcm-certificate", "version": 2, "id": "571b667eda0c", "levels": []}
_WHOLE: dict[int | str, dict[str, Any]] = {
    200: json_body(
        "The complete certificate, as `rlcm fit` saves it and `rlcm verify` reads it.", [_EXAMPLE]
    )
}
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            **json_body("A certificate as `rlcm fit` saves it.", [_EXAMPLE])["content"],
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "description": "A certificate and, optionally, the traces it was fitted on and "
                    "its signature.",
                    "required": ["certificate"],
                    "additionalProperties": False,
                    "properties": {
                        "certificate": {
                            "type": "string",
                            "format": "binary",
                            "description": "The certificate, a JSON file.",
                            "examples": ["{}"],
                        },
                        "traces": {
                            "type": "string",
                            "format": "binary",
                            "description": "The traces it was fitted on, a Parquet file.",
                            "examples": ["PAR1"],
                        },
                        "signature": {
                            "type": "string",
                            "format": "binary",
                            "description": "A signature of the certificate: NAME.dsse.json, as "
                            "`rlcm keys sign` writes it.",
                            "examples": ["{}"],
                        },
                    },
                }
            },
        },
    }
}


@router.get("/certificates", **keyed(require_solve))
async def list_certificates(context: ContextOfApp) -> CertificateList:
    """Lists all certificates of the service, active or not."""
    identities = _identities(context)
    kept = await context.database.threads.read(context.certificates.all, identities)
    plain = next((one for one in identities or () if one.profile.name == DEFAULT_NAME), None)
    return CertificateList(
        certificates=[CertificateBody.from_kept(one, identities is not None) for one in kept],
        max_tokens=None if plain is None else plain.budget.thinking,
    )


@router.get(
    "/certificates/{id}",
    response_class=JSONResponse,
    **keyed(require_solve, 404, responses=_WHOLE),
)
async def read_certificate(id_: CertificateOfPath, context: ContextOfApp) -> Response:
    """Returns a complete certificate, as `rlcm fit` saves it and `rlcm verify` reads it."""
    certificate = await context.database.threads.read(context.certificates.get, id_)
    return JSONResponse(certificate.to_json())


@router.get("/certificates/{id}/report", response_model=ReportBody, **keyed(require_solve, 404))
@router.get(  # its name up to release 0.1
    "/certificates/{id}/exhibit",
    include_in_schema=False,
    deprecated=True,
    **keyed(require_solve),
)
async def read_report_data(id_: CertificateOfPath, context: ContextOfApp) -> Response:
    """Returns measurements for judging a certificate: risk, tokens, p-values, reliability."""
    identities = _identities(context)
    report = await context.database.threads.read(context.certificates.report, id_)
    kept = await context.database.threads.read(context.certificates.kept, id_, identities)
    fitted = kept.certificate.fingerprint
    served = None
    if identities is not None and fitted is not None:
        served = served_like(fitted, nearest_identity(fitted, identities))
    body = ReportBody.of(kept, report, served)
    # Sent directly: FastAPI would validate these thousands of numbers a second time.
    return Response(body.model_dump_json(), media_type="application/json")


@router.post(
    "/certificates",
    status_code=201,
    openapi_extra=_UPLOAD,
    **keyed(require_admin, 408, 413, 415, 503),
)
async def upload_certificate(
    request: Request, response: Response, context: ContextOfApp
) -> CertificateBody:
    """Stores a certificate without activating it.

    Its digest and version must be valid and its fingerprint must match the engine. If its traces
    are uploaded too, the service recomputes every figure from them, refuses the certificate if one
    differs, and computes its report data. If its signature is uploaded too, it must be of a key
    that the service trusts. A service that demands signatures refuses a certificate without one.
    """
    identities, store = context.service.guarantees.identities, context.certificates
    report = None
    async with uploaded_certificate(request) as upload:
        certificate, traces, signature = upload.certificate, upload.traces, upload.signature
        profiles_of(certificate, identities)  # refuses one that fits none
        if signature is not None:
            await asyncio.to_thread(store.trusted.signer_of, certificate, signature)
        else:
            await context.database.threads.read(store.require_signature, certificate)
        if traces is not None:
            async with context.recomputing:
                limits = FitLimits.of(context.settings)
                report = await require_verified(certificate, traces, limits)
    origin = "upload" if traces is None else RECOMPUTED_UPLOAD
    await context.database.threads.write(
        store.add,
        certificate,
        origin,
        report,
        recomputed=traces is not None,
        envelope=signature,
    )
    response.headers["Location"] = f"/certificates/{certificate.id}"
    return await _body(context, certificate.id)


@router.post("/certificates/{id}/activate", **keyed(require_admin, 404, 409, 503))
async def activate_certificate(
    id_: CertificateOfPath,
    context: ContextOfApp,
    request: Request,
    dry_run: Annotated[
        bool,
        Query(
            description="Change nothing: only show the certificate, or refuse it as its activation "
            "would be refused.",
            examples=[False],
        ),
    ] = False,
) -> ActivationBody:
    """Activates a certificate. It replaces the active one for the same kind of question.

    The response has what its rehearsal says. With `dry_run` it says so first, and nothing changes.
    """
    await require_activable(context.certificates, context.service, id_)
    # Before anything changes: who leaves while it is computed has activated nothing.
    levels = await while_connected(request, levels_of(context, id_))
    if not dry_run:
        await activate(context.certificates, context.service, [id_])
    rehearsal = await body_of(context, id_, levels)
    body = await _body(context, id_)
    return ActivationBody(**dict(body), activated=not dry_run, rehearsal=rehearsal)


@router.post("/certificates/{id}/deactivate", **keyed(require_admin, 404, 409, 503))
async def deactivate_certificate(id_: CertificateOfPath, context: ContextOfApp) -> CertificateBody:
    """Deactivates a certificate. A certificate shipped with the model takes over, if any."""
    await deactivate(context.certificates, context.service, id_)
    return await _body(context, id_)


async def _body(context: Context, id_: str) -> CertificateBody:
    identities = _identities(context)
    kept = await context.database.threads.read(context.certificates.kept, id_, identities)
    return CertificateBody.from_kept(kept, identities is not None)


def _identities(context: Context) -> Sequence[EngineIdentity] | None:
    try:
        return context.service.guarantees.identities
    except NotReady:
        return None
