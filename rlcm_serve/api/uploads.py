"""Reads uploads: certificates and their traces, labelled problems."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, SpooledTemporaryFile
from typing import IO

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from calibration.certificate.certificate import Certificate
from calibration.errors import CertificateError
from rlcm_serve.api.media import JSON, NDJSON, media_type, unsupported
from rlcm_serve.errors import RequestRefused
from rlcm_serve.own_files import scratch
from rlcm_serve.recording.problems import LabelledProblem, parse_problems
from rlcm_serve.signing import Envelope
from rlcm_serve.store.connection.faults import storing

LINES = (NDJSON, "application/jsonl", JSON, "application/octet-stream")
LARGEST_CERTIFICATE = 16 * 2**20
"""Bytes of a certificate or a signature; those of `certify` have a hundredth of this."""
LONGEST_PROBLEM = 2**20
"""Bytes of a line with a labelled problem."""
MOST_LINES = 50_000
"""Lines of an upload of labelled problems."""
_IN_MEMORY = 8 * 2**20
"""Bytes of an upload that are not put on disk."""
_FORM = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class UploadedCertificate:
    """A certificate, and what came with it: the file of its traces, its signature."""

    certificate: Certificate
    traces: Path | None = None
    signature: Envelope | None = None


@asynccontextmanager
async def uploaded_certificate(request: Request) -> AsyncIterator[UploadedCertificate]:
    """The certificate in a request, with its traces and its signature if the request has them.

    Raises:
        RequestRefused: a part is missing, unknown or no certificate.
        StorageFull: the disk has no space for the parts.
        HTTPException: 415, the body is neither JSON nor a form; 400, the form is broken.
    """
    kind = media_type(request)
    if kind == JSON:
        body = await _small_body(request)
        yield UploadedCertificate(await asyncio.to_thread(parse_certificate, body))
    elif kind == _FORM:
        with storing():  # the form's files are on disk
            await request.form(max_files=3, max_fields=3)
        async with request.form() as form:
            if odd := sorted(set(form) - {"certificate", "traces", "signature"}):
                raise RequestRefused(
                    "body", f"the form has {odd}: give certificate, traces and signature"
                )
            content, signature = await _text(form, "certificate"), await _envelope(form)
            if content is None:
                raise RequestRefused("certificate", "the form has no certificate: attach one")
            traces = form.get("traces")
            if traces is not None and not isinstance(traces, UploadFile):
                raise RequestRefused("traces", "traces is not a file: attach a Parquet file")
            certificate = await asyncio.to_thread(parse_certificate, content)
            if traces is None:
                yield UploadedCertificate(certificate, signature=signature)
                return
            with storing():
                copy = NamedTemporaryFile(suffix=".parquet", dir=scratch())  # noqa: SIM115
            with copy as file:
                with storing():
                    await asyncio.to_thread(shutil.copyfileobj, traces.file, file)
                    await asyncio.to_thread(file.flush)
                yield UploadedCertificate(certificate, Path(file.name), signature)
    else:
        raise unsupported(request, JSON, _FORM)


async def _small_body(request: Request) -> bytes:
    """The body of a request that is a certificate; a large one is not even read."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        _require_small("certificate", size)
        parts.append(part)
    return b"".join(parts)


def _require_small(name: str, size: int) -> None:
    if size > LARGEST_CERTIFICATE:
        raise RequestRefused(
            name, f"the {name} has {size} bytes or more: give at most {LARGEST_CERTIFICATE}"
        )


async def _text(form: FormData, name: str) -> str | bytes | None:
    """A part of the form, sent as a file or as a field; None if there is none."""
    sent = form.get(name)
    if not isinstance(sent, UploadFile):
        return sent
    _require_small(name, sent.size or 0)
    return await sent.read()


async def _envelope(form: FormData) -> Envelope | None:
    sent = await _text(form, "signature")
    return None if sent is None else await asyncio.to_thread(Envelope.from_text, sent)


def parse_certificate(content: bytes | str) -> Certificate:
    """The certificate of this JSON.

    Raises:
        RequestRefused: it is not a certificate, has another version, was edited, contradicts
            itself, or is too large to be one.
    """
    _require_small("certificate", len(content))
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(
            "certificate", f"not JSON ({error}): send the file that `rlcm fit` saved"
        ) from error
    try:
        return Certificate.from_json(value)
    except (CertificateError, AttributeError) as error:
        raise RequestRefused("certificate", str(error)) from error


async def uploaded_problems(
    request: Request, on_bytes: Callable[[bytes], object] = len
) -> list[LabelledProblem]:
    """The labelled problems in the lines of a request; `on_bytes` gets its body as it comes.

    Raises:
        RequestRefused: a line is malformed or an id comes twice; the message names the line.
        StorageFull: the disk has no space for the lines.
        HTTPException: 415, the content type is not JSON Lines.
    """
    if media_type(request) not in LINES:
        raise unsupported(request, LINES[0])
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        async for chunk in request.stream():
            on_bytes(chunk)
            with storing():
                file.write(chunk)
        file.seek(0)
        return await asyncio.to_thread(parse_problems, _short_lines(file), "the body")


def _short_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of an upload; a long one would be parsed in one go, while all else waits."""
    number = 0
    while line := file.readline(LONGEST_PROBLEM + 1):
        number += 1
        if number > MOST_LINES:
            raise RequestRefused("data", f"the body has over {MOST_LINES} lines: send fewer")
        if len(line) > LONGEST_PROBLEM:
            raise RequestRefused(
                "data", f"the body, line {number}: give at most {LONGEST_PROBLEM} bytes"
            )
        yield line
