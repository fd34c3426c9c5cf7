"""Jobs that fit a certificate again after its guarantee was withdrawn, with the same settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calibration.certificate.certificate import Certificate
from calibration.simulation.groups import Average
from rlcm_serve.core import RiskName, VoteRule
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.solving.fingerprints import fitted_on
from rlcm_serve.solving.service import Service
from rlcm_serve.solving.slots import ServedUnder
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.job import CalibrationRequest

_BY_HAND = "post a job with settings of its own, and activate its certificate"


class Replacement(NamedTuple):
    """A job that replaces a certificate whose guarantee was withdrawn.

    Attributes:
        request: with the settings of the certificate.
        profiles: all that the certificate is for.
        setup: of the engine under these, as in `ServedUnder`.
        since: Unix time of the withdrawal, after which the problems must be drawn.
    """

    request: CalibrationRequest
    profiles: tuple[str, ...]
    setup: str
    since: float


def replacing(certificates: CertificateStore, service: Service, id_: str) -> Replacement:
    """What replaces a certificate whose guarantee was withdrawn. It blocks.

    Raises:
        NotFound: there is no such certificate.
        NotReady: no engine has started yet.
        RequestRefused: its guarantee was not withdrawn, or it is for another engine or budget.
        RequestRefused: as `as_before`.
    """
    identities = service.guarantees.identities
    kept = certificates.kept(id_, identities)
    restoring = certificates.restoring(kept.certificate)
    if restoring is None:
        raise RequestRefused(
            "replace",
            f"the guarantee of certificate {id_} was not withdrawn: leave out replace, and give "
            "the settings of the job",
        )
    if not kept.profiles:
        raise RequestRefused("replace", f"this engine cannot replace {id_}: {kept.misfit}")
    fitting = [one for one in identities if one.profile.name in kept.profiles]
    budget = fitted_on(kept.certificate).max_tokens
    alike = [one for one in fitting if one.budget.thinking == budget]
    if not alike:
        raise RequestRefused(
            "replace",
            f"{id_} is for a thinking budget of {budget} tokens, and a job records at the "
            f"profile's, {fitting[0].budget.thinking}: record with `rlcm collect --max-tokens "
            f"{budget}`, fit, and upload the certificate",
        )
    request = as_before(kept.certificate, alike[0].profile.name, restoring.delta)
    setup = ServedUnder.of(alike[0]).setup
    return Replacement(request, kept.profiles, setup, restoring.since)


def require_audited(problems: Sequence[LabelledProblem]) -> None:
    """Returns if there is any audited question with a reference.

    Raises:
        RequestRefused: there is none.
    """
    if not problems:
        raise RequestRefused(
            "data",
            "no audited question since the withdrawal has a reference answer and its text: give "
            "labelled problems, or set audit_texts and send references with POST /feedback",
        )


def as_before(certificate: Certificate, profile: str, delta: float) -> CalibrationRequest:
    """The request of a job with the settings of a certificate; the result is activated.

    What learns the policies is today's default: all data are new, so nothing ties it to the method
    of before.

    Args:
        certificate: the one to replace.
        profile: under which the problems are asked.
        delta: of the new certificate.

    Raises:
        RequestRefused: the certificate is for one kind of question, was fitted sequentially, bounds
            a loss of its own, or holds jointly with other statements.
    """
    special = {
        "a certificate of one kind of question": certificate.kind is not None,
        "a sequential certificate, to which problems can be added": certificate.sequential
        is not None,
        "a certificate with other bounds beside its levels": certificate.joint is not None,
        f"a certificate for the loss {certificate.risk!r}": certificate.risk not in list(RiskName),
    }
    for what, is_so in special.items():
        if is_so:
            raise RequestRefused("replace", f"{certificate.id} is {what}: {_BY_HAND}")
    groups, procedure = certificate.groups, certificate.procedure
    return CalibrationRequest(
        risk=RiskName(certificate.risk),
        alphas=tuple(level.alpha for level in certificate.levels),
        delta=delta,
        promise=certificate.promise,
        samples=procedure.samples,
        vote=VoteRule(procedure.vote),
        rollouts=max(procedure.samples, certificate.n_rollouts // certificate.n_problems),
        activate=True,
        profile=profile,
        average=Average.PROBLEMS if groups is None else groups.average,
        max_group_size=None if groups is None else groups.max_size,
        replaces=certificate.id,
    )
