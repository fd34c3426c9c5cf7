import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration import (
    FULL_BUDGET,
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    Correction,
    ExitPolicy,
    Family,
    Fingerprint,
    InfeasibleAlpha,
    InfeasibleLevel,
    Level,
    Procedure,
    Promise,
    PValue,
    Risk,
    certify,
)
from calibration.certificate.certificate import _digest
from calibration.certificate.wording import covers, does_not_cover
from calibration.simulation.risks import SELECTIVE
from calibration.testing.p_values import binomial_p_values, clopper_pearson_upper
from tests.calibration.recordings import all_correct, in_groups, several_rollouts

MakeCertificate = Callable[..., Certificate]


def certified(alpha: float) -> CertifiedLevel:
    return CertifiedLevel(
        alpha=alpha,
        policy=ExitPolicy(0.1, 64, 0.9, alpha),
        p_value=float(binomial_p_values(np.array(3), np.array(150), alpha)),
        risk=0.02,
        risk_upper=float(clopper_pearson_upper(3, 150, 0.1 / 3)),
        total_weight=150.0,
        total_loss=3.0,
        share_answered=0.75,
        share_right=0.735,
        expected_tokens=210.5,
        full_budget_tokens=400.25,
    )


def infeasible(alpha: float) -> InfeasibleLevel:
    p_value = float(binomial_p_values(np.array(1), np.array(9), alpha))
    return InfeasibleLevel(alpha, False, "risk too high: ...", p_value, 9.0, 1.0)


@pytest.fixture
def make_certificate(fingerprint: Fingerprint) -> MakeCertificate:
    def make(*levels: Level, promise: Promise = Promise.SIMULTANEOUS) -> Certificate:
        served = [level.policy for level in levels if isinstance(level, CertifiedLevel)]
        return Certificate(
            risk="selective",
            delta=0.1,
            promise=promise,
            procedure=Procedure(),
            method="by hand",
            p_value=PValue.BINOMIAL,
            tested=Family((FULL_BUDGET, *served), Correction.HOLM, "by hand"),
            levels=levels,
            n_problems=200,
            n_units=200,
            n_rollouts=200,
            n_order_problems=100,
            smallest_certifiable_alpha=0.034,
            covers=covers(SELECTIVE, 0.1, promise, PValue.BINOMIAL),
            does_not_cover=does_not_cover(SELECTIVE),
            fingerprint=fingerprint,
            calibration_digest="cd",
            order_digest="od",
            created="2026-01-31",
        )

    return make


@pytest.fixture
def certificate(make_certificate: MakeCertificate) -> Certificate:
    return make_certificate(infeasible(0.05), certified(0.1), certified(0.2))


def test_saving_makes_the_folder(tmp_path: Path, certificate: Certificate) -> None:
    path = tmp_path / "model" / "certificates" / "selective.json"
    certificate.save(path)
    assert Certificate.load(path) == certificate


def test_round_trip(tmp_path: Path, certificate: Certificate) -> None:
    certificate.save(tmp_path / "c.json")
    loaded = Certificate.load(tmp_path / "c.json")
    assert loaded == certificate
    assert loaded.id == certificate.id == certificate.digest[:12]
    assert list(tmp_path.iterdir()) == [tmp_path / "c.json"]


def test_thresholds_may_be_whole_numbers(tmp_path: Path, make_certificate: MakeCertificate) -> None:
    whole = ExitPolicy(lambda_low=-1, lambda_high=1, lambda_answer=0)
    levels = infeasible(0.05), replace(certified(0.1), policy=whole), certified(0.2)
    made = make_certificate(*levels)
    made.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json").id == made.id


METHODS = ["chains", "fixed-sequence", "rescaled-chains", "split", "holm", "bonferroni"]


@pytest.mark.parametrize("method", METHODS)
def test_round_trip_of_every_method(world, tmp_path: Path, method: str) -> None:
    made = certify(world.draw(np.random.default_rng(1), 200), alphas=(0.01, 0.4), method=method)
    assert [level.certified for level in made.levels] == [False, True]
    check_round_trip(made, tmp_path / "c.json")


@pytest.mark.parametrize(
    "kind", ["no fingerprint", "groups", "several samples", "own loss", "nothing", "pointwise"]
)
def test_round_trip_of_every_kind(world, tmp_path: Path, kind: str) -> None:
    traces = world.draw(np.random.default_rng(2), 360)
    asked: dict[str, Any] = {"alphas": (0.3, 0.5)}
    match kind:
        case "no fingerprint":
            traces = replace(traces, fingerprint=None)
        case "groups":
            traces = in_groups(traces, 3)
        case "several samples":
            traces = several_rollouts(traces, 4)
            asked |= {"samples": 2, "vote": "majority", "draws": 3}
        case "own loss":
            asked |= {"risk": Risk.custom("cost", lambda o: o.tokens_DT / 100)}
        case "nothing":
            traces = all_correct(traces, False)
        case "pointwise":
            asked |= {"promise": "pointwise", "created": "2026-01-31"}
    made = certify(traces, **asked)
    assert any(level.certified for level in made.levels) == (kind != "nothing")
    check_round_trip(made, tmp_path / "c.json")


