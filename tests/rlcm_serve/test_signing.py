"""Signatures on certificates: the published vectors of DSSE, keys in files, the commands."""

import json
import shutil
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from calibration import Certificate, ExitPolicy
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.errors import SignatureRefused
from rlcm_serve.signing import (
    PAYLOAD_TYPE,
    Envelope,
    TrustedKeys,
    envelope_path,
    key_id,
    load_envelope,
    load_signing_key,
    sign,
    write_key_pair,
)
from rlcm_serve.solving.guarantees import find_certificates
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import certificate

SHIPPED = find_certificates(EMBEDDED_MODEL)[0]
ONE = certificate({0.1: ExitPolicy(lambda_high=0.9)})
OTHER = certificate({0.2: ExitPolicy(lambda_high=0.9)})
# Key A of the vectors in testvectors/vectors.json of secure-systems-lab/dsse: TEST 1 of RFC 8032.
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
IN_TOTO = "application/vnd.in-toto+json"
STATEMENT = "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEifQ=="
SIGNATURE = (
    "2WAfaHm5jluo0w+0rk8uVkluELJYWjSmU9x7EUzx+AyteDGJ4/nqyJXfmAUVFIAoQafWm7AxBZNw5M9ixNHiCA=="
)
VECTORS = {
    "single-signature": (STATEMENT, IN_TOTO, SIGNATURE, True),
    "url-safe-base64": (
        "-_-_Pj8=",
        IN_TOTO,
        "P-_KHICeR7tI6S_YyejJTRtrXhcQyQ2LYPaL8h90KjC9qN8HU_svOQ6TuDOT1HIrsGW886DbWNWcCmX5twLrAw==",
        True,
    ),
    "non-ascii-payload-type": (
        STATEMENT,
        "application/vnd.exämple+json",
        "xmSk/ug66ysT7ayhkCIjhAq42zgZXSsEWuzUaNL7w2eGAdF/NU6/fRXPtmfN+5DNSAs5/i2lUnHjbbjPsu0tAw==",
        True,
    ),
    "empty-payload": (
        "",
        IN_TOTO,
        "gSggCAaTLTYyRH6FIDBem6meyIynsYy8RTHVzwx9tnTb7Bg/1jMWnuVgI/gffqmbsC2VX5/jHfkkDqsj7CDbDg==",
        True,
    ),
    "payload-type-swapped": (STATEMENT, "application/vnd.example.other+json", SIGNATURE, False),
}


def enveloped(payload: str, kind: str, *signatures: str) -> str:
    listed = [{"keyid": "A", "sig": one} for one in signatures]
    return json.dumps({"payload": payload, "payloadType": kind, "signatures": listed, "x": 1})


@pytest.mark.parametrize("name", VECTORS)
def test_the_published_vectors_of_dsse(name: str) -> None:
    payload, kind, signature, good = VECTORS[name]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC))
    assert Envelope.from_text(enveloped(payload, kind, signature)).is_signed_by(key) is good
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SEED))
    assert private.public_key() == key


def test_what_is_signed_is_the_encoding_that_the_specification_shows() -> None:
    envelope = Envelope(b"hello world", "http://example.com/HelloWorld", ())
    shown = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert envelope.signed_bytes == shown


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '"x"', enveloped("*", IN_TOTO, SIGNATURE), enveloped(STATEMENT, IN_TOTO, "!"),
     enveloped(STATEMENT, IN_TOTO, *[SIGNATURE] * 17),
     '{"payload": 1, "payloadType": "x", "signatures": []}', "[" * 100_000, b"\xff"],
)  # fmt: skip
def test_what_is_no_envelope_is_refused(text: str | bytes) -> None:
    with pytest.raises(SignatureRefused, match="is not a DSSE envelope"):
        Envelope.from_text(text)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    write_key_pair(tmp_path / "signing.pem")
    return tmp_path / "signing.pem"


def trusted(*files: Path) -> TrustedKeys:
    return TrustedKeys.load([file.with_suffix(".pub.pem") for file in files])


def test_a_signature_counts_for_its_certificate_and_its_key_alone(
    key: Path, tmp_path: Path
) -> None:
    write_key_pair(tmp_path / "stranger.pem")
    envelope = Envelope.from_text(sign(ONE, load_signing_key(key)).to_text())
    assert envelope == sign(ONE, load_signing_key(key))
    id_ = key_id(load_signing_key(key).public_key())
    assert trusted(key).signer_of(ONE, envelope) == id_
    assert trusted(tmp_path / "stranger.pem", key).signer_of(ONE, envelope) == id_
    with pytest.raises(SignatureRefused, match=f"is for certificate {ONE.id}, not for {OTHER.id}"):
        trusted(key).signer_of(OTHER, envelope)
    with pytest.raises(SignatureRefused, match="is not signed by a trusted key"):
        trusted(tmp_path / "stranger.pem").signer_of(ONE, envelope)
    with pytest.raises(SignatureRefused, match="trusted: none: set trusted_keys"):
        TrustedKeys().signer_of(ONE, envelope)


