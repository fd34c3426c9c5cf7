"""What takes the place of a certificate whose guarantee was withdrawn."""

import time

import pytest

from calibration import Certificate, ExitPolicy
from rlcm_serve.errors import Conflict
from rlcm_serve.store.answers.table import WithdrawalRow
from rlcm_serve.store.certificate_table import StoredCertificate
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate


def fitted(delta: float, high: float) -> Certificate:
    return certificate({0.1: ExitPolicy(lambda_high=high)}, delta=delta)


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
    assert store.activate(made.id, [IDENTITY]).certificates == (made,)


def test_each_withdrawal_leaves_less_delta_to_the_next_certificate(database: Database) -> None:
    store = CertificateStore(database)
    highs = iter((0.9, 0.8, 0.7, 0.6))
    made = fitted(0.1, next(highs))
    store.add(made, "upload")
    store.activate(made.id, [IDENTITY])
    left = []
    for high in highs:
        withdraw(database, made)
        restoring = store.restoring(made)
        assert restoring is not None
        assert restoring.certificate == made.digest
        left.append(restoring.delta)
        made = fitted(restoring.delta, high)
        store.add(made, "job")
        assert store.activate(made.id, [IDENTITY]).certificates == (made,)
    assert left == pytest.approx([0.1 / 2, 0.1 / 6, 0.1 / 12])


def test_a_certificate_that_promises_with_more_delta_is_refused(database: Database) -> None:
    store, first, again = CertificateStore(database), fitted(0.1, 0.9), fitted(0.06, 0.8)
    store.add(first, "upload")
    store.activate(first.id, [IDENTITY])
    withdraw(database, first)
    store.add(again, "upload")
    with pytest.raises(Conflict, match=r"delta may be at most 0\.05"):
        store.activate(again.id, [IDENTITY])
    assert store.current([IDENTITY]).certificates == (first,)


def test_a_certificate_from_before_the_withdrawal_is_refused(database: Database) -> None:
    store, first, older = CertificateStore(database), fitted(0.1, 0.9), fitted(0.01, 0.8)
    store.add(older, "upload")
    store.add(first, "upload")
    store.activate(first.id, [IDENTITY])
    withdraw(database, first)
    with pytest.raises(Conflict, match="after this certificate was made: fit one on problems"):
        store.activate(older.id, [IDENTITY])
    assert store.activate(first.id, [IDENTITY]).certificates == (first,), "it stays withdrawn"
