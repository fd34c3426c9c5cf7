"""Certificates that were made up, sent by whoever has got an administrator's key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from calibration import Certificate
from calibration.certificate.certificate import _digest
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.signing import load_signing_key, sign, write_key_pair
from rlcm_serve.solving.guarantees import find_certificates
from tests.attack.target import Target, attacked

pytestmark = pytest.mark.attack

SELECTIVE = next(one for one in find_certificates(EMBEDDED_MODEL) if one.stem == "selective-1")


def forged(**changes: Any) -> dict[str, Any]:
    """A real certificate whose smallest certified level says something else, with a digest."""
    content: dict[str, Any] = json.loads(SELECTIVE.read_text())
    content["levels"] = [content["levels"][2] | changes]
    content["tested"]["weights"] = content["tested"]["weights"][:1]
    content = {name: value for name, value in content.items() if name not in ("id", "digest")}
    digest = _digest(content)
    return {**content, "id": digest[:12], "digest": digest}


def post(target: Target, path: str, **sent: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {target.admin}"}
    return httpx.post(f"{target.service.url}{path}", headers=headers, timeout=60, **sent)


@pytest.mark.parametrize(
    "changes",
    [
        {"alpha": 0.001, "p_value": 0.9},
        {"alpha": 0.001, "p_value": 1e-9},
        {"alpha": 0.001, "p_value": 1e-9, "risk": 0.0001, "total_loss": 0.105},
        {"p_value": -1.0},
        {"p_value": "0"},
        {"risk_upper": 0.0},
        {"total_weight": 10**400},
        {"policy": {"lambda_high": 0.0001}},
    ],
)
def test_a_level_that_no_data_support_is_refused(target: Target, changes: dict[str, Any]) -> None:
    made = forged(**changes)
    with target.watched() as watch:
        refused = post(target, "/certificates", json=made)
        activated = post(target, f"/certificates/{made['id']}/activate")
    assert (refused.status_code, activated.status_code) == (422, 404), refused.text
    watch.require_a_free_loop()


def test_a_huge_certificate_or_signature_does_not_hold_the_loop(target: Target) -> None:
    many = forged()
    many["tested"]["policies"] *= 200
    padded = json.dumps(many) + " " * 2**24
    envelope = {"payload": "", "payloadType": "", "signatures": [{"sig": "A" * 88}] * 100_000}
    files = {"certificate": json.dumps(forged()), "signature": json.dumps(envelope)}
    with target.watched() as watch:
        for content in (json.dumps(many), padded):
            headers = {"content-type": "application/json"}
            refused = httpx.post(
                f"{target.service.url}/certificates",
                headers=headers | {"Authorization": f"Bearer {target.admin}"},
                content=content,
                timeout=60,
            )
            assert refused.status_code == 422
        assert post(target, "/certificates", files=files).status_code == 422
    watch.require_a_free_loop()


@pytest.fixture(scope="module")
def demanding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Path]]:
    """A service that demands signatures, and the private key that it trusts."""
    folder = tmp_path_factory.mktemp("demanding")
    key = folder / "signing.pem"
    public, _ = write_key_pair(key)
    with attacked(folder, "--trusted-key", str(public), "--require-signature") as running:
        yield running, key


def test_without_a_trusted_signature_nothing_is_served(
    demanding: tuple[Target, Path], tmp_path: Path
) -> None:
    target, key = demanding
    write_key_pair(tmp_path / "stranger.pem")
    shipped = Certificate.load(SELECTIVE)
    content = json.dumps(shipped.to_json())
    stranger = sign(shipped, load_signing_key(tmp_path / "stranger.pem"))

    def guarantee(up: int) -> Any:
        # Asked once, and like the calibration problems: others have no guarantee anyhow.
        problem = f"A dial shows 3. A up {up}. B down 3. C up 9. D up 4. What does it show now?"
        body = json.dumps({"problem": problem, "alpha": 0.1}).encode()
        return target.send(body).json()["guarantee"]

    assert guarantee(4) is None
    for files in (
        {"certificate": content},
        {"certificate": content, "signature": stranger.to_text()},
        {"certificate": content, "signature": "{}"},
    ):
        refused = post(target, "/certificates", files=files)
        assert refused.json()["type"] == "urn:rlcm:problem:signature-refused"
    assert post(target, f"/certificates/{shipped.id}/activate").status_code == 422
    assert guarantee(5) is None

    signature = sign(shipped, load_signing_key(key)).to_text()
    files = {"certificate": content, "signature": signature}
    assert post(target, "/certificates", files=files).status_code == 201
    assert post(target, f"/certificates/{shipped.id}/activate").status_code == 200
    assert guarantee(6)["verified"] == "signature"
