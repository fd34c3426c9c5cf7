"""Certificates of engines with a familiarity check: about the questions that pass it, no others."""

from dataclasses import replace

import numpy as np
import pytest

from calibration import CertificateError, Fingerprint, Traces, certify, verify
from calibration.certificate.evaluate import replay_certificate

CUTOFF = 0.004


def gated(world, n: int, unfamiliar: int, seed: int = 0) -> Traces:
    """Traces of a world in which the first problems are unfamiliar, and always answered wrong."""
    traces = world.draw(np.random.default_rng(seed), n)
    fingerprint: Fingerprint = replace(
        traces.fingerprint, familiarity="f0", familiarity_cutoff=CUTOFF
    )
    first_P = np.arange(n) < unfamiliar
    first_R = first_P[traces.problem_R]
    return replace(
        traces,
        fingerprint=fingerprint,
        familiarity_P=np.where(first_P, CUTOFF, 0.5),
        correct_RC=traces.correct_RC & ~first_R[:, None],
        confidence_RC=np.where(first_R[:, None], 0.999, traces.confidence_RC),
    )


def test_a_fit_counts_the_problems_that_pass_and_says_so(world) -> None:
    everything = gated(world, 400, unfamiliar=40)
    traces = everything.passing()
    made = certify(traces, alphas=[0.2])
    assert traces.n_problems == made.n_problems + made.n_order_problems == 360
    assert made.levels[0].certified
    assert made.levels[0].risk < 0.2
    assert "Only problems that pass the familiarity check count" in made.covers
    assert any("familiarity check flags" in limit for limit in made.does_not_cover)
    made.check()
    assert verify(made, traces) == []
    # Of all problems, 40 are answered wrong with the highest confidence.
    (level,) = certify(replace(everything, familiarity_P=None), alphas=[0.1]).levels
    assert not level.certified
    assert certify(everything, alphas=[0.2]) == made, "those that do not pass are left out"


@pytest.mark.parametrize("field", ["covers", "does_not_cover"])
def test_a_certificate_that_is_silent_about_its_check_contradicts_itself(world, field: str) -> None:
    traces = gated(world, 300, unfamiliar=0)
    silent = certify(replace(traces, fingerprint=None), alphas=[0.2])
    made = replace(certify(traces, alphas=[0.2]), **{field: getattr(silent, field)})
    with pytest.raises(CertificateError, match=field):
        made.check()


def test_other_traces_are_replayed_without_unfamiliar_problems_only_with_the_same_check(
    world,
) -> None:
    made = certify(gated(world, 300, unfamiliar=0), alphas=[0.2])
    (found,) = replay_certificate(made, gated(world, 300, unfamiliar=30, seed=1).passing())
    assert found.evaluation is not None
    assert found.evaluation.n_units == 270
    other = world.draw(np.random.default_rng(2), 50)
    with pytest.raises(CertificateError, match="familiarity"):
        replay_certificate(made, other)
