"""`rlcm feedback` against a service that listens, while its database is busy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from rlcm_serve.commands.calling import client as calling
from rlcm_serve.commands.calling import feedback
from rlcm_serve.commands.calling.feedback import TRIES
from rlcm_serve.settings import Settings
from rlcm_serve.store.database import Database
from tests.rlcm_serve.api.serving import PATIENCE
from tests.rlcm_serve.api.test_rehearsals import STOPS_EARLY
from tests.rlcm_serve.command_line import Rlcm
from tests.service.listening import listening


@pytest.fixture
def labelling(rlcm: Rlcm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with the label of an answer, for a service that does not wait long to write."""
    database = f"sqlite:///{tmp_path}/one.db"
    settings = Settings(state=tmp_path, database=database, audit_share=1, database_wait_s=0.1)
    with (
        listening(tmp_path, STOPS_EARLY, settings=settings) as (url, _),
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        monkeypatch.setenv("RLCM_SERVICE", url)
        body = {"problem": "A dial?", "alpha": 0.1, "on_infeasible": "full_budget"}
        id_ = client.post("/solve", json=body).json()["id"]
        client.get("/audit")  # returns once the answer is stored
        labels = tmp_path / "labels.jsonl"
        labels.write_text(json.dumps({"id": id_, "right": True}) + "\n")
        yield labels


@pytest.fixture
def locked(labelling: Path) -> Iterator[ExitStack]:
    """Another process that keeps the service's database locked until it is closed."""
    with ExitStack() as lock:
        database = lock.enter_context(closing(Database(f"sqlite:///{labelling.parent}/one.db", 60)))
        session = lock.enter_context(database.session())
        session.execute(text("UPDATE rlcm_schema SET version = version"))
        yield lock


def test_labels_are_sent_again_once_the_database_is_free(
    rlcm: Rlcm, labelling: Path, locked: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def end_the_lock(seconds: float) -> None:
        pauses.append(seconds)
        locked.close()

    monkeypatch.setattr(calling, "sleep", end_the_lock)
    status, out, error = rlcm(f"feedback {labelling} --json")
    assert status == 0, error
    assert json.loads(out)["labelled"] == 1
    assert pauses
    assert min(pauses) >= 1, "as the service says"


def test_a_database_that_stays_busy_is_said_and_the_file_can_be_sent_again(
    rlcm: Rlcm, labelling: Path, locked: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(calling, "sleep", pauses.append)
    status, _, error = rlcm(f"feedback {labelling}")
    assert (status, len(pauses)) == (1, TRIES - 1)
    said = " ".join(error.split())
    assert "so send the request again" in said
    assert "of the file" not in said, "no line is at fault"
    locked.close()
    status, out, error = rlcm(f"feedback {labelling} --json")
    assert status == 0, error
    said = json.loads(out)
    assert said["labelled"] + said["unchanged"] == 1


@pytest.mark.parametrize("options", ["", " --json"])
def test_a_label_that_is_not_taken_is_told_by_the_status(
    rlcm: Rlcm, labelling: Path, options: str
) -> None:
    with labelling.open("a") as file:
        file.write('{"id": "none", "right": true}\n')
    status, out, _ = rlcm(f"feedback {labelling}{options}")
    assert status == 1
    said = '"unknown": ["none"]' if options else "none: no answer that this caller may label"
    assert said in out


def test_a_faulty_label_is_named_by_its_line_in_the_file(
    rlcm: Rlcm, labelling: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "AT_ONCE", 2)
    (label,) = labelling.read_text().splitlines()
    labelling.write_text("\n".join(["", label, "", label, label, "", "{", label]) + "\n")
    status, _, error = rlcm(f"feedback {labelling}")
    assert status == 1
    said = " ".join(error.split())
    assert "the body, line 3: " in said
    assert "(line 1 of the body is line 5 of the file)" in said
