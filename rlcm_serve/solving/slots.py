"""The slots of certificates: of those that share one, at most one is active."""

from __future__ import annotations

import hashlib
import json

from calibration.certificate.certificate import Certificate
from calibration.traces.fingerprint import EFFECTS, Effect
from rlcm_serve.solving.fingerprints import ServedProcedure


def slot_of(certificate: Certificate) -> str:
    """A digest of engine, profile and procedure: certificates that differ in one share no slot.

    Facts of the engine whose change only warns, such as its device, make no other slot: both
    certificates cover the same questions here.
    """
    warns = {name for name, effect in EFFECTS.items() if effect is Effect.WARNS}
    return _digest(certificate, warns)


def setup_of(certificate: Certificate) -> str:
    """A digest of setup, profile and procedure: what an engine must have for a certificate to fit.

    Certificates of several slots have one setup if their engines compute other numbers, as of
    another dtype. An engine serves one of them: one that it does not void, if there is any.
    """
    return _digest(certificate, set(EFFECTS))


def slots_of(certificate: Certificate) -> set[str]:
    """The slot under which rows may be stored: also that of the releases that told all facts."""
    return {slot_of(certificate), _digest(certificate, set())}


def _digest(certificate: Certificate, left_out: set[str]) -> str:
    procedure = ServedProcedure.of_certificate(certificate)  # raises without a fingerprint
    fitted = certificate.fingerprint
    facts = {} if fitted is None else fitted.to_json()
    engine = {name: fact for name, fact in facts.items() if name not in left_out}
    # Without a kind, the slot is that of the releases before there were kinds.
    chosen = procedure if procedure.kind is not None else procedure[:-1]
    named = json.dumps([chosen, engine | {"vote": procedure.vote}], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()
