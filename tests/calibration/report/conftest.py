"""A certificate, its traces, and the summary that reports and report data show."""

from typing import Any

import numpy as np
import pytest

from calibration import Certificate, Chain, Traces, certify, family_of_chains
from calibration.report.summary import Summary, summarize
from tests.calibration.report.two_chains import ALPHAS, POLICIES


@pytest.fixture(scope="session")
def traces(world: Any) -> Traces:
    """The traces that `certificate` is fitted on."""
    drawn: Traces = world.draw(np.random.default_rng(1), 400)
    return drawn


@pytest.fixture(scope="session")
def test_traces(world: Any) -> Traces:
    """Traces of problems that the fit did not use."""
    drawn: Traces = world.draw(np.random.default_rng(2), 150, prefix="t")
    return drawn


@pytest.fixture(scope="session")
def certificate(traces: Traces) -> Certificate:
    """A certificate with policies at all levels except the first."""
    chains = [Chain(POLICIES[:4], 0.6), Chain(POLICIES[4:], 0.4)]
    family = family_of_chains([chains] * len(ALPHAS), "two chains")
    fitted = certify(traces, alphas=ALPHAS, family=family, created="2026-01-02")
    assert [level.certified for level in fitted.levels] == [False, True, True]
    return fitted


@pytest.fixture(scope="session")
def summary(certificate: Certificate, traces: Traces, test_traces: Traces) -> Summary:
    """The summary of the certificate, its traces and the test traces."""
    return summarize(certificate, traces, test_traces, None)
