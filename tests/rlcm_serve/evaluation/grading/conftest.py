"""The sandbox in each form that this machine can have."""

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

from rlcm_serve.evaluation.grading.sandbox import Sandbox
from tests.rlcm_serve.evaluation.grading.sandboxes import LIMITS, SandboxOfNobody


@pytest.fixture(scope="module", params=["namespaces", "limits alone"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Both ways of running programs, where this machine has them."""
    with pytest.MonkeyPatch.context() as patch:
        yield started(Sandbox(LIMITS, namespaces=request.param == "namespaces"), patch)


@pytest.fixture(scope="module", params=["namespaces", "limits alone", "of an ordinary user"])
def any_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Also where programs run as the user who evaluates."""
    if request.param != "of an ordinary user":
        with pytest.MonkeyPatch.context() as patch:
            yield started(Sandbox(LIMITS, namespaces=request.param == "namespaces"), patch)
        return
    try:
        sandbox = SandboxOfNobody()
    except RuntimeError as error:
        pytest.skip(str(error))
    yield sandbox
    sandbox.close()


def started(sandbox: Sandbox, patch: pytest.MonkeyPatch) -> Sandbox:
    """After a first program, run by a Python that it may read."""
    asked = sandbox.is_apart is None
    try:
        list(sandbox.run("", [""]))
    except RuntimeError:  # this Python is in root's own folder; the system's is not
        system = shutil.which("python3", path=os.defpath)
        if system is None:
            pytest.skip("there is no Python that another user may read")
        patch.setattr(sys, "executable", system)
        list(sandbox.run("", [""]))
    if asked and not sandbox.is_apart:
        pytest.skip("no namespaces may be made here")
    return sandbox
