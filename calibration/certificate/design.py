"""The design of a test: all that it depends on, besides the traces of its problems."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from calibration.canonical import canonical_json
from calibration.errors import CertificateError
from calibration.files import write_text
from calibration.simulation.groups import Average, Groups
from calibration.simulation.procedure import Procedure
from calibration.testing.anytime import BETS
from calibration.testing.families import Family
from calibration.testing.fwer import Promise
from calibration.traces.fingerprint import Fingerprint

FORMAT = "rlcm-design"
_TEST = f"mixture of {len(BETS)} constant bets"
"""A design of other bets is another design."""


@dataclass(frozen=True, slots=True)
class Design:
    """What a test fixes before it sees the first label.

    Attributes:
        risk: name of the risk.
        alphas: risk levels, rising.
        delta: the probability with which the guarantee may fail.
        promise: whether the levels hold simultaneously or pointwise.
        procedure: how one question is answered.
        tested: the policies, and how the error budget is spent on them.
        groups: how groups of problems enter the risk; None if every problem is a unit of its own.
        fingerprint: what is calibrated, with the samples and the vote of the procedure.
        n_order_problems: other problems, that policies or their order were learned on.
        order_digest: digest of the traces of these; None if there are none.
    """

    risk: str
    alphas: tuple[float, ...]
    delta: float
    promise: Promise
    procedure: Procedure
    tested: Family
    groups: Groups | None
    fingerprint: Fingerprint | None
    n_order_problems: int = 0
    order_digest: str | None = None

    @property
    def id(self) -> str:
        """The first 12 characters of the digest."""
        return self.digest[:12]

    @property
    def digest(self) -> str:
        """SHA-256 of the content. Who publishes it before the first problem has committed to it."""
        return hashlib.sha256(canonical_json(self.to_json())).hexdigest()

    def require_traces(self, recorded: Fingerprint | None, named: str) -> None:
        """Refuse traces with another fingerprint; samples and vote are simulated, not recorded.

        Args:
            recorded: the fingerprint of the traces.
            named: what has this design, as "certificate 0c5e03f51a2b", for the message.

        Raises:
            CertificateError: the fingerprints differ; the message lists all differences.
        """
        if (recorded is None) != (self.fingerprint is None):
            carrying = f"{named.split()[0]} has" if recorded is None else "traces have"
            raise CertificateError(
                f"only the {carrying} a fingerprint, so {named} and these traces cannot be "
                "compared: use traces recorded with the same settings"
            )
        if recorded is None or self.fingerprint is None:
            return
        alike = replace(recorded, samples=self.procedure.samples, vote=self.procedure.vote)
        if differences := self.fingerprint.differences(alike):
            raise CertificateError(
                f"the traces and {named} have different fingerprints ({named} here, traces "
                f"there): {'; '.join(differences)}. Record the traces with the calibrated model "
                "and settings"
            )

    def to_json(self) -> dict[str, Any]:
        """The design as plain JSON values."""
        return {
            "format": FORMAT,
            "test": _TEST,
            "risk": self.risk,
            "alphas": list(self.alphas),
            "delta": self.delta,
            "promise": str(self.promise),
            "procedure": asdict(self.procedure),
            "tested": self.tested.to_json(),
            "groups": self.groups and asdict(self.groups),
            "fingerprint": self.fingerprint and self.fingerprint.to_json(),
            "n_order_problems": self.n_order_problems,
            "order_digest": self.order_digest,
        }

    def save(self, path: str | Path) -> None:
        """Write the design as JSON, completely or not at all."""
        content = {**self.to_json(), "digest": self.digest}
        write_text(Path(path), json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The design from the content of a file that `save` wrote.

        Raises:
            CertificateError: it is no design, is one of another release, or was edited.
        """
        try:
            groups, fingerprint = values["groups"], values["fingerprint"]
            design = cls(
                risk=values["risk"],
                alphas=tuple(values["alphas"]),
                delta=values["delta"],
                promise=Promise(values["promise"]),
                procedure=Procedure(**values["procedure"]),
                tested=Family.from_json(values["tested"]),
                groups=groups and Groups(Average(groups["average"]), groups["max_size"]),
                fingerprint=fingerprint and Fingerprint.from_json(fingerprint),
                n_order_problems=values["n_order_problems"],
                order_digest=values["order_digest"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CertificateError(f"the design is malformed ({error}): write it again") from error
        if values.get("digest") != design.digest:
            raise CertificateError(
                f"the content does not match its digest {values.get('digest')!r}: the design was "
                "edited, or made by a release with other bets; restore it, or start a new one"
            )
        return design
