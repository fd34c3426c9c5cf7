"""Signatures on certificates: Ed25519 in a DSSE envelope (github.com/secure-systems-lab/dsse).

A signature says that the holder of a key vouches for a certificate. It says nothing about whether
the figures are right; see `calibration.certificate.verify` for that.

The envelope of `NAME.json` is `NAME.dsse.json` beside it. Its payload is the certificate in its
canonical form, so the SHA-256 of the payload is the certificate's digest, and neither the file nor
its digest changes by being signed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from calibration.certificate.certificate import Certificate
from calibration.files import write_text
from rlcm_serve.errors import SignatureRefused

PAYLOAD_TYPE = "application/vnd.rlcm.certificate+json"
SUFFIX = ".dsse.json"
MOST_SIGNATURES = 16
"""In an envelope; each is checked against every trusted key."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A DSSE envelope: a payload, its type, and signatures over both.

    Key ids are neither read nor written: they are hints that nobody has signed.
    """

    payload: bytes
    payload_type: str
    signatures: tuple[bytes, ...]

    @property
    def signed_bytes(self) -> bytes:
        """What is signed: the pre-authentication encoding of type and payload."""
        kind = self.payload_type.encode()
        parts = b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(self.payload), self.payload
        return b" ".join(parts)

    def to_text(self) -> str:
        """The envelope as JSON."""
        signatures = [{"sig": base64.b64encode(one).decode()} for one in self.signatures]
        payload = base64.b64encode(self.payload).decode()
        plain = {"payload": payload, "payloadType": self.payload_type, "signatures": signatures}
        return json.dumps(plain, indent=2) + "\n"

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """The envelope in this JSON; unknown fields are ignored, as the specification asks.

        Raises:
            SignatureRefused: it is no DSSE envelope.
        """
        try:
            values: Any = json.loads(text)
            if len(values["signatures"]) > MOST_SIGNATURES:
                raise ValueError(f"over {MOST_SIGNATURES} signatures")
            return cls(
                payload=_from_base64(values["payload"]),
                payload_type=str(values["payloadType"]),
                signatures=tuple(_from_base64(one["sig"]) for one in values["signatures"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise SignatureRefused(
                f"the signature is not a DSSE envelope ({type(error).__name__}: {error}): send the "
                f"file NAME{SUFFIX} that `rlcm keys sign` wrote"
            ) from error

    def is_signed_by(self, key: Ed25519PublicKey) -> bool:
        """Whether one of the signatures is of this key."""
        for signature in self.signatures:
            try:
                key.verify(signature, self.signed_bytes)
            except InvalidSignature:
                continue
            return True
        return False

    def require_certificate(self, certificate: Certificate) -> None:
        """Returns if the payload is this certificate.

        Raises:
            SignatureRefused: the payload is of another type, or is another certificate.
        """
        if self.payload_type != PAYLOAD_TYPE:
            raise SignatureRefused(
                f"the envelope holds {self.payload_type!r}, not {PAYLOAD_TYPE!r}: sign the "
                "certificate with `rlcm keys sign`"
            )
        found = hashlib.sha256(self.payload).hexdigest()
        if found != certificate.digest:
            raise SignatureRefused(
                f"the signature is for certificate {found[:12]}, not for {certificate.id}: sign "
                "this one with `rlcm keys sign`"
            )


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The public keys whose signatures count, by id, and whether every certificate needs one."""

    keys: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)
    required: bool = False

    @classmethod
    def load(cls, files: Iterable[Path], required: bool = False) -> Self:
        """The keys in these PEM files.

        Raises:
            SignatureRefused: a file cannot be read or is no Ed25519 public key, or a signature is
                demanded and there is no key.
        """
        keys = [_load_public_key(file) for file in files]
        if required and not keys:
            raise SignatureRefused(
                "require_signature is on and trusted_keys is empty, so no certificate could be "
                "served: name the public keys to trust"
            )
        return cls({key_id(key): key for key in keys}, required)

    def signer_of(self, certificate: Certificate, envelope: Envelope) -> str:
        """The id of a trusted key that signed this certificate.

        Raises:
            SignatureRefused: the envelope is for another certificate, or no trusted key signed it.
        """
        envelope.require_certificate(certificate)
        for id_, key in self.keys.items():
            if envelope.is_signed_by(key):
                return id_
        trusted = ", ".join(self.keys) or "none: set trusted_keys"
        raise SignatureRefused(
            f"certificate {certificate.id} is not signed by a trusted key (trusted: {trusted}): "
            "sign it with a trusted key, or trust the key it was signed with"
        )


NO_KEYS = TrustedKeys()
"""Trusts nobody and demands nothing."""


def sign(certificate: Certificate, key: Ed25519PrivateKey) -> Envelope:
    """A DSSE envelope around this certificate."""
    return enveloped(certificate.canonical_bytes(), PAYLOAD_TYPE, key)


def enveloped(payload: bytes, kind: str, key: Ed25519PrivateKey | None) -> Envelope:
    """A DSSE envelope around this payload; without a key it has no signature."""
    unsigned = Envelope(payload, kind, ())
    if key is None:
        return unsigned
    return replace(unsigned, signatures=(key.sign(unsigned.signed_bytes),))


def envelope_path(certificate: Path) -> Path:
    """The file of a certificate file's envelope."""
    return certificate.with_suffix(SUFFIX)


def load_envelope(path: Path) -> Envelope:
    """The envelope in a file.

    Raises:
        SignatureRefused: there is no such file, or it is no DSSE envelope.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SignatureRefused(
            f"there is no signature at {path} ({error}): sign the certificate with `rlcm keys sign`"
        ) from error
    return Envelope.from_text(text)


def key_id(key: Ed25519PublicKey) -> str:
    """A name for a public key: the first 16 hexadecimal digits of the SHA-256 of its bytes."""
    raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def write_key_pair(path: Path) -> tuple[Path, str]:
    """Makes a signing key; only the user can read its file. Overwrites nothing.

    Returns:
        The file of the public key, NAME.pub.pem beside NAME.pem, and the id of the key.

    Raises:
        SignatureRefused: one of the files exists, or cannot be written.
    """
    public_path = path.with_suffix(".pub.pem")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if public_path.exists():
        raise SignatureRefused(f"{public_path} exists: give another name, or remove it")
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(opened, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
            file.write(private)
        write_text(public_path, public.decode())
    except FileExistsError as error:
        raise SignatureRefused(f"{path} exists: give another name, or remove it") from error
    except OSError as error:
        raise SignatureRefused(f"the key cannot be written: {error}") from error
    return public_path, key_id(key.public_key())


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file.

    Raises:
        SignatureRefused: it cannot be read, has a passphrase, or is no Ed25519 private key.
    """
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureRefused(_not_a_key(path, "private", str(error))) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureRefused(_not_a_key(path, "private", "it is of another kind"))
    return key


def _load_public_key(path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise SignatureRefused(_not_a_key(path, "public", str(error))) from error
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureRefused(_not_a_key(path, "public", "it is of another kind"))
    return key


def _not_a_key(path: Path, kind: str, why: str) -> str:
    return (
        f"{path} is no Ed25519 {kind} key in PEM form without a passphrase ({why}): make a pair "
        "with `rlcm keys new-signing-key`"
    )


def _from_base64(text: str) -> bytes:
    """Both alphabets, as the specification asks; any other character is an error."""
    try:
        standard = text.replace("-", "+").replace("_", "/")
        return base64.b64decode(standard, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
