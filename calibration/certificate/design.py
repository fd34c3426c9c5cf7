"""The design of a test: all that it depends on, besides the traces of its problems."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.canonical import canonical_json
from calibration.errors import CalibrationError, CertificateError
from calibration.files import write_text
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.groups import Groups
from calibration.simulation.label_share import LabelShare, replay_labelled
from calibration.simulation.labels import labels_needed
from calibration.simulation.losses import DrawnLabels
from calibration.simulation.predictions import predicted_losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import Replay, replay
from calibration.simulation.risks import Risk
from calibration.testing.anytime import BETS, TRUSTS
from calibration.testing.families import Family
from calibration.testing.fwer import Promise
from calibration.testing.p_values import require_rate
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.traces import Traces

FORMAT = "rlcm-design"
_TEST = f"mixture of {len(BETS)} constant bets"
"""A design of other bets is another design."""
_NAMED = 5
"""Problems that a message names."""
_TEST_OF_SHARE = f"{_TEST} x {len(TRUSTS)} trusts in predictions"


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
        label_share: which share of the problems has a label; None if all do.
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
    label_share: LabelShare | None = None

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

    def measure(
        self, traces: Traces, risk: Risk, policies: Sequence[ExitPolicy] | None = None
    ) -> Replay:
        """The policies on the problems of the test, without the labels that were not drawn.

        Args:
            traces: with the batches of a sequential certificate.
            risk: that of the design.
            policies: other policies than those of the test; they do not change who has a label.

        Raises:
            CalibrationError: see `replay`.
        """
        how = traces, policies or self.tested.policies, risk, self.procedure, self.groups
        if self.label_share is None:
            return replay(*how)
        drawn = self.draw(traces, risk)
        if policies is not None:
            drawn = replace(drawn, predicted_UT=predicted_losses(*how).loss_UT)
        return replay_labelled(drawn, *how)

    def evenly_labelled(self, traces: Traces) -> Traces:
        """A simple random sample of the problems of the test, all of which have a label.

        Args:
            traces: see `measure`.

        Raises:
            CalibrationError: no problem is in the sample.
        """
        if self.label_share is None:
            return traces
        sampled_U = self.label_share.evenly_drawn(self.digest, traces)
        if not sampled_U.any():
            raise CalibrationError(
                f"none of the {traces.n_problems} problems of design {self.id} was drawn with the "
                f"smallest probability of a label, {self.label_share.least:g}: add problems"
            )
        return traces.select(sampled_U[traces.unit_P])

    def needs_label(self, traces: Traces, risk: Risk) -> NDArray[np.bool_]:
        """Which problems (P) need a label; whether they have one makes no difference.

        Args:
            traces: see `measure`.
            risk: that of the design.
        """
        needed_P = labels_needed(traces, self.tested.policies, risk, self.procedure)
        if self.label_share is not None:
            needed_P &= self.draw(traces, risk).labelled_U1[traces.unit_P, 0]
        return needed_P

    def require_labels(self, traces: Traces, risk: Risk) -> None:
        """Refuse traces in which a problem has no label, and the test reads it.

        Args:
            traces: see `measure`.
            risk: that of the design.

        Raises:
            CalibrationError: the message names the problems.
        """
        if traces.unlabelled_P is None or not traces.unlabelled_P.any():
            return
        missing_P = traces.unlabelled_P & self.needs_label(traces, risk)
        if missing_P.any():
            names = [traces.problem_ids[p] for p in np.flatnonzero(missing_P)]
            some = ", ".join(map(repr, names[:_NAMED])) + (", ..." if names[_NAMED:] else "")
            raise CalibrationError(
                f"{len(names)} problems that need a label have none: {some}. Label all that "
                "`rlcm labels` lists and grade again with `rlcm regrade`; to leave some out would "
                "void the promise"
            )

    def draw(self, traces: Traces, risk: Risk) -> DrawnLabels:
        """Which units have a label, in the order of `Traces.unit_P`; no label is read.

        Args:
            traces: see `measure`.
            risk: that of the design.

        Raises:
            CalibrationError: all problems have one, or see `replay`.
        """
        if self.label_share is None:
            raise CalibrationError(f"under design {self.id} all problems have a label")
        policies = self.tested.policies
        how = traces, policies, risk, self.procedure, self.groups
        return self.label_share.draw(self.digest, *how)

    def to_json(self) -> dict[str, Any]:
        """The design as plain JSON values."""
        share = self.label_share
        return {
            "format": FORMAT,
            "test": _TEST if share is None else _TEST_OF_SHARE,
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
            **({} if share is None else {"label_share": asdict(share)}),
        }

    def save(self, path: str | Path) -> None:
        """Write the design as JSON, completely or not at all; creates the folder if needed."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {**self.to_json(), "digest": self.digest}
        write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The design from the content of a file that `save` wrote.

        Raises:
            CertificateError: it is no design, is one of another release, or was edited.
        """
        try:
            groups, fingerprint = values["groups"], values["fingerprint"]
            share = values.get("label_share")
            for rate in (values["delta"], *values["alphas"]):
                require_rate("delta or alpha", rate)
            if not isinstance(values["risk"], str):
                raise TypeError(f"risk is {values['risk']!r}")
            design = cls(
                risk=values["risk"],
                alphas=tuple(values["alphas"]),
                delta=values["delta"],
                promise=Promise(values["promise"]),
                procedure=Procedure(**values["procedure"]),
                tested=Family.from_json(values["tested"]),
                groups=None if groups is None else Groups.from_json(groups),
                fingerprint=None if fingerprint is None else Fingerprint.from_json(fingerprint),
                n_order_problems=values["n_order_problems"],
                order_digest=values["order_digest"],
                label_share=share and LabelShare(**share),
            )
            digest = design.digest
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise CertificateError(f"the design is malformed ({error}): write it again") from error
        if values.get("digest") != digest:
            raise CertificateError(
                f"the content does not match its digest {values.get('digest')!r}: the design was "
                "edited, or made by a release with other bets; restore it, or start a new one"
            )
        return design