def test_every_changed_bit_of_the_envelope_is_seen(key: Path) -> None:
    envelope = sign(ONE, load_signing_key(key))
    (signature,) = envelope.signatures
    for place in (0, 31, 63):
        bad = bytes(byte ^ (at == place) for at, byte in enumerate(signature))
        with pytest.raises(SignatureRefused, match="not signed by a trusted key"):
            trusted(key).signer_of(ONE, Envelope(envelope.payload, PAYLOAD_TYPE, (bad, b"")))
    for changed in (
        Envelope(envelope.payload, "application/json", envelope.signatures),
        Envelope(envelope.payload + b" ", PAYLOAD_TYPE, envelope.signatures),
    ):
        with pytest.raises(SignatureRefused):
            trusted(key).signer_of(ONE, changed)


def test_the_digest_of_the_payload_is_the_certificates(key: Path) -> None:
    shipped = Certificate.load(SHIPPED)
    envelope = sign(shipped, load_signing_key(key))
    assert Certificate.from_json(
        {**json.loads(envelope.payload), "id": shipped.id, "digest": shipped.digest}
    ) == shipped  # fmt: skip


def test_only_the_owner_reads_the_private_key(key: Path) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    with pytest.raises(SignatureRefused, match="exists: give another name"):
        write_key_pair(key)
    assert key.read_bytes() == before


def test_what_is_no_key_is_refused(key: Path, tmp_path: Path) -> None:
    public = key.with_suffix(".pub.pem")
    (tmp_path / "empty.pem").touch()
    for path in (public, tmp_path / "empty.pem", tmp_path / "nowhere.pem"):
        with pytest.raises(SignatureRefused, match="is no Ed25519 private key"):
            load_signing_key(path)
    for path in (key, tmp_path / "empty.pem", tmp_path / "nowhere.pem"):
        with pytest.raises(SignatureRefused, match="is no Ed25519 public key"):
            TrustedKeys.load([path])


def test_to_demand_a_signature_takes_a_key_to_trust() -> None:
    with pytest.raises(SignatureRefused, match="require_signature is on and trusted_keys is empty"):
        TrustedKeys.load([], required=True)


def test_from_a_new_key_to_a_verified_signature(rlcm: Rlcm) -> None:
    shutil.copy(SHIPPED, "c.json")
    before, id_ = Path("c.json").read_bytes(), Certificate.load(SHIPPED).id
    verify = "verify c.json --public-key signing.pub.pem"
    status, out, _ = rlcm("keys new-signing-key --out signing.pem")
    assert status == 0
    name = out.split()[2].rstrip(":")
    status, _, err = rlcm(verify)
    assert status == 1
    assert "there is no signature at c.dsse.json" in err
    status, out, _ = rlcm("keys sign c.json --key signing.pem")
    assert (status, out) == (0, f"certificate {id_} is signed with key {name}: c.dsse.json\n")
    assert Path("c.json").read_bytes() == before
    status, out, _ = rlcm(verify)
    assert status == 0
    assert out.startswith(f"certificate {id_}: signed by key {name}\n")

    assert rlcm("keys new-signing-key --out stranger.pem")[0] == 0
    status, out, err = rlcm("verify c.json --public-key stranger.pub.pem")
    assert (status, out) == (1, "")
    assert f"certificate {id_} is not signed by a trusted key" in err
    status, _, err = rlcm("verify c.json")
    assert status == 2
    assert "give traces, or --public-key" in err
    status, out, err = rlcm("verify c.json t.parquet --signature c.dsse.json")
    assert (status, out) == (1, ""), "nothing would check it"
    assert "--signature is c.dsse.json" in err
    assert "give --public-key" in err


def test_a_signature_file_is_not_taken_for_a_certificate(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    ONE.save(folder / "one.json")
    envelope_path(folder / "one.json").write_text("{}")
    assert find_certificates(tmp_path) == (folder / "one.json",)
    with pytest.raises(SignatureRefused, match="is not a DSSE envelope"):
        load_envelope(envelope_path(folder / "one.json"))
