"""Ray starts replicas by the samples that they report. Here they have no engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray import serve

from rlcm_serve.ray.cluster import ENVIRONMENT, cluster
from rlcm_serve.ray.scale import SAMPLES, Scale
from rlcm_serve.settings import Settings
from tests.ray.on_ray import SECONDS_TO_READY
from tests.served import free_port
from tests.service.clients import until

pytestmark = pytest.mark.ray


class Busy:
    """Reports as many samples as the file says; replicas after the first one report none."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def record_autoscaling_stats(self) -> dict[str, float]:
        is_first = serve.get_replica_context().rank.rank == 0
        return {SAMPLES: float(self._file.read_text()) if is_first else 0.0}


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    os.environ.update(ENVIRONMENT)
    found = Settings(state=tmp_path, port=free_port())
    with cluster(found):
        yield found


def test_replicas_are_started_and_ended_by_samples(settings: Settings) -> None:
    samples = settings.state / "samples"
    samples.write_text("130")
    options = Scale(1, most_replicas=4, samples=64, cpus=0.1).options(settings)
    options["autoscaling_config"] |= {"upscale_delay_s": 0.1, "downscale_delay_s": 0.1}
    serve.run(serve.deployment(Busy, name="busy", **options).bind(samples), name="busy")
    until(lambda: running() == 3, SECONDS_TO_READY)
    samples.write_text("64")
    until(lambda: running() == 1, SECONDS_TO_READY)


def running() -> int:
    states = serve.status().applications["busy"].deployments["busy"].replica_states
    return states.get("RUNNING", 0) if {*states} <= {"RUNNING"} else -1
