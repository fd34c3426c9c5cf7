"""One certificate, its traces, and the summary that reports and their data show."""

from typing import Any

import numpy as np
import pytest

from calibration import Certificate, Chain, Traces, certify, family_of_chains
from calibration.report.summary import Summary, summarize
from tests.calibration.report.two_chains import ALPHAS, POLICIES


@pytest.fixture(scope="session")
def traces(world: Any) -> Traces:
    """What `certificate` is fitted on."""
    drawn: Traces = world.draw(np.random.default_rng(1), 400)
    return drawn


@pytest.fixture(scope="session")
def test_traces(world: Any) -> Traces:
    """Problems that had no part in that."""
    drawn: Traces = world.draw(np.random.default_rng(2), 150, prefix="t")
    return drawn


@pytest.fixture(scope="session")
def certificate(traces: Traces) -> Certificate:
    """Certified at all levels but the first."""
    chains = [Chain(POLICIES[:4], 0.6), Chain(POLICIES[4:], 0.4)]
    family = family_of_chains([chains] * len(ALPHAS), "two chains")
    fitted = certify(traces, alphas=ALPHAS, family=family, created="2026-01-02")
    assert [level.certified for level in fitted.levels] == [False, True, True]
    return fitted


@pytest.fixture(scope="session")
def summary(certificate: Certificate, traces: Traces, test_traces: Traces) -> Summary:
    """Of all of these."""
    return summarize(certificate, traces, test_traces, None)
