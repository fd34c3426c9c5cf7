"""The certificate that ships is the one its traces give, and it covers the model beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration import Certificate, certify, read_traces
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.guarantees import find_certificates

TRACES = Path(__file__).parent.parent / "benchmarks" / "traces"


@pytest.fixture(scope="module")
def shipped() -> Certificate:
    """The embedded model's only certificate."""
    (path,) = find_certificates(EMBEDDED_MODEL)
    return Certificate.load(path)


def test_fitting_again_gives_the_same_certificate(shipped: Certificate) -> None:
    again = certify(
        read_traces(TRACES / "embedded-calibration.parquet"),
        order=read_traces(TRACES / "embedded-order.parquet"),
        alphas=[level.alpha for level in shipped.levels],
        delta=shipped.delta,
        promise=shipped.promise,
        created=shipped.created,
    )
    assert again.digest == shipped.digest


def test_it_is_of_the_model_it_ships_with(shipped: Certificate) -> None:
    files = ModelFiles.read(EMBEDDED_MODEL)
    assert shipped.fingerprint.model == files.model_digest()
    assert shipped.fingerprint.probe == files.probe_digest()
    assert shipped.fingerprint.tokenizer == files.tokenizer_digest()


def test_it_was_fitted_on_at_least_500_problems_and_certifies_something(
    shipped: Certificate,
) -> None:
    assert shipped.n_problems >= 500
    assert [level.alpha for level in shipped.levels if level.certified]


def test_no_problem_of_it_was_tested_or_ordered_on() -> None:
    names = [
        set(read_traces(TRACES / f"embedded-{part}.parquet").problem_ids)
        for part in ("order", "calibration", "test")
    ]
    assert len(set.union(*names)) == sum(map(len, names))
