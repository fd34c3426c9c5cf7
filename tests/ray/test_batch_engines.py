"""Which engine answers a row of a file."""

from typing import Any

import pytest

from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import plain_text

pytestmark = pytest.mark.ray


def test_a_question_that_comes_again_goes_to_the_engine_that_knows_it() -> None:
    """It is recognised whatever its white space, as first asks are."""
    from rlcm_serve.ray.batch import Engines  # needs Ray

    engines = Engines(range(7), {})
    for number in range(50):
        question = f"What is {number} + 1?"
        other = f" What  is {number} + 1?\n"
        assert plain_text(question) == plain_text(other)
        assert engines._actor(question) == engines._actor(other)


async def test_a_refusal_before_the_start_stays_one() -> None:
    from rlcm_serve.ray.actors import Failure
    from rlcm_serve.ray.batch import Engine

    def build(_: Any) -> Any:
        raise RequestRefused("profile", "profile is 'nosuch', which is not served here")

    engine = Engine(build, *[None] * 3)  # type: ignore[arg-type]
    expected = Failure("profile", "profile is 'nosuch', which is not served here")
    assert await engine.start() == expected
    await engine.stop()
