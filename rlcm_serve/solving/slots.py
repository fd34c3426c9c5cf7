"""The slots of certificates: of those that share one, at most one is active.

Also which certificate files are not served beside each other.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from calibration.certificate.certificate import Certificate
from calibration.traces.fingerprint import EFFECTS, Effect, Fingerprint
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.solving.fingerprints import ServedProcedure, fingerprint_of


class ServedUnder(NamedTuple):
    """What later work on an answer must know of the engine and the profile that gave it.

    Attributes:
        setup: a digest of what a certificate needs to fit. As in `setup_of`, engines that compute
            other numbers have one setup.
        grader: name and version of the grader, as in a fingerprint.
    """

    setup: str
    grader: str

    @classmethod
    def of(cls, identity: EngineIdentity) -> Self:
        """What it is for this engine and profile. It takes about a millisecond."""
        asked = fingerprint_of(identity)
        return cls(_digest_of([_engine_part(asked, set(EFFECTS))]), asked.grader)


def slot_of(certificate: Certificate) -> str:
    """A digest of engine, profile and procedure: certificates that differ in one share no slot.

    Facts of the engine whose change only warns, such as its device, make no other slot: both
    certificates cover the same questions here.
    """
    warns = {name for name, effect in EFFECTS.items() if effect is Effect.WARNS}
    return _digest(certificate, warns)


def is_of_kind_beside(certificate: Certificate, pooled: Certificate) -> bool:
    """Whether a kind's certificate would share a slot with one for all kinds, but for its kind."""
    return slot_of(replace(certificate, kind=None)) == slot_of(replace(pooled, kind=None))


def setup_of(certificate: Certificate) -> str:
    """A digest of setup, profile and procedure: what an engine must have for a certificate to fit.

    Certificates of several slots have one setup if their engines compute other numbers, as of
    another dtype. An engine serves one of them: one that it does not void, if there is any.
    """
    return _digest(certificate, set(EFFECTS))


def slots_of(certificate: Certificate) -> set[str]:
    """The slot under which rows may be stored: also that of the releases that told all facts."""
    return {slot_of(certificate), _digest(certificate, set())}


def rivals(files: Sequence[Certificate]) -> dict[str, str | None]:
    """By id, why none of several files of one procedure is served; None for a single one."""
    setups = {one.id: setup_of(one) for one in files}
    count = Counter(setups.values())
    several = "there are several certificate files for its procedure: activate one of them"
    return {id_: several if count[setup] > 1 else None for id_, setup in setups.items()}


def of_other_fits(files: Sequence[Certificate]) -> dict[str, str | None]:
    """By id, why a kind's file is not served beside that of all kinds; None if nothing is wrong.

    Only certificates of one fit hold together. A fit leaves the files of kinds that had enough
    labels in an earlier one.
    """
    of_all = [one for one in files if one.kind is not None and one.about is None]

    def why(certificate: Certificate) -> str | None:
        kind = certificate.kind
        if kind is None or kind.name is None:
            return None
        for pooled in of_all:
            is_other = replace(kind, name=None) != pooled.kind
            if is_other and is_of_kind_beside(certificate, pooled):
                return (
                    f"its kind {kind.name!r} was fitted at another time than certificate "
                    f"{pooled.id} of all kinds, and they do not hold together: delete its file, or "
                    "fit all kinds again"
                )
        return None

    return {one.id: why(one) for one in files}


def _digest(certificate: Certificate, left_out: set[str]) -> str:
    procedure = ServedProcedure.of_certificate(certificate)  # raises without a fingerprint
    fitted = certificate.fingerprint
    engine = {} if fitted is None else _engine_part(fitted, left_out)
    # Without a kind, the slot is that of the releases before there were kinds.
    chosen = procedure if procedure.kind is not None else procedure[:-1]
    return _digest_of([chosen, engine | {"vote": procedure.vote}])


def _engine_part(fingerprint: Fingerprint, left_out: set[str]) -> dict[str, Any]:
    return {name: fact for name, fact in fingerprint.to_json().items() if name not in left_out}


def _digest_of(named: list[Any]) -> str:
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
