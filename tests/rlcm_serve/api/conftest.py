"""With the variable TEST_THROUGH_RAY, clients reach the app through Ray (make test-ray)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rlcm_serve.api import serving

if serving.THROUGH_RAY:
    from tests.ray import relay

    serving.client_of = relay.client_of  # before the tests import it

    @pytest.fixture(scope="session", autouse=True)
    def through_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with relay.relaying(tmp_path_factory.mktemp("relay")):
            yield
