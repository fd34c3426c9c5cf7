"""Familiarity added to recorded traces: as if they had been recorded with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration import ExitReason, Fingerprint, TraceError, read_traces, write_traces
from calibration.traces.table import Reading, Rollout
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.add_familiarity import with_familiarity
from rlcm_serve.evaluation.regrading import problems_of, read_table
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity, FamiliarityConfig
from rlcm_serve.familiarity.score import StateScore
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import GATED_IDENTITY, IDENTITY

ENGINE = fingerprint_of(GATED_IDENTITY)
P_VALUES = {"a": 0.3, "b": 0.004, "c": 1.0}


def rollouts(**p_values: float) -> list[Rollout]:
    end = Reading(10, 0.5, "7", 0, 1, True)
    return [
        Rollout(id_, number, ExitReason.NATURAL, (), end, familiarity=p_values.get(id_))
        for id_ in P_VALUES
        for number in (0, 1)
    ]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "traces.parquet"
    write_traces(path, rollouts(), fingerprint_of(IDENTITY))
    return path


def test_it_gives_what_recording_with_the_reading_would_have_given(
    traces: Path, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded.parquet"
    write_traces(recorded, rollouts(**P_VALUES), ENGINE)
    added = with_familiarity(read_table(traces), P_VALUES, ENGINE)
    assert added.equals(read_table(recorded), check_metadata=True)
    again = with_familiarity(added, P_VALUES, ENGINE)
    assert again.equals(added)


def test_traces_of_another_engine_are_refused(traces: Path) -> None:
    other = replace(ENGINE, model="m1")
    with pytest.raises(RequestRefused, match=r"another engine .*model: 'm0' here, 'm1' there"):
        with_familiarity(read_table(traces), P_VALUES, other)
    with pytest.raises(RequestRefused, match="no familiarity reading"):
        with_familiarity(read_table(traces), P_VALUES, fingerprint_of(IDENTITY))


def test_traces_that_another_grader_graded_keep_their_grader(tmp_path: Path) -> None:
    older: Fingerprint = replace(fingerprint_of(IDENTITY), grader="an older one")
    write_traces(tmp_path / "t.parquet", rollouts(), older)
    added = with_familiarity(read_table(tmp_path / "t.parquet"), P_VALUES, ENGINE)
    assert b"an older one" in added.schema.metadata[b"rlcm_fingerprint"]


def test_traces_for_analysis_are_refused(tmp_path: Path) -> None:
    write_traces(tmp_path / "t.parquet", rollouts(), None)
    with pytest.raises(TraceError, match="no fingerprint"):
        with_familiarity(read_table(tmp_path / "t.parquet"), P_VALUES, ENGINE)


def test_a_problem_that_is_not_given_is_named(traces: Path) -> None:
    with pytest.raises(RequestRefused, match="problem 'b' of the traces is not among the 1"):
        problems_of(read_table(traces), [LabelledProblem("a", "?", "7")])


def test_the_command_reads_the_prompts_of_the_traces(
    rlcm: Rlcm, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = FamiliarityConfig(2, 1000, 460, 0.005, 0.9, GATED_IDENTITY.familiarity_cutoff)
    draw = np.random.default_rng(0)
    score = StateScore.fit(draw.normal(size=(1000, 2)).astype(np.float32))
    ranking = np.sort(score.of(draw.normal(size=(460, 2)).astype(np.float32)))
    Familiarity(config, score, ranking).save(tmp_path / FAMILIARITY_FOLDER)
    asked: list[str] = []

    async def read(_settings: object, questions: list[str], _console: object) -> object:
        asked.extend(questions)
        return GATED_IDENTITY, np.array([[0, 0], [9, 9], [0, 1]], np.float32)

    monkeypatch.setattr("rlcm_serve.recording.prompt_states.read_prompt_states", read)
    data = tmp_path / "problems.jsonl"
    rows = [{"id": id_, "problem": f"{id_}?", "answer": "7"} for id_ in ("c", "b", "a", "d")]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, said, _ = rlcm(
        f"add-familiarity {traces} --data {data} --out {traces} --model {tmp_path}"
    )
    assert status == 0
    assert asked == ["a?", "b?", "c?"]
    assert "3 problems" in said
    assert "1 of them unfamiliar" in said
    assert read_traces(traces).problem_ids == ("a", "c")
    assert len(read_traces(traces, keep_unfamiliar=True).problem_ids) == 3
