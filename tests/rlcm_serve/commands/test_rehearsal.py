"""`rlcm rehearsal` and `rlcm activate` against a service that listens."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from calibration import ExitPolicy
from rlcm_serve.errors import WorkerFailed
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import PATIENCE
from tests.rlcm_serve.api.test_rehearsals import DECLINES, NEVER_SURE, STOPS_EARLY, SURE
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import certificate
from tests.service.listening import listening

EAGER = ExitPolicy(lambda_low=0.1, patience=16, lambda_high=0.4, lambda_answer=0.4)
CANDIDATE = certificate({0.1: SURE, 0.2: EAGER})
ID = CANDIDATE.id
WIDTH = 80


@dataclass(frozen=True)
class Asked:
    """A service, its client and the command line, which knows its address."""

    rlcm: Rlcm
    client: httpx.Client

    def __call__(self, command: str) -> str:
        """What a command prints; it must succeed and fit a terminal."""
        status, out, error = self.rlcm(command)
        assert status == 0, error
        assert "--json" in command or max(map(len, out.splitlines())) <= WIDTH, out
        return out

    def refused(self, command: str) -> str:
        """What a command that fails says, on one line."""
        status, _, error = self.rlcm(command)
        assert status != 0
        return " ".join(error.split())

    def solve(self, number: int) -> dict[str, Any]:
        body = {"problem": f"Dial {number}?", "alpha": 0.1, "on_infeasible": "full_budget"}
        found: dict[str, Any] = self.client.post("/solve", json=body).json()
        return found

    def until(self, ended: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until a level's figures are as wanted."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            levels = self.client.get(f"/certificates/{ID}/rehearsal").json()["levels"]
            if levels and all(map(ended, levels)):
                return
            time.sleep(0.02)
        raise AssertionError("the figures did not come")


@pytest.fixture
def asked(rlcm: Rlcm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A service with a stored certificate that is not active."""
    settings = Settings(state=tmp_path, database=f"sqlite:///{tmp_path}/one.db", audit_share=1)
    scripts = STOPS_EARLY, NEVER_SURE, DECLINES
    with (
        listening(tmp_path, *scripts, settings=settings) as (url, _),
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        monkeypatch.setenv("RLCM_SERVICE", url)
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        assert client.post("/certificates", json=CANDIDATE.to_json()).is_success
        yield Asked(rlcm, client)


def test_a_certificate_is_rehearsed_and_activated_by_command(asked: Asked) -> None:
    assert "no question yet" in asked(f"rehearsal {ID} --start")
    ids = [asked.solve(number)["id"] for number in range(3)]
    asked.until(lambda level: level["saved"]["of"] == 3)
    before = asked(f"rehearsal {ID}")
    assert before.count("no audited answer has a label yet") == 4
    labels = [{"id": one, "right": True} for one in ids]
    assert asked.client.post("/feedback", json={"answers": labels}).is_success
    asked.until(lambda level: level["lost"]["of"] == 3)
    shown = asked(f"rehearsal {ID}").splitlines()
    assert shown[1] == "alpha 0.1, questions: 3"
    figures = {line[2:15].strip(): line[16:].split("%")[0] for line in shown[2:6]}
    assert figures == {"tokens saved": "33.3", "answered": "66.7", "lost": "66.7", "wrong": "50.0"}
    assert shown[5].endswith("of 2 labelled that it answers")
    assert asked(f"activate {ID} --dry-run").splitlines() == shown
    assert asked.solve(4)["guarantee"] is None
    assert asked(f"activate {ID} --yes").splitlines()[-1] == f"certificate {ID} is active"
    assert asked.solve(5)["guarantee"] is not None


def test_a_certificate_is_activated_only_after_a_yes(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "Aborted" in asked.refused(f"activate {ID}")
    assert asked.solve(1)["guarantee"] is None
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "never rehearsed, so nothing is known of live questions" in asked(f"activate {ID}")
    assert asked.solve(2)["guarantee"] is not None


def test_json_is_the_service_s_own(asked: Asked) -> None:
    started = json.loads(asked(f"rehearsal {ID} --start --json"))
    assert started == asked.client.get(f"/certificates/{ID}/rehearsal").json()
    dry = json.loads(asked(f"activate {ID} --dry-run --json"))
    assert (dry["activated"], dry["active"], dry["rehearsal"]) == (False, False, started)
    done = json.loads(asked(f"activate {ID} --yes --json"))
    assert (done["activated"], done["active"]) == (True, True)


def test_a_rehearsal_that_stops_keeps_its_figures(asked: Asked) -> None:
    asked(f"rehearsal {ID} --start")
    asked.solve(1)
    asked.until(lambda level: level["saved"]["of"] == 1)
    stopped = asked(f"rehearsal {ID} --stop")
    assert " UTC to " in stopped.splitlines()[0]
    assert "alpha 0.1, questions: 1" in stopped
    assert "is not rehearsed now" in asked.refused(f"rehearsal {ID} --stop")


def test_what_a_level_could_not_be_judged_on_is_said(asked: Asked) -> None:
    """The active certificate stops earlier than the rehearsed one would have."""
    early = ExitPolicy(lambda_high=0.4, answer_on_low=True)
    active = certificate({0.1: early}, risk="error")
    asked.client.post("/certificates", json=active.to_json()).raise_for_status()
    asked(f"activate {active.id} --yes")
    stricter = certificate({0.1: ExitPolicy(lambda_high=0.99)})
    asked.client.post("/certificates", json=stricter.to_json()).raise_for_status()
    asked(f"rehearsal {stricter.id} --start")
    body = {"problem": "Dial 1?", "alpha": 0.1, "risk": "error"}
    assert asked.client.post("/solve", json=body).json()["guarantee"] is not None
    shown = asked(f"rehearsal {stricter.id}")
    assert "  tokens saved  at most 0.0%" in shown
    assert "  undecided     1 stopped before this level would have" in shown


def test_comparisons_without_a_result_are_said(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise WorkerFailed("the grader hung")

    monkeypatch.setattr("rlcm_serve.api.monitoring.comparisons.verdicts_of", fails)
    asked(f"rehearsal {ID} --start")
    label = {"id": asked.solve(1)["id"], "right": True}
    assert asked.client.post("/feedback", json={"answers": [label]}).is_success
    asked.until(lambda level: level["missing"] == 1)
    shown = asked(f"rehearsal {ID}")
    assert "  missing       1 of unknown outcome count as lost and wrong; the lower" in shown


def test_mistakes_are_told_with_their_remedy(asked: Asked) -> None:
    assert "there is no certificate 'nothing'" in asked.refused("rehearsal nothing")
    never = asked.refused(f"rehearsal {ID}")
    assert f"`rlcm rehearsal {ID} --start`" in never
    assert "not both" in asked.refused(f"rehearsal {ID} --start --stop")
    elsewhere = asked.refused(f"rehearsal {ID} --service http://127.0.0.1:9")
    assert "cannot be reached" in elsewhere
