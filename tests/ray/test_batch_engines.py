"""Which engine answers a row of a file."""

import pytest

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
