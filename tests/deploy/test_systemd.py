"""The systemd unit, as systemd itself reads it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from rlcm_serve.settings import Settings

UNIT = Path(__file__).parents[2] / "deploy/systemd/rlcm-serve@.service"


def assignments() -> dict[str, str]:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#[")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/opt/rlcm-serve/.venv/bin/rlcm", "/bin/true"))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, [one for one in ran.stderr.splitlines() if unit.name in one]) == (0, [])


def test_a_replica_is_given_the_time_to_finish() -> None:
    assert float(assignments()["TimeoutStopSec"]) > Settings().drain_s + 10


def test_it_starts_the_service_with_settings_that_exist() -> None:
    named = [word.partition("=")[0] for word in assignments()["Environment"].split()]
    ours = {name.removeprefix("RLCM_").lower() for name in named if name.startswith("RLCM_")}
    assert ours == {"state"}
    assert ours <= set(Settings.model_fields)
    assert assignments()["ExecStart"].split()[1:] == ["serve", "--port", "%i"]


def test_the_state_folder_is_the_users_alone() -> None:
    """It holds keys' digests, questions and answers; by default systemd lets everybody read it."""
    assert (assignments()["StateDirectoryMode"], assignments()["UMask"]) == ("0700", "0077")
