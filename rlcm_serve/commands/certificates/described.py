"""What `rlcm fit` says of a certificate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcm_serve.commands.certificates.options import say

if TYPE_CHECKING:
    from calibration import Certificate, Kind, Level


def describe(certificate: Certificate, out: Path) -> None:
    """Prints what a certificate holds, and where it is."""
    if certificate.kind is not None:
        say(_what_kind(certificate.kind, certificate.n_problems))
    for level in certificate.levels:
        say(_in_words(certificate, level))
    if certificate.sequential is not None:
        number = len(certificate.sequential.batches)
        say(f"batch {number} under the design {certificate.sequential.design}")
    if certificate.label_share is not None:
        share = certificate.label_share.share
        say(f"about {share:.0%} of the problems have a label, and figures are estimates from these")
    for line in _jointly(certificate):
        say(line)
    if not certificate.servable:
        say("not servable: the traces have no fingerprint")
    say(f"certificate {certificate.id} is in {out}")


def to_json(certificate: Certificate, out: Path) -> dict[str, Any]:
    """What `describe` says, as JSON values."""
    from calibration.certificate.levels import level_to_json

    kind, sequential, joint = certificate.kind, certificate.sequential, certificate.joint
    return {
        "file": str(out),
        "certificate": certificate.id,
        "risk": certificate.risk,
        "kind": None if kind is None else asdict(kind),
        "n_problems": certificate.n_problems,
        "servable": certificate.servable,
        "design": None if sequential is None else sequential.design,
        "batches": None if sequential is None else len(sequential.batches),
        "label_share": certificate.label_share and asdict(certificate.label_share),
        "levels": [level_to_json(level) for level in certificate.levels],
        "joint": None if joint is None else joint.to_json(),
    }


def _what_kind(kind: Kind, n_problems: int) -> str:
    """Which questions a certificate is for, and on how many it was tested."""
    from calibration.certificate.kinds import named

    on = f"{n_problems} problems"
    if kind.name is not None:
        return f"{kind.by} {kind.name!r}, on {on}:"
    few = f"; too few labels for certificates of {named(kind.pooled)}" if kind.pooled else ""
    return f"all kinds, on {on}{few}:"


def _in_words(certificate: Certificate, level: Level) -> str:
    """One level of a certificate in one line."""
    from calibration import CertifiedLevel
    from calibration.certificate.levels import equal_levels

    if not isinstance(level, CertifiedLevel):
        return f"alpha {level.alpha:g}: not certified. {level.reason}"
    saved = 1 - level.expected_tokens / level.full_budget_tokens
    answered = (
        f"{level.share_answered:.0%} of the questions are answered, "
        if certificate.risk == "selective"
        else ""
    )
    first = [run[0] for run in equal_levels(certificate.levels) if level.alpha in run[1:]]
    same = f"; the same policy as at alpha {first[0]:g}" if first else ""
    return (
        f"alpha {level.alpha:g}: certified. On the calibration problems the {certificate.risk} "
        f"risk is {level.risk:.3f}, {answered}{saved:.0%} of the tokens are saved{same}"
    )


def _jointly(certificate: Certificate) -> list[str]:
    """What holds jointly with each certified level, in lines of text."""
    from calibration.certificate.wording import at_most

    joint = certificate.joint
    if joint is None:
        return []
    which = "answered questions" if certificate.risk == "selective" else "questions"
    lines = []
    for number, level in enumerate(certificate.levels):
        if level.certified:
            bounds = ((one.risk, one.bounds[number]) for one in joint.bounds)
            said = [f"{risk} at most {at_most(most)}" for risk, most in bounds if most is not None]
            if joint.next is not None:
                said.append(
                    f"of the next {joint.next.questions} {which} at most "
                    f"{joint.next.most[number]} go wrong"
                )
            lines.append(f"alpha {level.alpha:g}, at the same time: {'; '.join(said)}")
    return lines
