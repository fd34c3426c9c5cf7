"""Keys behind Ray's proxy, with one replica: what opens the service, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from tests.ray.on_ray import serving_on_ray
from tests.served import QUESTION, Served
from tests.service.clients import until
from tests.service.test_hostile_clients import (
    Wire,
    problem_in,
    test_no_spelling_of_a_path_opens_it,
    test_nothing_but_the_key_opens,
)

pytestmark = pytest.mark.ray

__all__ = ["test_no_spelling_of_a_path_opens_it", "test_nothing_but_the_key_opens"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    folder = tmp_path_factory.mktemp("keys") / "state"
    folder.mkdir()
    database = Database(f"sqlite:///{folder / 'rlcm.db'}", 5.0)
    yield Keys(database)
    database.close()


@pytest.fixture(scope="module")
def served(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    key, _ = keys.create("a client", ["solve"])
    folder = tmp_path_factory.getbasetemp() / "keys0"
    with serving_on_ray(folder, "--auth", "on", replicas=1) as running:
        running.client.headers["Authorization"] = f"Bearer {key}"
        yield running


@pytest.fixture
def locked(served: Served) -> tuple[str, None, str]:
    return served.url, None, served.client.headers["Authorization"].removeprefix("Bearer ")


def test_the_key_opens_until_it_is_revoked(served: Served, keys: Keys) -> None:
    key, stored = keys.create("another client", ["solve"])
    header = {"X-API-Key": key}
    asked = {"problem": QUESTION, "alpha": 0.1}
    assert httpx.post(f"{served.url}/solve", json=asked, headers=header).status_code == 200
    keys.revoke(stored.id)
    until(lambda: httpx.get(f"{served.url}/v1/models", headers=header).status_code == 401)


def test_what_is_open_needs_no_key(served: Served) -> None:
    assert httpx.get(f"{served.url}/readyz").status_code == 200
    assert httpx.get(f"{served.url}/metrics").status_code == 401


def test_slow_clients_get_what_the_service_itself_gives_them(
    served: Served, threads: ThreadPoolExecutor
) -> None:
    """At the real limits, which takes a minute."""
    key = served.client.headers["Authorization"].encode()
    post = b"POST /solve HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n" % key
    typed = post + b"Content-Type: application/json\r\nContent-Length: 60\r\n\r\n"
    sent = [b"", b"GET /hea", typed, typed + b'{"prob']
    responses = threads.map(lambda data: patient_response(served.url, data), sent)
    assert [problem_in(response, 408)["status"] for response in responses] == [408] * len(sent)


def patient_response(url: str, data: bytes) -> bytes:
    with Wire(url) as wire:
        wire.socket.settimeout(120)
        wire.send(data)
        return wire.rest()
