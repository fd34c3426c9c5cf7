import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration import (
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    ExitPolicy,
    Fingerprint,
    InfeasibleAlpha,
    InfeasibleLevel,
    Level,
    Promise,
)

MakeCertificate = Callable[..., Certificate]


def certified(alpha: float) -> CertifiedLevel:
    return CertifiedLevel(
        alpha=alpha,
        policy=ExitPolicy(0.1, 64, 0.9, alpha),
        p_value=0.01,
        n_answered=150,
        n_wrong=3,
        risk=0.02,
        risk_upper=0.06,
        share_answered=0.75,
        share_right=0.735,
        expected_tokens=210.5,
        full_budget_tokens=400.25,
    )


def infeasible(alpha: float) -> InfeasibleLevel:
    return InfeasibleLevel(alpha, "risk too high: ...", p_value=0.4, n_answered=9, n_wrong=1)


@pytest.fixture
def make_certificate(fingerprint: Fingerprint) -> MakeCertificate:
    def make(*levels: Level, promise: Promise = Promise.SIMULTANEOUS) -> Certificate:
        return Certificate(
            risk="selective",
            delta=0.1,
            promise=promise,
            method="by hand",
            levels=levels,
            n_problems=200,
            n_order_problems=100,
            n_policies=12,
            smallest_certifiable_alpha=0.034,
            covers="new problems",
            does_not_cover=("old problems", "no problems"),
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


def test_json_tells_the_story_to_a_reader(certificate: Certificate) -> None:
    plain = certificate.to_json()
    assert plain["format"] == "rlcm-certificate"
    assert plain["version"] == 1
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not a certificate"),
        ('{"format": "other"}', "not a certificate"),
        ('{"format": "rlcm-certificate", "version": 2}', "version 2 is unknown"),
        ('{"format": "rlcm-certificate", "version": 1}', "does not match its digest None"),
        ('{"format": "rlcm-certificate", "version": 1, "delta": NaN}', "malformed"),
    ],
)
def test_what_is_no_certificate_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CertificateError, match=message):
        Certificate.load(tmp_path / "c.json")


def test_a_true_digest_over_missing_fields_is_refused(certificate: Certificate) -> None:
    from calibration.certificate import _digest

    content = {"format": "rlcm-certificate", "version": 1, "promise": "pointwise"}
    digest = _digest(content)
    with pytest.raises(CertificateError, match="malformed"):
        Certificate.from_json({**content, "digest": digest, "id": digest[:12]})


def test_another_engine_is_refused(certificate: Certificate, fingerprint: Fingerprint) -> None:
    certificate.require(fingerprint)
    with pytest.raises(CertificateError, match="probe: 'p0' here, 'p1' there; samples: 1 here, 4"):
        certificate.require(replace(fingerprint, probe="p1", samples=4))


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


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan")])
def test_alpha_must_be_a_rate(certificate: Certificate, alpha: float) -> None:
    with pytest.raises(CalibrationError, match="alpha is"):
        certificate.level_for(alpha)
