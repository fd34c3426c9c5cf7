"""A certificate: which policy keeps which risk, for exactly what, and how sure that is."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from calibration.errors import CertificateError, InfeasibleAlpha
from calibration.exit_rule import ExitPolicy
from calibration.fingerprint import Fingerprint
from calibration.fwer import Promise
from calibration.pvalues import require_rate

FORMAT = "rlcm-certificate"
VERSION = 1


@dataclass(frozen=True, slots=True)
class CertifiedLevel:
    """A risk level and the policy that keeps it.

    Certified is one thing: with the probability and promise of the certificate, the risk of
    `policy` is at most `alpha`. `risk_upper` is a second statement: with probability 1 - delta the
    risks of all policies on the tested path lie below their bounds at once, so it holds for this
    one however it was chosen; it may exceed `alpha`. Every other figure is measured on the
    problems on which the policy was chosen, and so tends to be optimistic.

    Attributes:
        alpha: the risk that is kept.
        policy: the exit policy to serve with.
        p_value: of H: risk > alpha, on the calibration problems.
        n_answered: calibration problems that were answered.
        n_wrong: of those, answered wrong.
        risk: n_wrong / n_answered.
        risk_upper: Clopper-Pearson bound at delta / length of the path.
        share_answered: of all calibration problems.
        share_right: answered and right, of all calibration problems.
        expected_tokens: mean reasoning and answer tokens per problem.
        full_budget_tokens: the same without early exits.
    """

    alpha: float
    policy: ExitPolicy
    p_value: float
    n_answered: int
    n_wrong: int
    risk: float
    risk_upper: float
    share_answered: float
    share_right: float
    expected_tokens: float
    full_budget_tokens: float

    @property
    def certified(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class InfeasibleLevel:
    """A risk level at which nothing was certified.

    Attributes:
        alpha: the risk asked for.
        reason: "n too small: ..." or "risk too high: ...", with the numbers.
        p_value: of the first policy of the path, the one that failed.
        n_answered: calibration problems that policy answered.
        n_wrong: of those, answered wrong.
    """

    alpha: float
    reason: str
    p_value: float
    n_answered: int
    n_wrong: int

    @property
    def certified(self) -> bool:
        return False


Level = CertifiedLevel | InfeasibleLevel


@dataclass(frozen=True, slots=True)
class Certificate:
    """Levels of risk, the promise they share, and what they were measured on.

    Attributes:
        risk: name of the risk, "selective": of the questions answered, the share answered wrong.
        delta: the probability with which the promise may fail.
        promise: whether all levels hold at once or each alone.
        method: the test, in words.
        levels: by rising alpha.
        n_problems: calibration problems, the ones that were tested.
        n_order_problems: other problems, on which the path of policies was laid out.
        n_policies: length of that path.
        smallest_certifiable_alpha: the smallest alpha at which the path's first policy passes the
            test; it says where to refit, and promises nothing.
        covers: what the promise covers.
        does_not_cover: what it does not.
        fingerprint: what was calibrated.
        calibration_digest: digest of the calibration traces.
        order_digest: digest of the traces that laid out the path.
        created: ISO date, None if the maker did not say.
    """

    risk: str
    delta: float
    promise: Promise
    method: str
    levels: tuple[Level, ...]
    n_problems: int
    n_order_problems: int
    n_policies: int
    smallest_certifiable_alpha: float
    covers: str
    does_not_cover: tuple[str, ...]
    fingerprint: Fingerprint
    calibration_digest: str
    order_digest: str
    created: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the content. It reveals an edit; it is no signature, and proves no author."""
        return _digest(self._content())

    @property
    def id(self) -> str:
        """The first 12 characters of the digest."""
        return self.digest[:12]

    def level_for(self, alpha: float) -> CertifiedLevel:
        """The level that serves a request for risk `alpha`.

        - Simultaneous: the largest certified level <= alpha. All levels hold at once, so alpha may
          be chosen after looking.
        - Pointwise: the largest listed level <= alpha, and none if that one failed. To fall through
          to another would spend delta twice.

        Raises:
            CalibrationError: alpha is not in (0, 1).
            InfeasibleAlpha: nothing is certified there.
        """
        require_rate("alpha", alpha)
        listed = sorted(
            (level for level in self.levels if level.alpha <= alpha), key=lambda level: -level.alpha
        )
        if self.promise is Promise.POINTWISE:
            listed = listed[:1]
        for level in listed:
            if isinstance(level, CertifiedLevel):
                return level
        served = [level.alpha for level in self.levels if level.certified]
        raise InfeasibleAlpha(
            alpha,
            reason=_why_none(listed),
            smallest_served=min(served, default=None),
            smallest_certifiable=self.smallest_certifiable_alpha,
        )

    def require(self, engine: Fingerprint) -> None:
        """Refuse an engine other than the calibrated one.

        Raises:
            CertificateError: the fingerprints differ; the message lists each difference.
        """
        if differences := self.fingerprint.differences(engine):
            raise CertificateError(
                f"certificate {self.id} was not fitted on this engine (certificate here, engine "
                f"there): {'; '.join(differences)}. Serve the engine it was fitted on, or collect "
                "and fit again"
            )

    def save(self, path: str | Path) -> None:
        """Write the certificate as JSON, whole or not at all; makes its folder if need be."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", "utf-8")
        partial.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a certificate that `save` wrote.

        Raises:
            CertificateError: no certificate, another version, or edited since it was written.
        """
        try:
            return cls.from_json(json.loads(Path(path).read_text("utf-8")))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise CertificateError(f"{path} is not JSON ({error}): fit again") from error
        except CertificateError as error:
            raise CertificateError(f"{path}: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values, its id and digest included."""
        content = self._content()
        digest = _digest(content)
        return {**content, "id": digest[:12], "digest": digest}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The certificate of `to_json`.

        Raises:
            CertificateError: no certificate, another version, or edited since it was made.
        """
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise CertificateError(f"not a certificate: its format is not {FORMAT!r}")
        if values.get("version") != VERSION:
            raise CertificateError(
                f"certificate version {values.get('version')!r} is unknown, this release reads "
                f"{VERSION}: fit again, or use the release that wrote it"
            )
        content = {name: value for name, value in values.items() if name not in ("id", "digest")}
        try:
            digest = _digest(content)
        except ValueError as error:  # NaN, which the reader lets pass and the writer never writes
            raise CertificateError(f"the certificate is malformed ({error}): fit again") from error
        if values.get("digest") != digest or values.get("id") != digest[:12]:
            raise CertificateError(
                f"the content does not match its digest {values.get('digest')!r}: the certificate "
                "was edited or damaged; restore it, or fit again"
            )
        del content["format"], content["version"]
        try:
            return cls(
                **{
                    **content,
                    "promise": Promise(content["promise"]),
                    "levels": tuple(_level_from_json(level) for level in content["levels"]),
                    "does_not_cover": tuple(content["does_not_cover"]),
                    "fingerprint": Fingerprint.from_json(content["fingerprint"]),
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CertificateError(f"the certificate is malformed ({error}): fit again") from error

    def _content(self) -> dict[str, Any]:
        levels = [{"certified": level.certified, **asdict(level)} for level in self.levels]
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            "format": FORMAT,
            "version": VERSION,
            **plain,
            "promise": str(self.promise),
            "levels": levels,
            "does_not_cover": list(self.does_not_cover),
            "fingerprint": self.fingerprint.to_json(),
        }


def _level_from_json(values: Mapping[str, Any]) -> Level:
    figures = dict(values)
    if not figures.pop("certified"):
        return InfeasibleLevel(**figures)
    return CertifiedLevel(**{**figures, "policy": ExitPolicy.from_scalars(figures["policy"])})


def _why_none(listed: list[Level]) -> str:
    for level in listed:
        if isinstance(level, InfeasibleLevel):
            return level.reason
    return "below every level of the certificate"


def _digest(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
