"""The shipped report data is what the traces give for the certificates next to it.

They were made by `rlcm report-data CERTIFICATE studies/traces/MODEL-calibration-K.parquet
--test studies/traces/MODEL-test.parquet --questions test.jsonl`, for each certificate, with
`rlcm examples --split test --count 240 --jsonl > test.jsonl`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from calibration import Certificate, Traces, read_traces
from calibration.certificate.report_data import ReportData, report_data_path
from calibration.report.build_data import build_report_data
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, WARM_START
from rlcm_serve.solving.guarantees import find_certificates
from tests.test_shipped_certificate import CALIBRATION
from training.tasks.problems import Split, sample_problems

TRACES = Path(__file__).parent.parent / "studies" / "traces"
MODELS = (EMBEDDED_MODEL, WARM_START)
FILES = [(model, file) for model in MODELS for file in find_certificates(model)]


@cache
def traces_of(model: Path, part: str) -> Traces:
    return read_traces(TRACES / f"{model.name}-{part}.parquet")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_certificate_has_one_and_nothing_else_does(model: Path) -> None:
    files = find_certificates(model)
    assert sorted((files[0].parent / "reports").iterdir()) == [
        report_data_path(file) for file in files
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "file"), FILES, ids=[f"{model.name}-{file.stem}" for model, file in FILES]
)
def test_it_follows_from_the_traces(model: Path, file: Path) -> None:
    shipped = ReportData.load(report_data_path(file))
    certificate = Certificate.load(file)
    assert shipped.certificate == certificate.digest
    questions = {one.id: one.question for one in sample_problems(Split.TEST, 240, seed=0)}
    again = build_report_data(
        certificate,
        traces_of(model, CALIBRATION[model]),
        traces_of(model, "test"),
        questions=questions,
    )
    check_close(shipped.to_json(), again.to_json())


def check_close(shipped: Any, again: Any, place: str = "") -> None:
    """Equal but for the last digit that is kept.

    A betting test's p-values may differ from processor to processor.
    """
    assert type(shipped) is type(again), place
    if isinstance(shipped, dict):
        assert shipped.keys() == again.keys(), place
        for name, value in shipped.items():
            check_close(value, again[name], f"{place}/{name}")
    elif isinstance(shipped, list | tuple):
        assert len(shipped) == len(again), place
        for number, value in enumerate(shipped):
            check_close(value, again[number], f"{place}/{number}")
    elif isinstance(shipped, float):
        assert shipped == pytest.approx(again, rel=0.011), place
    else:
        assert shipped == again, place


def test_a_difference_would_be_seen() -> None:
    shipped = ReportData.load(report_data_path(FILES[0][1])).to_json()
    changed = ReportData.load(report_data_path(FILES[0][1])).to_json()
    changed["calibration"]["n_units"] += 1
    with pytest.raises(AssertionError, match="/calibration/n_units"):
        check_close(shipped, changed)
