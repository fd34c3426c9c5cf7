"""Databases of older releases are brought up to date when they are opened, or refused."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import Label
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.store.answers.counts import LabelCounts
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.base import Base
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.counts import ShadowCounts
from rlcm_serve.store.upkeep.check import check_file
from rlcm_serve.store.upkeep.copies import back_up, restore
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.store.tables import FOLDER, NOW, current
from tests.rlcm_serve.store.test_answers import ADMIN

OLDER = sorted(file.stem for file in FOLDER.glob("*.sql") if file != NOW)
BEFORE_SHADOW_RUNS = "2026-11-23-before-shadow-runs"
BEFORE_SHADOW_COUNTS = "2026-11-24-before-shadow-counts"
LEVEL = "c" * 64, 0.1


def older(folder: Path, name: str = BEFORE_SHADOW_RUNS) -> Path:
    """A database with the tables of an older release, and some rows."""
    folder.mkdir(exist_ok=True)
    file = folder / "rlcm.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((FOLDER / f"{name}.sql").read_text())
    return file


def shape(database: Database) -> dict[str, Any]:
    """Columns and indexes of every table; indexes that only older releases have do not matter."""
    found: dict[str, Any] = {}
    with database.reading() as session:
        inspector = inspect(session.connection())
        for name, table in Base.metadata.tables.items():
            columns = inspector.get_columns(name)
            known = {index.name for index in table.indexes}
            indexes = [one for one in inspector.get_indexes(name) if one["name"] in known]
            found[name] = (
                {one["name"]: (str(one["type"]), one["nullable"]) for one in columns},
                {one["name"]: one["column_names"] for one in indexes},
                inspector.get_pk_constraint(name)["constrained_columns"],
            )
    return found


def counts(database: Database) -> dict[Any, dict[str, int]]:
    with database.reading() as session:
        return LabelCounts(database).read(session, database.now(session))


def test_the_tables_are_those_last_recorded(tmp_path: Path) -> None:
    assert current(tmp_path) == NOW.read_text(), (
        "the tables have changed, and databases with the old ones exist. If more than a table was "
        "added, keep now.sql under a name that says when these were the tables, so that the tests "
        "below open them. Then record the new ones with `python -m tests.rlcm_serve.store.tables`. "
        "What cannot be added to older tables takes a new SCHEMA_VERSION"
    )


@pytest.mark.parametrize("name", OLDER)
def test_older_tables_are_brought_up_to_date(tmp_path: Path, name: str) -> None:
    file = older(tmp_path / "old", name)
    with (
        closing(Database(f"sqlite:///{file}")) as opened,
        closing(Database(f"sqlite:///{tmp_path}/new/rlcm.db")) as new,
    ):
        assert shape(opened) == shape(new)
    assert check_file(file).faults == []


def test_older_answers_keep_their_labels_and_take_others(tmp_path: Path) -> None:
    none = dict.fromkeys(("expired", "others_right", "others_wrong", "wrong", "waiting"), 0)
    with closing(Database(f"sqlite:///{older(tmp_path)}")) as database:
        assert counts(database) == {
            LEVEL: none | {"audited": 3, "right": 1, "wrong": 1, "waiting": 1, "others_wrong": 1},
            ("", 0.0): none | {"audited": 1, "right": 1},
        }
        answers = StoredAnswers(database, AuditDraw(b"s" * 32, AuditShares(1.0)))
        labels = [Label("waiting", False, "boss"), Label("right", False, "boss")]
        done = answers.label(labels, ADMIN)
        assert (done.labelled, done.corrected) == (1, 1)
        after = {"audited": 3, "wrong": 3, "right": 0, "others_wrong": 1}
        assert counts(database)[LEVEL] == none | after


def test_older_shadow_runs_are_counted_and_their_deadlines_pass(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{older(tmp_path, BEFORE_SHADOW_COUNTS)}")) as database:
        counts = ShadowCounts(database)
        with database.reading() as session:
            found = counts.read(session)
        known = {"drawn": 5, "dropped": 1, "agree": 1, "disagree": 1}
        assert found == {LEVEL: known | {"missing": 1, "waiting": 1}}
        counts.expire()
        with database.reading() as session:
            assert counts.read(session) == {LEVEL: known | {"missing": 2, "waiting": 0}}


def test_what_a_new_column_means_for_older_rows(tmp_path: Path) -> None:
    """Every label was trusted before there were others."""
    with (
        closing(Database(f"sqlite:///{older(tmp_path)}")) as database,
        database.reading() as session,
    ):
        assert session.scalars(text("SELECT trusted FROM rlcm_labels")).all() == [1, 1, 1, 1]


def test_a_column_and_an_index_that_are_missing_are_added(database_url: str) -> None:
    with closing(Database(database_url)) as new, new.session() as session:
        before = shape(new)
        session.execute(text("DROP INDEX rlcm_labels_last"))
        session.execute(text("ALTER TABLE rlcm_labels DROP COLUMN trusted"))
        session.execute(text("DROP INDEX rlcm_answers_time"))
        session.execute(text("DROP TABLE rlcm_label_counts"))
    with closing(Database(database_url)) as again:
        assert shape(again) == before


def test_processes_that_start_together_upgrade_once(tmp_path: Path) -> None:
    url = f"sqlite:///{older(tmp_path)}"
    failures: list[Exception] = []

    def start() -> None:
        try:
            Database(url).close()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with closing(Database(url)) as database:
        assert counts(database)[LEVEL]["audited"] == 3


def test_tables_that_nothing_can_be_added_to_are_refused_as_they_are(database_url: str) -> None:
    with closing(Database(database_url)) as new, new.session() as session:
        session.execute(text("ALTER TABLE rlcm_monitors DROP COLUMN slot"))
        session.execute(text("DROP TABLE rlcm_label_counts"))
    for _ in range(2):
        with pytest.raises(DatabaseRefused, match=r"version 1 .*rlcm_monitors lacks slot.*: use"):
            Database(database_url)


def test_a_backup_of_an_older_release_comes_back(tmp_path: Path) -> None:
    file = older(tmp_path, "0.2.0")
    back_up(file, tmp_path / "copy.db")
    target = tmp_path / "state" / "rlcm.db"
    restore(tmp_path / "copy.db", target)
    Database(f"sqlite:///{target}").close()


def test_the_command_names_the_database_and_the_remedy(rlcm: Rlcm, tmp_path: Path) -> None:
    file = older(tmp_path / "state")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE rlcm_monitors DROP COLUMN slot")
    status, _, error = rlcm(f"keys list --state {file.parent}")
    assert status == 1
    said = " ".join(error.split())
    assert "rlcm_monitors lacks slot" in said
    assert "use that version, or another database" in said
    status, out, _ = rlcm(f"store check --state {file.parent}")
    assert (status, "rlcm_monitors lacks slot" in out) == (1, True)
