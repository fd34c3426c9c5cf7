"""Three services on one PostgreSQL, killed under load: nothing is lost, doubled or out of date."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.serving.siege.replicas import SCRIPTED, Plan, kill_in_turn
from tests.rlcm_serve.postgres import find_programs, running_postgres

pytestmark = pytest.mark.slow

BUSY = 60.0
"""Seconds in place of two: this machine may be busy. The study holds an idle one to two."""


def test_three_services_survive_kills_of_any_of_them(tmp_path: Path) -> None:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's programs (initdb, pg_ctl) are not on this machine")
    plan = Plan(rounds=3, jobs=2)
    with running_postgres(programs) as server:
        account = kill_in_turn(tmp_path, server.new_database(), plan, SCRIPTED, BUSY)
    assert account.wrong == []
    assert (account.rounds, account.jobs) == (3, 2)
