import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.store.database import Database
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.postgres import PostgresServer, find_programs, running_postgres


@pytest.fixture
def rlcm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Rlcm]:
    """`rlcm` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer sets its own
    on_stop = signal.getsignal(signal.SIGTERM)
    yield Rlcm(monkeypatch, capsys)
    signal.signal(signal.SIGTERM, on_stop)


@pytest.fixture(scope="module")
def grader() -> Iterator[AnswerGrader]:
    """One grader for all tests of a file."""
    with AnswerGrader() as grader:
        yield grader


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests that need it."""
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's programs (initdb, pg_ctl) are not on this machine")
    with running_postgres(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/rlcm.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The empty database, opened."""
    database = Database(database_url)
    yield database
    database.close()
