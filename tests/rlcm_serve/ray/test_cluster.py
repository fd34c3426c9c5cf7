"""What is refused before a cluster starts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from rlcm_serve.api.server.http_server import listen
from rlcm_serve.errors import SettingsRefused
from rlcm_serve.ray import cluster
from rlcm_serve.ray.scale import Scale
from rlcm_serve.settings import Settings
from tests.rlcm_serve.command_line import Rlcm


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
@pytest.mark.parametrize("command", ["ray serve", "solve --file q.jsonl --ray 2"])
def test_without_ray_the_commands_say_how_to_install_it(rlcm: Rlcm, command: str) -> None:
    Path("q.jsonl").write_text('{"problem": "What is 2 + 2?"}')
    status, _, err = rlcm(command)
    assert status == 1
    assert "pip install '.[ray]'` in the checkout" in err


def test_an_address_that_the_proxy_cannot_take_is_refused_before_ray_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: cluster.__spec__)
    with pytest.raises(SettingsRefused, match="port is 0"):
        cluster.run(Settings(port=0, state=tmp_path), Scale())
    (taken,) = listen("127.0.0.1", 0)
    with taken, pytest.raises(SettingsRefused, match="stop what listens there"):
        cluster.run(Settings(port=taken.getsockname()[1], state=tmp_path), Scale())
