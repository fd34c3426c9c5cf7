"""Recording with the real engine, and what the shipped certificate says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calibration import FULL_BUDGET, ExitPolicy, evaluate, read_traces, write_traces
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.monitoring.given import confidence_at_exit, tokens_of
from rlcm_serve.recording.journal import RecordingJournal, record_all
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.recording.rollouts import RecordedRollout, to_rollouts
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import Guarantees, find_certificates
from rlcm_serve.solving.solver import Solver
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine


async def test_recorded_traces_can_be_replayed(engine: VllmEngine, tmp_path: Path) -> None:
    problems = [
        LabelledProblem(p.id, p.question, p.answer)
        for p in sample_problems(Split.VALIDATION, 8, seed=11, levels=(1, 2))
    ]
    with (
        RecordingJournal(RecordedRollout, tmp_path / "journal.jsonl", {}) as journal,
        AnswerGrader() as grader,
    ):
        recorder = Recorder(engine, grader)
        first = await record_all(recorder, problems[:5], 1, journal)
        everything = await record_all(recorder, problems, 2, journal)
        rollouts = to_rollouts(everything, grader)
    assert everything[0:10:2] == first, "what was finished is not recorded again"
    write_traces(tmp_path / "traces.parquet", rollouts, fingerprint_of(engine.identity))
    traces = read_traces(tmp_path / "traces.parquet")
    (found,) = evaluate([FULL_BUDGET], traces)
    assert found.n_units == 8
    assert found.n_draws == 16
    assert found.right_share > 0.6, "two and four steps are easy"
    assert found.tokens == found.full_budget_tokens


async def test_the_shipped_certificates_are_of_this_very_engine(engine: VllmEngine) -> None:
    guarantees = Guarantees.load(engine.identities, find_certificates(EMBEDDED_MODEL))
    assert [each.procedure.samples for each in guarantees.certificates] == [1, 4, 8] * 3


async def test_a_live_question_reads_as_its_recording_does(engine: VllmEngine) -> None:
    """Drift compares them, in bins narrower than a token: greedy sampling has one course."""
    problems = [
        LabelledProblem(p.id, p.question, p.answer)
        for p in sample_problems(Split.VALIDATION, 5, seed=12, levels=(2, 3))
    ]
    eager = ExitPolicy(lambda_low=-1, lambda_high=0.01)
    with AnswerGrader() as grader:
        recorder = Recorder(engine, grader)
        greedy = replace(recorder.generation.sampling, temperature=0.0)
        recorder.generation = replace(recorder.generation, sampling=greedy)
        solver = Solver(engine, Guarantees([engine.identity], []), grader)
        for problem in problems:
            recorded = await recorder.record(problem, 0)
            for policy, reading in (
                (eager, recorded.readings[0]),
                (FULL_BUDGET, recorded.readings[-1]),
            ):
                prepared = solver.prepare(Question(problem.problem, 0.1, temperature=0.0))
                terms = replace(prepared.terms, policy=policy)
                solution = await solver.run(replace(prepared, terms=terms))
                assert tokens_of(solution) == reading.tokens + reading.answer_tokens
                assert confidence_at_exit(solution) == pytest.approx(reading.confidence, abs=1e-3)
                assert solution.familiarity == recorded.familiarity
