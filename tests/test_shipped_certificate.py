"""The certificates that ship are the ones their traces give, and cover the model beside them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from calibration import (
    Certificate,
    CertifiedLevel,
    ExitPolicy,
    PValue,
    Traces,
    certify,
    read_traces,
)
from calibration.verify import verify
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.guarantees import find_certificates

TRACES = Path(__file__).parent.parent / "benchmarks" / "traces"
SHIPPED = [Certificate.load(path) for path in find_certificates(EMBEDDED_MODEL)]

each_shipped = pytest.mark.parametrize(
    "shipped", SHIPPED, ids=lambda shipped: f"{shipped.risk}-{shipped.procedure.samples}"
)


@pytest.fixture(scope="module")
def traces() -> Traces:
    return read_traces(TRACES / "embedded-sft-calibration-8.parquet")


def test_there_is_one_for_each_risk_and_one_four_and_eight_samples() -> None:
    shipped = [(certificate.risk, certificate.procedure.samples) for certificate in SHIPPED]
    assert shipped == list(itertools.product(("error", "regret", "selective"), (1, 4, 8)))


@each_shipped
def test_fitting_again_gives_the_same_certificate(shipped: Certificate, traces: Traces) -> None:
    again = certify(
        traces,
        risk=shipped.risk,
        alphas=[level.alpha for level in shipped.levels],
        samples=shipped.procedure.samples,
        created=shipped.created,
    )
    assert policies_of(again) == policies_of(shipped)
    # A betting test's p-values may differ in the last digits from processor to processor.
    assert again.digest == shipped.digest or shipped.p_value is PValue.BETTING


def policies_of(certificate: Certificate) -> list[ExitPolicy | None]:
    return [
        level.policy if isinstance(level, CertifiedLevel) else None for level in certificate.levels
    ]


@each_shipped
def test_every_figure_follows_from_the_traces(shipped: Certificate, traces: Traces) -> None:
    assert verify(shipped, traces) == []


@each_shipped
def test_it_is_of_the_model_it_ships_with(shipped: Certificate) -> None:
    files = ModelFiles.read(EMBEDDED_MODEL)
    assert shipped.fingerprint is not None
    assert shipped.fingerprint.model == files.model_digest()
    assert shipped.fingerprint.probe == files.probe_digest()
    assert shipped.fingerprint.tokenizer == files.tokenizer_digest()


@each_shipped
def test_it_certifies_every_level_that_the_model_can_keep(shipped: Certificate) -> None:
    certified = [level.alpha for level in shipped.levels if isinstance(level, CertifiedLevel)]
    if shipped.risk == "error":  # no exit makes the model better than it is
        assert (
            certified
            == {1: [0.4, 0.5], 4: [0.3, 0.4, 0.5], 8: [0.2, 0.3, 0.4, 0.5]}[
                shipped.procedure.samples
            ]
        )
    else:
        assert certified == [0.05, 0.1, 0.2]


def test_no_problem_of_it_is_a_test_problem_or_chose_the_constants_of_the_method() -> None:
    names = [
        set(read_traces(TRACES / f"embedded-sft-{part}.parquet").problem_ids)
        for part in ("calibration-8", "study", "test")
    ]
    assert names[0].isdisjoint(names[2])
    assert names[1].isdisjoint(names[2])
    # Independent draws: a few of the shortest problems come up twice.
    assert len(names[0] & names[1]) < 0.05 * len(names[0])
