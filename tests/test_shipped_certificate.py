"""The shipped certificates are what their traces give, and fit the model next to them."""

from __future__ import annotations

import itertools
from functools import cache
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
from calibration.certificate.verify import verify
from calibration.traces.probe_readings import read_validation
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, WARM_START, ModelFiles
from rlcm_serve.solving.guarantees import find_certificates

TRACES = Path(__file__).parent.parent / "studies" / "traces"
CALIBRATION = {EMBEDDED_MODEL: "calibration-8", WARM_START: "calibration-4"}
SHIPPED = [
    (model, Certificate.load(path))
    for model in (EMBEDDED_MODEL, WARM_START)
    for path in find_certificates(model)
]

each_shipped = pytest.mark.parametrize(
    ("model", "shipped"),
    SHIPPED,
    ids=[f"{model.name}-{one.risk}-{one.procedure.samples}" for model, one in SHIPPED],
)


@cache
def traces_of(model: Path) -> Traces:
    return read_traces(TRACES / f"{model.name}-{CALIBRATION[model]}.parquet")


def test_there_is_one_for_each_risk_and_one_four_and_eight_samples() -> None:
    shipped = [(one.risk, one.procedure.samples) for model, one in SHIPPED if model != WARM_START]
    assert shipped == list(itertools.product(("error", "regret", "selective"), (1, 4, 8)))


def test_the_warm_start_has_one_to_compare_with() -> None:
    shipped = [(one.risk, one.procedure.samples) for model, one in SHIPPED if model == WARM_START]
    assert shipped == [("selective", 1)]


@each_shipped
def test_fitting_again_gives_the_same_certificate(model: Path, shipped: Certificate) -> None:
    traces = traces_of(model)
    assert traces.fingerprint is not None
    order = read_validation(model / "probe", traces.fingerprint)
    again = certify(
        traces,
        risk=shipped.risk,
        alphas=[level.alpha for level in shipped.levels],
        samples=shipped.procedure.samples,
        order=order,
        created=shipped.created,
    )
    assert policies_of(again) == policies_of(shipped)
    # A betting test's p-values may differ in the last digits from processor to processor.
    assert again.digest == shipped.digest or shipped.p_value is PValue.BETTING


def policies_of(certificate: Certificate) -> list[ExitPolicy | None]:
    return [
        level.policy if isinstance(level, CertifiedLevel) else None for level in certificate.levels
    ]


@pytest.mark.slow
@each_shipped
def test_every_figure_follows_from_the_traces(model: Path, shipped: Certificate) -> None:
    assert verify(shipped, traces_of(model)) == []


@each_shipped
def test_it_is_of_the_model_it_ships_with(model: Path, shipped: Certificate) -> None:
    files = ModelFiles.read(model)
    assert shipped.fingerprint is not None
    assert shipped.fingerprint.model == files.model_digest()
    assert shipped.fingerprint.probe == files.probe_digest()
    assert shipped.fingerprint.tokenizer == files.tokenizer_digest()


@each_shipped
def test_it_certifies_every_level_that_the_model_can_keep(
    model: Path, shipped: Certificate
) -> None:
    certified = [level.alpha for level in shipped.levels if isinstance(level, CertifiedLevel)]
    expected = {"selective": (0.01, 0.02, 0.05, 0.1, 0.2), "error": (0.05, 0.1, 0.2, 0.3)}
    assert certified == list(expected.get(shipped.risk, (0.05, 0.1, 0.2)))


@pytest.mark.parametrize("model", [EMBEDDED_MODEL, WARM_START], ids=lambda model: model.name)
def test_no_problem_of_it_is_a_test_problem_or_chose_the_constants_of_the_method(
    model: Path,
) -> None:
    parts = (f"{model.name}-{CALIBRATION[model]}", "embedded-sft-study", f"{model.name}-test")
    names = [set(read_traces(TRACES / f"{part}.parquet").problem_ids) for part in parts]
    assert names[0].isdisjoint(names[2])
    assert names[1].isdisjoint(names[2])
    # Independent draws: a few of the shortest problems come up twice.
    assert len(names[0] & names[1]) < 0.05 * len(names[0])