def check_round_trip(made: Certificate, path: Path) -> None:
    made.save(path)
    loaded = Certificate.load(path)
    assert loaded == made
    assert loaded.digest == made.digest
    plain = json.loads(path.read_text())
    assert plain["servable"] == made.servable == (made.fingerprint is not None)
    assert [level["certified"] for level in plain["levels"]] == [
        isinstance(level, CertifiedLevel) for level in loaded.levels
    ]
    loaded.save(path)
    assert json.loads(path.read_text()) == plain


def test_json_tells_the_story_to_a_reader(certificate: Certificate) -> None:
    plain = certificate.to_json()
    assert plain["format"] == "rlcm-certificate"
    assert plain["version"] == 2
    assert plain["servable"] is True
    assert plain["id"] == certificate.id
    assert plain["promise"] == "simultaneous"
    assert [level["certified"] for level in plain["levels"]] == [False, True, True]
    assert plain["levels"][0]["reason"] == "risk too high: ..."
    assert ExitPolicy.from_scalars(plain["levels"][1]["policy"]) == ExitPolicy(0.1, 64, 0.9, 0.1)


def edit(plain: dict[str, Any], *keys: Any, value: Any) -> None:
    *outer, last = keys
    for key in outer:
        plain = plain[key]
    plain[last] = value


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("delta",), 0.01),
        (("promise",), "pointwise"),
        (("levels", 1, "alpha"), 0.05),
        (("levels", 1, "policy", "lambda_high"), 0.8),
        (("fingerprint", "model"), "another"),
        (("does_not_cover",), []),
        (("created",), "2020-01-01"),
        (("id",), "000000000000"),
        (("digest",), "0" * 64),
        (("note",), "harmless"),
    ],
)
def test_any_edit_is_noticed(
    tmp_path: Path, certificate: Certificate, keys: tuple[Any, ...], value: Any
) -> None:
    plain = json.loads(json.dumps(certificate.to_json()))
    edit(plain, *keys, value=value)
    (tmp_path / "c.json").write_text(json.dumps(plain))
    with pytest.raises(CertificateError, match=r"c\.json: the content does not match its digest"):
        Certificate.load(tmp_path / "c.json")


def test_layout_does_not_matter(tmp_path: Path, certificate: Certificate) -> None:
    plain = dict(reversed(certificate.to_json().items()))
    (tmp_path / "c.json").write_text(json.dumps(plain, indent=7))
    assert Certificate.load(tmp_path / "c.json") == certificate


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "c.json", tmp_path):
        with pytest.raises(CertificateError, match=f"there is no certificate {path}: correct the"):
            Certificate.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "not a certificate"),
        ('{"format": "other"}', "not a certificate"),
        (
            '{"format": "rlcm-certificate", "version": 1}',
            "version 1 is unknown, this release reads 2: fit again, or use the release that wrote",
        ),
        ('{"format": "rlcm-certificate"}', "version None is unknown"),
        ('{"format": "rlcm-certificate", "version": 2}', "does not match its digest None"),
        ('{"format": "rlcm-certificate", "version": 2, "delta": NaN}', "malformed"),
    ],
)
def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CertificateError, match=message):
        Certificate.load(tmp_path / "c.json")


def signed(content: dict[str, Any]) -> dict[str, Any]:
    """With a matching digest, as after an edit by someone who recomputes it."""
    content = {name: value for name, value in content.items() if name not in ("id", "digest")}
    digest = _digest(content)
    return {**content, "digest": digest, "id": digest[:12]}


@pytest.mark.parametrize(
    "change",
    [
        {"levels": None},
        {"levels": [{"alpha": 0.1}]},
        {"promise": "some"},
        {"p_value": "magic"},
        {"procedure": {"samples": 0}},
        {"procedure": None},
        {"fingerprint": {"model": "m0"}},
        {"fingerprint": "m0"},
        {"tested": []},
        {"unknown": 1},
        {"servable": None},
        {"risk": []},
        {"fingerprint": 0},
        {"fingerprint": ""},
        {"groups": []},
        {"levels": [{"alpha": 0.1, "certified": True, "policy": []}]},
    ],
)
def test_a_true_digest_over_nonsense_is_refused(
    certificate: Certificate, change: dict[str, Any]
) -> None:
    with pytest.raises(CertificateError, match="malformed"):
        Certificate.from_json(signed({**certificate.to_json(), **change}))


