import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.recording import offline
from rlcm_serve.recording.rollouts import RecordedRollout
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, ScriptedEngine

PROBLEM = '{"id": "p1", "problem": "A dial shows 3. A up 4.", "answer": "7"}\n'


class Machine:
    """Where commands run: counts the rollouts of the engines that they start."""

    def __init__(self) -> None:
        self.identity = IDENTITY
        self.started = self.rollouts = 0

    @asynccontextmanager
    async def running_engine(
        self, settings: EngineSettings, console: Console
    ) -> AsyncIterator[ScriptedEngine]:
        self.started += 1
        engine = ScriptedEngine(Script())
        engine.identity = self.identity
        yield engine
        self.rollouts += len(engine.policies)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(offline, "running_engine", machine.running_engine)
    return machine


def record(
    folder: Path, problems: str = PROBLEM, rollouts: int = 2, *, needs_probe: bool = True
) -> tuple[EngineIdentity, list[RecordedRollout]]:
    (folder / "data.jsonl").write_text(problems)
    return asyncio.run(
        offline.record_problems(
            EngineSettings(needs_probe=needs_probe),
            folder / "data.jsonl",
            folder / "journal.jsonl",
            rollouts,
            1,
            Console(file=io.StringIO()),
        )
    )


def test_problems_are_recorded_once(machine: Machine, tmp_path: Path) -> None:
    identity, recordings = record(tmp_path)
    assert identity == IDENTITY
    assert [(r.problem_id, r.rollout) for r in recordings] == [("p1", 0), ("p1", 1)]
    assert record(tmp_path, rollouts=3)[1][:2] == recordings
    assert machine.rollouts == 3


def test_malformed_data_are_refused_before_an_engine_starts(
    machine: Machine, tmp_path: Path
) -> None:
    with pytest.raises(RequestRefused, match="line 1"):
        record(tmp_path, '{"problem": "x?"}\n')
    assert machine.started == 0


def test_a_reference_that_the_grader_refuses_costs_no_rollout(
    machine: Machine, tmp_path: Path
) -> None:
    options = "Which? A. one B. two"
    rows = [{"id": f"p{at}", "problem": options, "answer": "A"} for at in range(3)]
    rows.append({"id": "new", "problem": options, "answer": "?"})
    rows.append({"id": "odd", "problem": options, "answer": "both"})
    profile = Profile("default", grader="choice", extractor="answer-line")
    machine.identity = replace(IDENTITY, profile=profile)
    problems = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(RequestRefused, match="problem 'odd': the reference 'both' does not parse"):
        record(tmp_path, problems)
    assert machine.rollouts == 0


@pytest.mark.parametrize(("before", "after"), [('"7"', '"8"'), ("A up 4", "A up 5")])
def test_recordings_of_other_data_are_not_taken_for_these(
    machine: Machine, tmp_path: Path, before: str, after: str
) -> None:
    record(tmp_path)
    with pytest.raises(RequestRefused, match="written with other settings"):
        record(tmp_path, PROBLEM.replace(before, after))


def test_readings_of_another_probe_are_not_taken_for_these(
    machine: Machine, tmp_path: Path
) -> None:
    record(tmp_path)
    machine.identity = replace(IDENTITY, probe="p1")
    with pytest.raises(RequestRefused, match="written with other settings"):
        record(tmp_path)


def test_a_probe_may_be_trained_anew_from_the_same_recordings(
    machine: Machine, tmp_path: Path
) -> None:
    machine.identity = replace(IDENTITY, probe="")
    _, recordings = record(tmp_path, needs_probe=False)
    machine.identity = replace(IDENTITY, probe="the one just trained")
    assert record(tmp_path, needs_probe=False)[1] == recordings
    assert machine.rollouts == 2
