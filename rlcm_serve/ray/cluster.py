"""Runs the application on a Ray cluster of this machine alone, until a signal."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rlcm_serve.api.composition import open_database
from rlcm_serve.api.server.http_protocol import KEEP_ALIVE
from rlcm_serve.api.server.http_server import listen, url_of
from rlcm_serve.api.server.server import log_form
from rlcm_serve.errors import EngineDead, SettingsRefused
from rlcm_serve.ray.scale import Scale
from rlcm_serve.settings import Settings
from rlcm_serve.telemetry import logs

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "rlcm_serve.ray.proxy:middlewares",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
}
"""Variables of all Ray's processes: no reports to Ray's authors, all log lines also if they are
similar, limits in its proxies, and time for these to start on a busy machine."""
LOGS = "/tmp/ray/session_latest/logs/serve"
"""Where Ray writes what its processes say."""
OBJECT_STORE = 200 * 2**20
"""Bytes of shared memory for Ray's objects. Requests and answers do not go through it."""

_log = logging.getLogger(__name__)


def run(settings: Settings, scale: Scale) -> None:
    """Serves until a signal, then drains the replicas and ends the cluster.

    Raises:
        SettingsRefused: Ray is not installed, the address is taken, or keys are required and none
            exists.
        DatabaseRefused: the database cannot be used.
        EngineDead: the replicas, or Ray's own processes, did not start.
    """
    require_ray()
    url = _url(settings)
    with open_database(settings):
        pass  # creates the tables before replicas need them, and checks that there are keys
    logs.configure(settings.log_level, log_form(settings, sys.stderr))
    with cluster(settings):
        from ray import serve

        from rlcm_serve.ray.replica import NAME, application

        try:
            serve.run(application(settings, scale), name=NAME, route_prefix="/")
        except RuntimeError as error:
            raise EngineDead(f"the replicas did not start; see {LOGS}: {error}") from error
        _log.info("%d replicas are ready at %s", scale.replicas, url)
        _until_signal()
        _log.info("stopping")
        serve.delete(NAME)


def require_ray() -> None:
    """Returns if Ray is installed.

    Raises:
        SettingsRefused: it is not.
    """
    if find_spec("ray") is None:
        raise SettingsRefused("Ray is not installed: run `pip install '.[ray]'` in the checkout")


@contextmanager
def started_ray(address: str | None = "local") -> Iterator[None]:
    """Ray, until the block ends.

    Args:
        address: of a cluster; `local` starts one, whose ports are for this machine alone.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})
    import ray

    own = {"object_store_memory": OBJECT_STORE, "_node_ip_address": "127.0.0.1"}
    ray.init(address, include_dashboard=False, **(own if address == "local" else {}))
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def cluster(settings: Settings) -> Iterator[None]:
    """A cluster of this machine with Serve's proxy, until the block ends.

    Raises:
        EngineDead: Serve's processes did not start.
    """
    with started_ray():
        from ray import serve
        from ray.exceptions import RayError

        http = {"host": settings.host, "port": settings.port, "keep_alive_timeout_s": KEEP_ALIVE}
        try:
            serve.start(http_options=http)
            yield
        except RayError as error:
            raise EngineDead(f"Ray Serve failed; see {LOGS}: {error}") from error
        finally:
            serve.shutdown()


def _url(settings: Settings) -> str:
    """The address, once it is known to be free: Ray's proxy would only log that it is not."""
    if settings.port == 0:
        raise SettingsRefused("port is 0, and Ray's proxy needs a fixed one: give --port")
    sockets = listen(settings.host, settings.port)
    try:
        return url_of(sockets)
    finally:
        for opened in sockets:
            opened.close()


def _until_signal() -> None:
    """Returns at SIGTERM or SIGINT. A second signal ends the process at once."""
    told = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if told.is_set():
            os._exit(128 + number)
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    told.wait()
