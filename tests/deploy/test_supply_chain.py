"""`make sbom` and `make audit`, as they are: they install their tools on first use."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:1"


def make(target: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--silent", target],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_the_sbom_is_the_lock_and_the_project() -> None:
    ran = make("sbom")
    assert ran.returncode == 0, ran.stderr
    for name in ("cpu", "cuda"):
        bom = json.loads((ROOT / f"build/sbom/rlcm-serve-{name}.cdx.json").read_text())
        assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
        assert bom["metadata"]["component"]["name"] == "rlcm-serve"
        lock = (ROOT / f"requirements/{name}.lock").read_text()
        listed = {(part["name"], part["version"]) for part in bom["components"]}
        assert listed == set(re.findall(r"^([^#\s=]+)==(\S+)", lock, re.MULTILINE))
        hashes = {
            digest["content"]
            for part in bom["components"]
            for reference in part["externalReferences"]
            for digest in reference["hashes"]
        }
        assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", lock))


def test_an_audit_that_cannot_look_up_anything_fails_and_says_so() -> None:
    assert make(".venv-supply/.locked").returncode == 0
    ran = make("audit", HTTPS_PROXY=NOWHERE, https_proxy=NOWHERE)
    assert ran.returncode != 0
    assert "Not passed." in ran.stdout
    assert "No known vulnerabilities found" not in ran.stdout + ran.stderr
