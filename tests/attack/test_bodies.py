"""No body that the service takes holds its event loop, from one key or from many."""

from __future__ import annotations

import pytest

from tests.attack.bodies import AT_THE_LIMIT, CHAT, RESPONSES, SOLVE, solve
from tests.attack.target import Target

pytestmark = pytest.mark.attack
AT_ONCE = 8
PATHS = {"/solve": SOLVE, "/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}
REFUSED = {400, 413, 422, 429}


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, bodies in PATHS.items() for name in bodies]
)
def test_a_body_from_many_keys_leaves_the_loop_free(target: Target, path: str, name: str) -> None:
    with target.watched() as watch:
        responses = target.flood([PATHS[path][name]] * AT_ONCE, path)
    assert {response.status_code for response in responses} <= {200} | REFUSED
    watch.require_a_free_loop()
    assert all(len(response.content) < 10_000 for response in responses)


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_a_body_at_the_limits_leaves_the_loop_free(target: Target, name: str) -> None:
    with target.watched() as watch:
        responses = target.flood([AT_THE_LIMIT[name]] * AT_ONCE)
    assert {response.status_code for response in responses} == {422}
    assert not any("at most" in response.json()["detail"] for response in responses), "no limit"
    watch.require_a_free_loop()


def test_large_bodies_of_one_key_do_not_hold_up_the_questions_of_another(target: Target) -> None:
    large = [SOLVE["special tokens"]] * 100
    with target.watched() as watch:
        responses = target.flood([*large, solve()], keys=1)
    assert responses[-1].status_code == 200
    watch.require_a_free_loop()
