"""StoredReports in the database and in files beside certificates."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from calibration import Certificate, ExitPolicy
from calibration.certificate.report_data import (
    FigureTexts,
    ProblemSet,
    Readings,
    ReliabilityData,
    ReportData,
    ReportLevel,
    report_data_path,
)
from calibration.report_kit.content import Caption
from rlcm_serve.errors import NoReport, NotFound
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate

MADE = certificate({0.1: ExitPolicy(lambda_high=0.9)})


def report_data_of(made: Certificate, n_problems: int = 500) -> ReportData:
    readings = Readings(100, 0.8, 0.05, 0.1, None, ())
    words = Caption("Title", "Text.", "Content.")
    return ReportData(
        certificate=made.digest,
        calibration=ProblemSet(n_problems, n_problems, 0.8),
        test=None,
        levels=tuple(ReportLevel(level.alpha, None, None) for level in made.levels),
        maps=(),
        reliability=ReliabilityData(False, readings, readings),
        captions=FigureTexts(words, words, words, words),
    )


@pytest.fixture
def store(database: Database, tmp_path: Path) -> CertificateStore:
    """One that was started with a file of `MADE`."""
    MADE.save(tmp_path / "one.json")
    store = CertificateStore(database)
    store.load([IDENTITY], [tmp_path / "one.json"])
    return store


def test_what_is_kept_outlives_the_store(store: CertificateStore, database: Database) -> None:
    with pytest.raises(NoReport, match="it was neither fitted nor recomputed from traces here"):
        store.report(MADE.id)
    store.add(MADE, "upload", report_data_of(MADE))
    assert store.report(MADE.id) == report_data_of(MADE)
    again = CertificateStore(database)
    with pytest.raises(NotFound, match="there is no certificate"):
        again.report(MADE.id)
    again.add(MADE, "upload")
    with database.session() as session:
        assert session.scalar(text("SELECT count(*) FROM rlcm_exhibits")) == 1


def test_one_that_comes_later_takes_the_place(store: CertificateStore) -> None:
    other = replace(MADE, created="2026-01-12")
    store.add(other, "job a", report_data_of(other))
    assert store.report(other.id).calibration.n_problems == 500
    store.add(other, "upload", report_data_of(other, 600))
    assert store.report(other.id).calibration.n_problems == 600
    store.add(other, "upload")
    assert store.report(other.id).calibration.n_problems == 600


def test_a_file_goes_before_the_database(store: CertificateStore, tmp_path: Path) -> None:
    store.add(MADE, "upload", report_data_of(MADE))
    report_data_of(MADE, 700).save(report_data_path(tmp_path / "one.json"))
    assert store.report(MADE.id).calibration.n_problems == 700


def test_report_data_of_another_certificate_is_none(store: CertificateStore) -> None:
    other = replace(MADE, created="2026-01-12")
    store.add(MADE, "upload", report_data_of(other))
    with pytest.raises(NoReport, match="its report data belongs to another certificate"):
        store.report(MADE.id)


def test_an_older_database_opens_unchanged(store: CertificateStore, database: Database) -> None:
    store.activate([MADE.id], [IDENTITY])
    with database.session() as session:
        session.execute(text("DROP TABLE rlcm_exhibits"))
    opened = Database(database.url.render_as_string(hide_password=False))
    try:
        newer = CertificateStore(opened)
        assert newer.get(MADE.id) == MADE
        newer.add(MADE, "upload", report_data_of(MADE))
        assert newer.report(MADE.id) == report_data_of(MADE)
    finally:
        opened.close()
