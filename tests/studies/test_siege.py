"""The requests of a siege: over every route, and the same again for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest

from rlcm_serve.settings import Settings
from studies.serving.siege.shots import BROKEN, Shooter
from tests.service.listening import listening

KEYS = dict.fromkeys(("admin", "solve", "other", "metrics", "label", "revoked"), "rlcm_key")


@pytest.fixture(scope="module")
def shooter(tmp_path_factory: pytest.TempPathFactory) -> Shooter:
    state = tmp_path_factory.mktemp("state")
    with listening(state, settings=Settings(state=state)) as (_, running):
        document = running.app.openapi()
    return Shooter(document, {"calibrations": ["0123456789ab"]})


def test_a_seed_and_a_number_name_a_request(shooter: Shooter) -> None:
    first = [shooter.shot(7, number).encode(KEYS) for number in range(3000)]
    assert [shooter.shot(7, number).encode(KEYS) for number in reversed(range(3000))] == first[::-1]
    assert len(set(first)) > 1500
    assert shooter.shot(8, 5).encode(KEYS) != first[5]


def test_every_route_is_asked_with_every_kind_of_key(shooter: Shooter) -> None:
    shots = [shooter.shot(7, number) for number in range(3000)]
    assert {shot.route for shot in shots} == {*shooter.routes}
    asked = Counter((shot.route, shot.role in BROKEN) for shot in shots)
    assert all(asked[route, broken] for route in shooter.routes for broken in (True, False))
    assert {shot.role for shot in shots} == {*KEYS, *BROKEN}
