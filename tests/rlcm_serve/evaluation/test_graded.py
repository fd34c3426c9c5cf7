import math
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from calibration import FULL_BUDGET, ExitPolicy
from calibration.simulation.replay import replay
from calibration.simulation.risks import ERROR
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.evaluation.graded import answers_after_stops, graded_table
from rlcm_serve.evaluation.grading.math import MathGrader
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.rollouts import EvaluationRollout
from rlcm_serve.evaluation.run_folder import write_table
from rlcm_serve.evaluation.sources import Source
from tests.rlcm_serve.evaluation.records import CHECKPOINT, CUT_OFF, FINAL, NATURAL


def table_of(*records: EvaluationRollout, source: Source = Source.PROBE) -> pa.Table:
    grader = ExactGrader()
    pairs = {(answer, "8") for _, answer in answers_after_stops(records)}
    verdicts = dict(zip(pairs, grader.grade(list(pairs)), strict=True))
    return graded_table(
        records, {"p1": "8"}, {"p1": None}, verdicts, grader.classes_of_all, source, None
    )


def recorded(tmp_path: Path, *records: EvaluationRollout) -> Recorded:
    write_table(tmp_path / "traces.parquet", table_of(*records))
    return Recorded.read(tmp_path / "traces.parquet", Source.PROBE)


def column(table: pa.Table, name: str) -> list[object]:
    values: list[object] = table.column(name).to_pylist()
    return values


def test_a_reading_is_graded_by_the_answer_that_a_stop_there_gives() -> None:
    table = table_of(NATURAL, CUT_OFF)
    assert column(table, "answer") == ["7", "8", "7", "7"]
    assert column(table, "correct") == [False, True, False, False]
    assert column(table, "answer_tokens") == [3, 9, 3, 3]
    assert column(table, "is_final") == [False, True, False, True]


def test_right_answers_that_differ_are_two_classes() -> None:
    """Otherwise a recorded vote could elect answers that the service's vote keeps apart."""
    readings = [
        replace(reading, answers=(answer,), answer_tokens=(3,))
        for reading, answer in ((CHECKPOINT, "5 cm"), (FINAL, "5 m"))
    ]
    record = replace(CUT_OFF, readings=tuple(readings))
    with MathGrader() as grader:
        verdicts = {("5 cm", "5"): True, ("5 m", "5"): True}
        table = graded_table(
            [record],
            {"p1": "5"},
            {"p1": None},
            verdicts,
            grader.classes_of_all,
            Source.PROBE,
            None,
        )
    assert column(table, "correct") == [True, True]
    assert len({*column(table, "answer_class")}) == 2


CONFIDENCE: Mapping[Source, list[float | None]] = {
    Source.PROBE: [0.3, 0.9, 0.3, 0.9],
    Source.SEQUENCE_PROBABILITY: [0.8, 0.7, 0.8, 0.7],
    # The first rollout gives another answer by itself than the one that was forced.
    Source.ANSWER_PROBABILITY: [0.6, None, 0.6, 0.6],
    # Of the answers 7, 8, 7 and none: one other is 7, one of all is the 8 given by itself.
    Source.AGREEMENT: [1 / 3, 1 / 4, 1 / 3, 1 / 3],
    Source.ENTROPY: [math.exp(-0.5)] * 4,
    Source.VERBALIZED: [0.4, None, 0.4, 0.4],
}
TOKENS: Mapping[Source, list[int]] = {
    Source.PROBE: [0, 0, 0, 0],
    Source.SEQUENCE_PROBABILITY: [0, 0, 0, 0],
    # At the budget the first answer is forced whoever reads it; at a natural end it is not.
    Source.ANSWER_PROBABILITY: [3, 3, 3, 0],
    Source.AGREEMENT: [18, 18, 18, 15],
    Source.ENTROPY: [1, 1, 1, 1],
    Source.VERBALIZED: [5, 5, 5, 2],
}


@pytest.mark.parametrize("source", CONFIDENCE)
def test_every_source_says_its_own_and_costs_its_own(source: Source) -> None:
    table = table_of(NATURAL, CUT_OFF)
    said = column(table, f"confidence:{source}")
    assert said == [pytest.approx(expected) for expected in CONFIDENCE[source]]
    assert column(table, f"tokens:{source}") == TOKENS[source]


def test_a_source_that_says_nothing_anywhere_has_no_column_but_the_runs_own_has() -> None:
    names = table_of(NATURAL).column_names
    assert f"confidence:{Source.TAIL}" not in names
    own = table_of(NATURAL, source=Source.TAIL)
    assert column(own, f"confidence:{Source.TAIL}") == [None, None]
    assert column(own, "confidence") == [0.0, 0.0]


def test_one_answer_alone_agrees_with_nothing() -> None:
    readings = tuple(
        replace(reading, answers=("7",), answer_tokens=(3,)) for reading in NATURAL.readings
    )
    table = table_of(replace(NATURAL, readings=readings))
    assert column(table, "confidence:agreement") == [None, 0.0]


def test_what_the_model_said_by_itself_costs_nothing() -> None:
    table = table_of(replace(NATURAL, own_verbalized=0.95))
    assert column(table, "confidence:verbalised") == [0.4, 0.95]
    assert column(table, "tokens:verbalised") == [5, 0]


def test_the_traces_of_a_source_are_those_of_a_run_whose_own_it_is(tmp_path: Path) -> None:
    read = recorded(tmp_path, NATURAL, CUT_OFF)
    for source in CONFIDENCE:
        table = table_of(NATURAL, CUT_OFF, source=source)
        path = tmp_path / f"{source}.parquet"
        write_table(path, table)
        theirs = Recorded.read(path, source).own
        assert read.traces(source).digest == theirs.digest, source


def test_a_stop_costs_its_thinking_its_answer_and_every_reading_before(tmp_path: Path) -> None:
    read = recorded(tmp_path, NATURAL)
    stops_at_16 = ExitPolicy(lambda_high=0.01)
    spent = {
        source: replay(read.traces(source), [stops_at_16, FULL_BUDGET], ERROR).tokens_T.tolist()
        for source in CONFIDENCE
    }
    assert spent[Source.PROBE] == [16 + 3, 20 + 9]
    assert spent[Source.ENTROPY] == [16 + 3 + 1, 20 + 9 + 2]
    # The reading has brought the answer.
    assert spent[Source.ANSWER_PROBABILITY] == [16 + 3, 20 + 9 + 6]
    assert spent[Source.AGREEMENT] == [16 + 18, 20 + 9 + 36]
    assert spent[Source.VERBALIZED] == [16 + 5, 20 + 9 + 10]
    assert replay(read.traces(Source.AGREEMENT), [FULL_BUDGET], ERROR).full_tokens == 20 + 9


def test_what_is_left_unsaid_counts_as_0_and_is_told(tmp_path: Path) -> None:
    silent = replace(CHECKPOINT, verbalized=None), replace(FINAL, verbalized=None)
    read = recorded(tmp_path, NATURAL, replace(CUT_OFF, readings=silent))
    assert read.missing(Source.VERBALIZED) == 1.0  # the other gave another answer by itself
    assert read.missing(Source.ENTROPY) == 0.0
    assert read.scored(Source.VERBALIZED).confidence_R.tolist() == [0.0, 0.0]
    assert read.reading_tokens(Source.VERBALIZED) == (10 + 7) / 2
