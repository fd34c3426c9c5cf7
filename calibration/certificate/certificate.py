"""A certificate: which policy keeps which risk, for which engine, and with what probability."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from calibration.canonical import canonical_json
from calibration.certificate.batches import Batches
from calibration.certificate.consistency import require_consistent
from calibration.certificate.design import Design
from calibration.certificate.kinds import Kind
from calibration.certificate.levels import (
    CertifiedLevel,
    InfeasibleLevel,
    Level,
    level_from_json,
    level_to_json,
)
from calibration.errors import CertificateError, InfeasibleAlpha
from calibration.files import write_text
from calibration.simulation.groups import Groups
from calibration.simulation.label_share import LabelShare
from calibration.simulation.losses import Losses
from calibration.simulation.procedure import Procedure
from calibration.testing.families import Family
from calibration.testing.fwer import Promise
from calibration.testing.joint import Joint
from calibration.testing.p_values import PValue, require_rate
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import KIND
from calibration.traces.traces import Traces

FORMAT = "rlcm-certificate"
VERSION = 2
_LEFT_OUT_IF_NONE = ("groups", "sequential", "kind", "ordered_by", "joint", "label_share")
"""Fields that a file has only where they are used: older certificates keep their digests."""
CONTENT = "content"
"""Of `Certificate.ordered_by`."""
_Part = TypeVar("_Part")


@dataclass(frozen=True)  # no slots, so that it can cache its digest, which every answer names
class Certificate:
    """Risk levels, the guarantee they share, and the data they were measured on.

    Attributes:
        risk: name of the risk: "selective", "error", "regret", or the name of a custom loss.
        delta: the probability with which the guarantee may fail.
        promise: whether the levels hold simultaneously or pointwise.
        procedure: how one question is answered.
        method: the tests and the source of the policies, as text.
        p_value: name of the test.
        tested: the tested policies, and how the error budget was spent on them.
        levels: by rising alpha.
        n_problems: calibration problems, those of the test.
        n_units: exchangeable units among them: groups, and problems without a group.
        n_rollouts: rollouts of these problems.
        n_order_problems: other problems, on which the order of the policies was learned; 0 if none.
        smallest_certifiable_alpha: the smallest certifiable alpha: the smallest certified alpha or,
            if lower, the smallest at which a level's first policy would be certified, at its share
            of delta; 1 if none would. That policy was chosen without outcomes. The number says
            where a fit on as many new problems may succeed; it is not a guarantee.
        covers: what the guarantee covers.
        does_not_cover: what it does not cover.
        fingerprint: what was calibrated; None if the traces do not say. Then no engine can be
            checked against it.
        calibration_digest: digest of the traces of the test.
        order_digest: digest of the traces that gave the order; None if there are none.
        created: ISO date; None if it was not given.
        groups: how groups of problems enter the risk; None if every problem is a unit of its own.
        sequential: the batches in which problems came, if the certificate is valid at all times
            while problems are added; None if the number of problems was fixed before.
        kind: which kind of question it is for, and what holds together with it; None if it does not
            distinguish kinds.
        ordered_by: what ordered units, draws and splits: the `CONTENT` of the traces, which nobody
            can choose. None if the names of the problems did, as up to version 0.2; `verify` does
            not know that order any more.
        joint: what holds jointly with the levels, and has a part of delta; None if nothing does.
        label_share: which share of the problems has a label; None if all do. With it, figures that
            depend on labels are estimates from the problems that have one.
    """

    risk: str
    delta: float
    promise: Promise
    procedure: Procedure
    method: str
    p_value: PValue
    tested: Family
    levels: tuple[Level, ...]
    n_problems: int
    n_units: int
    n_rollouts: int
    n_order_problems: int
    smallest_certifiable_alpha: float
    covers: str
    does_not_cover: tuple[str, ...]
    fingerprint: Fingerprint | None
    calibration_digest: str
    order_digest: str | None = None
    created: str | None = None
    groups: Groups | None = None
    sequential: Batches | None = None
    kind: Kind | None = None
    ordered_by: str | None = None
    joint: Joint | None = None
    label_share: LabelShare | None = None

    @property
    def whole_delta(self) -> float:
        """The probability with which anything may fail that holds together with this certificate.

        Its own tests may fail with probability `delta`.
        """
        if self.kind is not None:
            return self.kind.delta
        return self.delta if self.joint is None else self.joint.delta

    @property
    def kinds_column(self) -> str:
        """The column of traces that holds the kinds of the problems."""
        return KIND.name if self.kind is None else self.kind.by

    @property
    def about(self) -> str | None:
        """The one kind of question that it is for; None if it is for all kinds."""
        return None if self.kind is None else self.kind.name

    @property
    def servable(self) -> bool:
        """Whether an engine can be checked against it: it has a fingerprint."""
        return self.fingerprint is not None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content. It reveals edits; it is no signature and proves no author."""
        return _digest(self._content())

    @property
    def id(self) -> str:
        """The first 12 characters of the digest."""
        return self.digest[:12]

    @property
    def design(self) -> Design:
        """What was fixed before the test."""
        return Design(
            risk=self.risk,
            alphas=tuple(level.alpha for level in self.levels),
            delta=self.delta,
            promise=self.promise,
            procedure=self.procedure,
            tested=self.tested,
            groups=self.groups,
            fingerprint=self.fingerprint,
            n_order_problems=self.n_order_problems,
            order_digest=self.order_digest,
            label_share=self.label_share,
        )

    def check(self) -> None:
        """Refuse figures that contradict each other; see `consistency` for what that can reveal.

        Raises:
            CertificateError: the message names the field, its value and what it had to be.
        """
        require_consistent(self)

    def level_for(self, alpha: float) -> CertifiedLevel:
        """The level that serves a request for risk `alpha`.

        - Simultaneous: the largest certified level <= alpha. All levels hold at once, so alpha may
          be chosen after seeing them, but not after an ask of the same question.
        - Pointwise: the largest listed level <= alpha, and none if that level failed. Falling back
          to another level would spend delta twice.

        Raises:
            CalibrationError: alpha is not in (0, 1).
            InfeasibleAlpha: no policy is certified there.
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
        served = [level.alpha for level in self.certified_levels]
        raise InfeasibleAlpha(
            alpha,
            reason=_why_none(listed),
            smallest_served=min(served, default=None),
            smallest_certifiable=self.smallest_certifiable_alpha,
        )

    @property
    def certified_levels(self) -> tuple[CertifiedLevel, ...]:
        """The levels that are certified, by rising alpha."""
        return tuple(level for level in self.levels if isinstance(level, CertifiedLevel))

    def require_traces(self, recorded: Fingerprint | None) -> None:
        """Refuse traces with another fingerprint than the certificate.

        Samples and vote may differ: they are simulated, not recorded.

        Raises:
            CertificateError: the fingerprints differ; the message lists all differences.
        """
        self.design.require_traces(recorded, f"certificate {self.id}")

    def in_test_order(self, losses: Losses, traces: Traces) -> Losses:
        """The losses of units, by `Traces.unit_P`, in the order in which the test sees them.

        A test without batches shuffles them itself.
        """
        return losses if self.sequential is None else self.sequential.in_order(losses, traces)

    def problems_of(self, traces: Traces) -> Traces:
        """The problems that the certificate is about: of its kind, and familiar.

        Raises:
            CertificateError: the traces have another fingerprint than the certificate.
            CalibrationError: no problem is left, or the traces have no kinds.
        """
        self.require_traces(traces.fingerprint)
        passing = traces.passing()
        asked = passing if self.kind is None else self.kind.select(passing)
        return asked if self.sequential is None else self.sequential.numbered(asked)

    def save(self, path: str | Path) -> None:
        """Write the certificate as JSON, completely or not at all; creates the folder if needed."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a certificate that `save` wrote.

        Raises:
            CertificateError: there is no such file, it is no certificate, has an unknown version,
                or was edited.
        """
        values = read_json(path, "certificate", "`rlcm fit`")
        try:
            return cls.from_json(values)
        except CertificateError as error:
            raise CertificateError(f"{path}: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values, including id and digest."""
        content = self._content()
        digest = _digest(content)
        return {**content, "id": digest[:12], "digest": digest}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The certificate from the values of `to_json`.

        Raises:
            CertificateError: it is no certificate, has an unknown version, was edited, or its
                figures contradict each other.
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
            json.dumps(content, ensure_ascii=False).encode()
        except ValueError as error:  # NaN or half a surrogate pair: json reads them
            raise CertificateError(f"the certificate is malformed ({error}): fit again") from error
        if values.get("digest") != digest or values.get("id") != digest[:12]:
            raise CertificateError(
                f"the content does not match its digest {values.get('digest')!r}: the certificate "
                "was edited or damaged; restore it, or fit again"
            )
        for name in ("format", "version", "servable"):
            content.pop(name, None)
        try:
            texts = {name: content[name] for name in ("risk", "method", "calibration_digest")}
            texts["tested.source"] = content["tested"]["source"]
            known = {name: content.get(name) for name in ("order_digest", "created")}
            texts |= {name: value for name, value in known.items() if value is not None}
            for name, value in texts.items():
                if not isinstance(value, str):
                    raise TypeError(f"{name} is {value!r}")
            made = cls(
                **{
                    **content,
                    "promise": Promise(content["promise"]),
                    "procedure": Procedure(**content["procedure"]),
                    "p_value": PValue(content["p_value"]),
                    "tested": Family.from_json(content["tested"]),
                    "levels": tuple(level_from_json(level) for level in content["levels"]),
                    "does_not_cover": tuple(content["does_not_cover"]),
                    "fingerprint": _read(Fingerprint.from_json, content["fingerprint"]),
                    "groups": _read(Groups.from_json, content.get("groups")),
                    "sequential": _read(Batches.from_json, content.get("sequential")),
                    "kind": _read(Kind.from_json, content.get("kind")),
                    "joint": _read(Joint.from_json, content.get("joint")),
                    "label_share": _read(_label_share, content.get("label_share")),
                }
            )
            if made.ordered_by not in (None, CONTENT):
                raise ValueError(f"ordered_by is {made.ordered_by!r}")
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise CertificateError(f"the certificate is malformed ({error}): fit again") from error
        made.check()
        if made.digest != digest:
            raise CertificateError(
                "the certificate is malformed (it is not written as `save` writes it): fit again"
            )
        return made

    def canonical_bytes(self) -> bytes:
        """The content in one fixed form; its SHA-256 is the digest."""
        return canonical_json(self._content())

    def _content(self) -> dict[str, Any]:
        levels = [level_to_json(level) for level in self.levels]
        names = [field.name for field in fields(self) if field.name not in _LEFT_OUT_IF_NONE]
        plain = {name: getattr(self, name) for name in names}
        return {
            "format": FORMAT,
            "version": VERSION,
            "servable": self.servable,
            **plain,
            "promise": str(self.promise),
            "procedure": asdict(self.procedure),
            "p_value": str(self.p_value),
            "tested": self.tested.to_json(),
            "levels": levels,
            "does_not_cover": list(self.does_not_cover),
            "fingerprint": self.fingerprint and self.fingerprint.to_json(),
            **({"groups": asdict(self.groups)} if self.groups else {}),
            **({"sequential": self.sequential.to_json()} if self.sequential else {}),
            **({"kind": asdict(self.kind)} if self.kind else {}),
            **({"ordered_by": self.ordered_by} if self.ordered_by else {}),
            **({"joint": self.joint.to_json()} if self.joint else {}),
            **({"label_share": asdict(self.label_share)} if self.label_share else {}),
        }


def read_json(path: str | Path, what: str, made_by: str) -> Any:
    """The content of a certificate's or a design's file.

    Args:
        path: of the file.
        what: it should hold, for the message.
        made_by: the commands that write such files, for the message.

    Raises:
        CertificateError: there is no such file, or it is not JSON.
    """
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CertificateError(
            f"there is no {what} {path}: correct the path, or write one with {made_by}"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CertificateError(
            f"{path} is not JSON ({error}): give a {what} that {made_by} wrote"
        ) from error


def _read(parse: Callable[[Any], _Part], values: Any) -> _Part | None:
    """An optional part of a certificate; null says that it has none."""
    return None if values is None else parse(values)


def _label_share(values: Mapping[str, Any]) -> LabelShare:
    return LabelShare(**values)


def _why_none(listed: list[Level]) -> str:
    for level in listed:
        if isinstance(level, InfeasibleLevel):
            return level.reason
    return "below every level of the certificate"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(content)).hexdigest()
