"""Options for Ray Serve, and the autoscaling policy."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from rlcm_serve.errors import SettingsRefused
from rlcm_serve.ray.scale import SAMPLES, BySamples, Scale, samples_of
from rlcm_serve.settings import Settings


def test_ray_hands_a_replica_all_that_its_queue_can_hold() -> None:
    settings = Settings(max_running=10, max_waiting=20, drain_s=7)
    options = Scale(replicas=3).options(settings)
    assert options["num_replicas"] == 3
    assert options["max_ongoing_requests"] > 30
    assert options["graceful_shutdown_timeout_s"] > 7


def test_a_service_without_a_queue_has_the_shortest_that_ray_knows() -> None:
    assert Scale().options(Settings(max_waiting=0))["max_queued_requests"] == 1


def test_one_gpu_is_the_replicas_own_and_several_are_a_placement_group() -> None:
    one = Scale(gpus=1).options(Settings())
    assert one["ray_actor_options"]["num_gpus"] == 1
    assert "placement_group_bundles" not in one
    four = Scale(gpus=4, cpus=2).options(Settings())
    assert "num_gpus" not in four["ray_actor_options"]
    assert sum(bundle.get("GPU", 0) for bundle in four["placement_group_bundles"]) == 4
    assert max(bundle.get("GPU", 0) for bundle in four["placement_group_bundles"]) == 1
    assert four["placement_group_bundles"][0] == {"CPU": 2}


def test_fewer_at_most_than_at_least_are_refused() -> None:
    with pytest.raises(
        SettingsRefused, match=re.escape("max-replicas is 1, below replicas, which is 2")
    ):
        Scale(replicas=2, most_replicas=1)


@pytest.mark.parametrize(
    ("reported", "replicas"), [([], 1), ([0, 0], 1), ([64, 64], 2), ([64, 65], 3), ([500], 8)]
)
def test_replicas_follow_the_samples(reported: list[float], replicas: int) -> None:
    figures = {SAMPLES: {f"r{number}": each for number, each in enumerate(reported)}}
    context: Any = SimpleNamespace(aggregated_metrics=figures)
    assert BySamples(64)(context) == (replicas, {})


@pytest.mark.parametrize(
    ("samples", "running", "waiting", "expected"), [(0, 0, 0, 0), (8, 2, 3, 20), (0, 0, 4, 4)]
)
def test_waiting_questions_count_as_many_samples_as_running_ones(
    samples: int, running: int, waiting: int, expected: float
) -> None:
    context: Any = SimpleNamespace(
        admission=SimpleNamespace(running=running, waiting=waiting),
        service=SimpleNamespace(engine=SimpleNamespace(in_flight=samples)),
    )
    assert samples_of(context) == expected