@pytest.mark.parametrize("missing", ["servable", "levels", "tested", "calibration_digest"])
def test_a_true_digest_over_missing_fields(certificate: Certificate, missing: str) -> None:
    content = certificate.to_json()
    del content[missing]
    with pytest.raises(CertificateError, match="malformed"):
        Certificate.from_json(signed(content))


def test_thresholds_out_of_order_are_refused(certificate: Certificate) -> None:
    content = json.loads(json.dumps(certificate.to_json()))
    content["levels"][1]["policy"]["lambda_low"] = 0.95
    with pytest.raises(CertificateError, match=r"threshold reaches 0\.95 and lambda_high is 0\.9"):
        Certificate.from_json(signed(content))


def test_traces_and_certificate_both_have_a_fingerprint_or_neither_does(
    certificate: Certificate, fingerprint: Fingerprint
) -> None:
    unknown = replace(certificate, fingerprint=None)
    assert not unknown.servable
    unknown.require_traces(None)
    with pytest.raises(CertificateError, match="only the traces have a fingerprint"):
        unknown.require_traces(fingerprint)
    with pytest.raises(CertificateError, match="only the certificate has a fingerprint"):
        certificate.require_traces(None)


def test_traces_may_be_of_another_number_of_samples(
    certificate: Certificate, fingerprint: Fingerprint
) -> None:
    """Samples are simulated, not recorded."""
    certificate.require_traces(replace(fingerprint, samples=8, vote="majority"))
    with pytest.raises(
        CertificateError, match=r"temperature: 0.8 here, 1.0 there\. Record the traces"
    ):
        certificate.require_traces(replace(fingerprint, temperature=1.0))


class TestSimultaneous:
    @pytest.mark.parametrize(("asked", "served"), [(0.1, 0.1), (0.15, 0.1), (0.2, 0.2), (0.9, 0.2)])
    def test_largest_certified_level_below(
        self, certificate: Certificate, asked: float, served: float
    ) -> None:
        assert certificate.level_for(asked).alpha == served

    def test_falls_through_to_a_smaller_certified_level(
        self, make_certificate: MakeCertificate
    ) -> None:
        certificate = make_certificate(certified(0.05), infeasible(0.1))
        assert certificate.level_for(0.1).alpha == 0.05

    def test_order_of_levels_does_not_matter(self, make_certificate: MakeCertificate) -> None:
        certificate = make_certificate(certified(0.2), certified(0.1))
        assert certificate.level_for(0.15).alpha == 0.1
        assert certificate.level_for(0.5).alpha == 0.2

    def test_infeasible_says_what_can_be_had(self, certificate: Certificate) -> None:
        with pytest.raises(InfeasibleAlpha) as error:
            certificate.level_for(0.07)
        assert error.value.alpha == 0.07
        assert error.value.smallest_served == 0.1
        assert error.value.smallest_certifiable == 0.034
        assert str(error.value) == (
            "no policy is certified at alpha = 0.07 (risk too high: ...); ask for alpha >= 0.1; "
            "the smallest certifiable alpha is 0.034"
        )

    def test_below_every_level(self, certificate: Certificate) -> None:
        with pytest.raises(InfeasibleAlpha, match="below every level of the certificate"):
            certificate.level_for(0.01)

    def test_nothing_certified_at_all(self, make_certificate: MakeCertificate) -> None:
        with pytest.raises(InfeasibleAlpha, match="no level of this certificate is") as error:
            make_certificate(infeasible(0.1)).level_for(0.5)
        assert error.value.smallest_served is None


class TestPointwise:
    def test_largest_listed_level_below(self, make_certificate: MakeCertificate) -> None:
        levels = (infeasible(0.05), certified(0.1), certified(0.2))
        certificate = make_certificate(*levels, promise=Promise.POINTWISE)
        assert certificate.level_for(0.19).alpha == 0.1
        assert certificate.level_for(0.2).alpha == 0.2
        with pytest.raises(InfeasibleAlpha, match="risk too high"):
            certificate.level_for(0.06)

    def test_never_falls_through(self, make_certificate: MakeCertificate) -> None:
        levels = (certified(0.05), infeasible(0.1))
        certificate = make_certificate(*levels, promise=Promise.POINTWISE)
        with pytest.raises(InfeasibleAlpha) as error:
            certificate.level_for(0.1)
        assert error.value.smallest_served == 0.05
        assert "; ask for alpha = 0.05; " in str(error.value)  # 0.1 is above it, and not served


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan")])
def test_alpha_must_be_a_rate(certificate: Certificate, alpha: float) -> None:
    with pytest.raises(CalibrationError, match="alpha is"):
        certificate.level_for(alpha)
