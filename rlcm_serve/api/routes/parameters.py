"""Parameters that several routes take."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from rlcm_serve.api.wire.terms import CERTIFICATE_TEXT

CertificateOfPath = Annotated[
    str, Path(alias="id", description=CERTIFICATE_TEXT, examples=["571b667eda0c"])
]
