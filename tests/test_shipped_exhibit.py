"""The exhibits that ship are what the traces give for the certificates beside them.

They were made by `rlcm exhibit CERTIFICATE benchmarks/traces/embedded-sft-calibration-8.parquet
--test benchmarks/traces/embedded-sft-test.parquet`, for each certificate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibration import Certificate, Traces, read_traces
from calibration.exhibit import Exhibit, beside
from calibration.report.exhibiting import make_exhibit
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.guarantees import find_certificates

TRACES = Path(__file__).parent.parent / "benchmarks" / "traces"
FILES = find_certificates(EMBEDDED_MODEL)


@pytest.fixture(scope="module")
def traces() -> Traces:
    return read_traces(TRACES / "embedded-sft-calibration-8.parquet")


@pytest.fixture(scope="module")
def test_traces() -> Traces:
    return read_traces(TRACES / "embedded-sft-test.parquet")


def test_every_certificate_has_one_and_nothing_else_does() -> None:
    assert len(FILES) == 9
    folder = FILES[0].parent / "exhibits"
    assert sorted(folder.iterdir()) == [beside(file) for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_follows_from_the_traces(file: Path, traces: Traces, test_traces: Traces) -> None:
    shipped = Exhibit.load(beside(file))
    certificate = Certificate.load(file)
    assert shipped.certificate == certificate.digest
    again = make_exhibit(certificate, traces, test_traces)
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
    shipped = Exhibit.load(beside(FILES[0])).to_json()
    changed = Exhibit.load(beside(FILES[0])).to_json()
    changed["calibration"]["n_units"] += 1
    with pytest.raises(AssertionError, match="/calibration/n_units"):
        check_close(shipped, changed)
