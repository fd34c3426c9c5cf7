"""What takes the place of a certificate whose guarantee was withdrawn."""

import hashlib
import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import Certificate, ExitPolicy
from rlcm_serve.core import Question
from rlcm_serve.errors import Conflict
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.answers.table import WithdrawalRow
from rlcm_serve.store.certificate_table import StoredCertificate
from rlcm_serve.store.certificates import CertificateStore, _ReadCertificates
from rlcm_serve.store.database import Database
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate


def fitted(delta: float, high: float, *, device: str = "") -> Certificate:
    """A certificate with traces of its own."""
    there = replace(fingerprint_of(IDENTITY), device=device)
    made = certificate({0.1: ExitPolicy(lambda_high=high)}, delta=delta, fingerprint=there)
    traces = hashlib.sha256(f"{delta} {high}".encode()).hexdigest()
    return replace(made, calibration_digest=traces)


def saved(made: Certificate, folder: Path) -> Path:
    made.save(folder / f"{made.id}.json")
    return folder / f"{made.id}.json"


def old_slot(made: Certificate) -> str:
    """The slot of the releases that told devices apart."""
    assert made.fingerprint is not None
    of = made.fingerprint.to_json() | {"vote": "confidence"}
    named = json.dumps([["selective", 1, "confidence", of["max_tokens"]], of], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()


def withdraw(database: Database, made: Certificate) -> None:
    with database.session() as session:
        row = session.get(StoredCertificate, made.id)
        assert row is not None
        session.add(
            WithdrawalRow(
                certificate=made.digest,
                slot=row.slot,
                delta=made.delta,
                time=time.time(),
                why="risk alarm",
            )
        )


def test_before_a_withdrawal_nothing_is_demanded(database: Database) -> None:
    store, made = CertificateStore(database), fitted(0.3, 0.9)
    store.add(made, "upload")
    assert store.restoring(made) is None
    assert store.activate([made.id], [IDENTITY]).certificates == (made,)


def test_each_withdrawal_leaves_less_delta_to_the_next_certificate(database: Database) -> None:
    store = CertificateStore(database)
    highs = iter((0.9, 0.8, 0.7, 0.6))
    made = fitted(0.1, next(highs))
    store.add(made, "upload")
    store.activate([made.id], [IDENTITY])
    left = []
    for high in highs:
        withdraw(database, made)
        restoring = store.restoring(made)
        assert restoring is not None
        assert restoring.certificate == made.digest
        left.append(restoring.delta)
        made = fitted(restoring.delta, high)
        store.add(made, "job")
        assert store.activate([made.id], [IDENTITY]).certificates == (made,)
    assert left == pytest.approx([0.1 / 2, 0.1 / 6, 0.1 / 12])


def test_a_certificate_that_promises_with_more_delta_is_refused(database: Database) -> None:
    store, first, again = CertificateStore(database), fitted(0.1, 0.9), fitted(0.06, 0.8)
    store.add(first, "upload")
    store.activate([first.id], [IDENTITY])
    withdraw(database, first)
    store.add(again, "upload")
    with pytest.raises(Conflict, match=r"delta may be at most 0\.05"):
        store.activate([again.id], [IDENTITY])
    assert store.current([IDENTITY]).certificates == (first,)


def test_each_fit_since_the_withdrawal_spends_delta_active_or_not(database: Database) -> None:
    store, first = CertificateStore(database), fitted(0.1, 0.9)
    store.add(first, "upload")
    store.activate([first.id], [IDENTITY])
    withdraw(database, first)
    tried = [fitted(0.05, 0.8), fitted(0.05, 0.7), fitted(0.1 / 12, 0.6)]
    for made in tried:
        store.add(made, "job")
    restoring = store.restoring(first)
    assert restoring is not None
    assert (restoring.number, restoring.delta) == (4, pytest.approx(0.1 / 20))
    with pytest.raises(Conflict, match=r"it is number 2 that was fitted .* at most 0\.0166667"):
        store.activate([tried[1].id], [IDENTITY])
    for made in (tried[0], tried[2]):
        assert store.activate([made.id], [IDENTITY]).certificates == (made,)


def test_a_certificate_from_before_the_withdrawal_is_refused(database: Database) -> None:
    store, first, older = CertificateStore(database), fitted(0.1, 0.9), fitted(0.01, 0.8)
    store.add(older, "upload")
    store.add(first, "upload")
    store.activate([first.id], [IDENTITY])
    withdraw(database, first)
    with pytest.raises(Conflict, match="after this certificate was made: fit one on problems"):
        store.activate([older.id], [IDENTITY])
    assert store.activate([first.id], [IDENTITY]).certificates == (first,), "it stays withdrawn"


def test_after_a_withdrawal_no_file_takes_the_place(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither at a restart with another file, nor once the withdrawn one is deactivated."""
    first, other = fitted(0.1, 0.9), fitted(0.01, 0.8)
    store = CertificateStore(database)
    store.load([IDENTITY], [saved(other, tmp_path)])
    store.add(first, "upload")
    store.activate([first.id], [IDENTITY])
    withdraw(database, first)
    with caplog.at_level(logging.WARNING):
        assert store.deactivate(first.id, [IDENTITY]).certificates == ()
        store.current([IDENTITY])
    assert caplog.text.count(f"certificate {other.id} is not served: the guarantee of this") == 1
    again = CertificateStore(database)
    guarantees = again.load([IDENTITY], [saved(other, tmp_path)])
    assert guarantees.certificates == ()
    reason = guarantees.terms_for(Question("1 + 1?", alpha=0.1)).no_guarantee_reason or ""
    kept = again.kept(other.id, [IDENTITY])
    for said in (reason, kept.refusal or ""):
        assert "a file does not say when it was made" in said
        assert "`rlcm recalibrate`" in said
    again.add(other, "upload")
    assert again.current([IDENTITY]).certificates == (), "an upload activates nothing"
    assert again.kept(other.id, [IDENTITY]).refusal is None
    assert again.activate([other.id], [IDENTITY]).certificates == (other,)


def test_the_file_of_a_withdrawn_certificate_stays_in_place(
    database: Database, tmp_path: Path
) -> None:
    made = fitted(0.1, 0.9)
    store = CertificateStore(database)
    store.add(made, "upload")
    withdraw(database, made)
    guarantees = store.load([IDENTITY], [saved(made, tmp_path)])
    assert guarantees.certificates == (made,)
    assert set(guarantees.withdrawn) == {made.id}


@pytest.mark.parametrize("is_of_older_release", [False, True])
def test_another_device_makes_no_other_slot(database: Database, is_of_older_release: bool) -> None:
    first, other = fitted(0.1, 0.9, device="cpu"), fitted(0.06, 0.8, device="cuda (NVIDIA H100)")
    store = CertificateStore(database)
    store.add(first, "upload")
    if is_of_older_release:
        with database.session() as session:
            row = session.get(StoredCertificate, first.id)
            assert row is not None
            row.slot = old_slot(first)
    store.activate([first.id], [IDENTITY])
    store.add(other, "upload")
    assert store.activate([other.id], [IDENTITY]).certificates == (other,)
    assert store.activate([first.id], [IDENTITY]).certificates == (first,)
    withdraw(database, first)
    with pytest.raises(Conflict, match="after this certificate was made"):
        store.activate([other.id], [IDENTITY])


def test_a_slot_of_an_older_release_counts_where_its_certificate_is_not_stored(
    database: Database,
) -> None:
    first, other = fitted(0.1, 0.9, device="cpu"), fitted(0.06, 0.8, device="cpu")
    with database.session() as session:
        row = {"certificate": first.digest, "slot": old_slot(first), "delta": first.delta}
        session.add(WithdrawalRow(**row, time=time.time(), why="risk alarm"))
    restoring = CertificateStore(database).restoring(other)
    assert restoring is not None
    assert restoring.certificate == first.digest


def test_the_traces_of_a_withdrawn_certificate_are_no_new_evidence(database: Database) -> None:
    first = fitted(0.1, 0.9)
    again = replace(fitted(0.05, 0.8), calibration_digest=first.calibration_digest)
    store = CertificateStore(database)
    store.add(first, "upload")
    store.activate([first.id], [IDENTITY])
    withdraw(database, first)
    store.add(again, "upload")
    with pytest.raises(Conflict, match="on the same traces as a withdrawn one"):
        store.activate([again.id], [IDENTITY])
    assert "on the same traces" in (store.kept(again.id, [IDENTITY]).refusal or "")


def test_a_list_parses_each_certificate_once_however_many_were_withdrawn(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list was parsed again for every certificate that is not active."""
    store = CertificateStore(database)
    several = [fitted(0.1, 0.9 - number / 100) for number in range(6)]
    for made in several:
        store.add(made, "upload")
    withdraw(database, several[0])
    parsed: list[str] = []
    read = _ReadCertificates.certificate

    def counted(known: _ReadCertificates, row: StoredCertificate) -> Certificate:
        parsed.append(row.id)
        return read(known, row)

    monkeypatch.setattr(_ReadCertificates, "certificate", counted)
    kept = {one.certificate.id: one for one in store.all([IDENTITY])}
    assert len(parsed) == len(set(parsed)) == len(several)
    assert all("was withdrawn" in str(kept[one.id].refusal) for one in several[1:])
