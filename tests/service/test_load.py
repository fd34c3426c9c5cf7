"""Many clients at a time: nothing is lost, nothing is kept. The engine is the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psutil
import pytest

from studies.serving.load import Footprint, Tally, load, metrics
from tests.served import Served, serving

GONE = "rlcm_http_clients_gone_total"
REQUESTS = "rlcm_http_requests_total"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose engine forgets kernels soon.

    oneDNN keeps one for each shape of a batch that it has seen, up to 1024 of them, some hundred
    MiB; that is no leak, and would hide one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4")
        with serving(tmp_path_factory.mktemp("load")) as running:
            yield running


def loaded(served: Served, clients: int, seconds: float) -> tuple[Tally, Footprint, Footprint]:
    """What became of the requests, and the footprint before and after.

    The warm-up is the same again: buffers, caches and thread pools grow to what so many clients
    need, and stay there.
    """
    process = psutil.Process(served.process.pid)
    warm = asyncio.run(load(served.url, clients, seconds, seed=1))
    assert warm.lost == []
    before = Footprint.of(process, served.url)
    tally = asyncio.run(load(served.url, clients, seconds))
    return tally, before, Footprint.of(process, served.url)


def hold_against(
    served: Served, clients: int, seconds: float, service_mib: float, engine_mib: float
) -> None:
    counted = metrics(served.url)
    tally, before, after = loaded(served, clients, seconds)
    recounted = metrics(served.url)

    assert tally.lost == []
    assert len(tally.answered) == 8, "all kinds of requests were among them"
    assert tally.left.total() > 0
    assert recounted[GONE] > counted.get(GONE, 0)
    # The service knows of each, and of no more; it is asked for its metrics a few times as well.
    assert recounted[REQUESTS] - counted[REQUESTS] >= tally.sent

    assert after.requests == before.requests == 0
    # A connection that was just dropped may still be open on this end of it.
    assert after.files <= before.files + 2
    assert after.threads <= before.threads + 1
    # Fragmentation moves memory by a few MiB either way; a leak of one answer with its events per
    # request would be tens of them.
    assert after.service_mib - before.service_mib < service_mib
    assert after.engine_mib - before.engine_mib < engine_mib


@pytest.mark.engine
def test_some_load_loses_and_leaks_nothing(served: Served) -> None:
    hold_against(served, clients=16, seconds=8, service_mib=16, engine_mib=32)


@pytest.mark.load
def test_a_minute_of_load_loses_and_leaks_nothing(served: Served) -> None:
    hold_against(served, clients=64, seconds=60, service_mib=24, engine_mib=32)
