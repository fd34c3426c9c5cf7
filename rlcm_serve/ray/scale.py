"""How many replicas there are, and what each takes of the cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlcm_serve.errors import SettingsRefused

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

    from rlcm_serve.api.context import Context
    from rlcm_serve.settings import Settings

SAMPLES = "samples"
"""The figure that each replica reports for autoscaling."""
CHECKED_EVERY = 2.0
"""Seconds between two health checks of a replica, and between two reports of its samples."""
_OTHER_REQUESTS = 64
"""Requests that a replica takes beside questions, such as those for its metrics."""
_LAST_SECONDS = 15.0
"""Seconds that a replica has, after its requests, to stop its engine."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Replicas and their resources.

    Attributes:
        replicas: at least.
        most_replicas: at most; None for always `replicas`.
        samples: that one replica should have, running or waiting; more replicas are started above
            it, and stopped below it.
        cpus: that Ray counts for a replica.
        gpus: of one replica; vLLM's own arguments say how it divides the model over them.

    Raises:
        SettingsRefused: `most_replicas` is below `replicas`.
    """

    replicas: int = 1
    most_replicas: int | None = None
    samples: int = 64
    cpus: float = 1.0
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.most_replicas is not None and self.most_replicas < self.replicas:
            raise SettingsRefused(
                f"max-replicas is {self.most_replicas}, below replicas, which is {self.replicas}: "
                "raise it, or leave it out for a fixed number"
            )

    def options(self, settings: Settings) -> dict[str, Any]:
        """Options of the deployment, under Ray Serve's names.

        A replica queues its questions itself, fairly between keys, so Ray hands on all of them.
        """
        return {
            "max_ongoing_requests": settings.max_running + settings.max_waiting + _OTHER_REQUESTS,
            "max_queued_requests": max(1, settings.max_waiting),  # Ray has no 0
            "health_check_period_s": CHECKED_EVERY,
            "graceful_shutdown_timeout_s": settings.drain_s + _LAST_SECONDS,
            "logging_config": {"enable_access_log": False},  # the service writes its own
            **self._number(),
            **self._resources(),
        }

    def _number(self) -> dict[str, Any]:
        if self.most_replicas is None:
            return {"num_replicas": self.replicas}
        policy = {
            "policy_function": f"{BySamples.__module__}:{BySamples.__name__}",
            "policy_kwargs": {"samples": self.samples},
        }
        bounds = {"min_replicas": self.replicas, "max_replicas": self.most_replicas}
        return {"autoscaling_config": {**bounds, "policy": policy}}

    def _resources(self) -> dict[str, Any]:
        """With several GPUs a placement group, from which vLLM takes one GPU for each worker."""
        if self.gpus <= 1:
            return {"ray_actor_options": {"num_cpus": self.cpus, "num_gpus": self.gpus}}
        workers = [{"CPU": 1.0, "GPU": 1.0} for _ in range(self.gpus)]
        return {
            "ray_actor_options": {"num_cpus": self.cpus},
            "placement_group_bundles": [{"CPU": self.cpus}, *workers],
            "placement_group_strategy": "PACK",
        }


class BySamples:
    """Ray Serve's autoscaling policy: so many replicas that each has `samples` samples.

    Requests say too little: one question may have 1 sample or 64.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """The number of replicas before Ray's own bounds and delays, and no state."""
        reported = (context.aggregated_metrics or {}).get(SAMPLES, {})
        return max(1, math.ceil(sum(reported.values()) / self._samples)), {}


def samples_of(context: Context) -> float:
    """Samples that run in a replica, and those that its waiting questions are expected to have.

    Waiting questions are taken to have as many samples as running ones.
    """
    running, samples = context.admission.running, context.service.engine.in_flight
    each = max(1.0, samples / running) if running else 1.0
    return samples + each * context.admission.waiting
