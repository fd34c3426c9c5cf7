"""Two replicas behind Ray's proxy: the tests of one service, then of what only several can show."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import httpx
import psutil
import pytest

from tests.ray.on_ray import engine_of, replicas_of, serving_on_ray, until_ready
from tests.served import Served
from tests.service.clients import LONG, Client, until
from tests.service.test_connections import (
    test_a_broken_body_gets_a_status,
    test_a_question_is_answered_whatever_follows_it,
    test_a_request_names_one_host,
    test_http_1_0_needs_no_host,
    test_ordinary_chunks_are_taken,
)
from tests.service.test_hostile_clients import (
    test_405_names_all_methods_of_a_path,
    test_a_path_is_served_under_one_name_alone,
    test_headers_without_end_are_cut_off,
    test_json_that_is_none_is_refused_as_such,
    test_lengths_that_can_be_read_in_two_ways_are_refused,
    test_many_headers_that_fit_are_taken,
)
from tests.service.test_main_job import (
    test_a_question_is_answered_under_the_shipped_certificate,
    test_a_question_that_is_cut_by_time_is_no_abstention_under_the_guarantee,
    test_a_stream_tells_of_the_samples_the_vote_and_the_answer,
    test_an_infeasible_alpha_names_the_smallest_that_could_be,
    test_another_procedure_is_answered_without_a_guarantee,
    test_bad_input_names_the_field,
    test_several_samples_have_a_certificate_of_their_own,
    test_the_certificate_of_an_answer_is_active_and_listed,
)

pytestmark = pytest.mark.ray

# Fixtures of this module take the place of those beside these tests.
__all__ = [
    "test_405_names_all_methods_of_a_path",
    "test_a_broken_body_gets_a_status",
    "test_a_path_is_served_under_one_name_alone",
    "test_a_question_is_answered_under_the_shipped_certificate",
    "test_a_question_is_answered_whatever_follows_it",
    "test_a_question_that_is_cut_by_time_is_no_abstention_under_the_guarantee",
    "test_a_request_names_one_host",
    "test_a_stream_tells_of_the_samples_the_vote_and_the_answer",
    "test_an_infeasible_alpha_names_the_smallest_that_could_be",
    "test_another_procedure_is_answered_without_a_guarantee",
    "test_bad_input_names_the_field",
    "test_headers_without_end_are_cut_off",
    "test_http_1_0_needs_no_host",
    "test_json_that_is_none_is_refused_as_such",
    "test_lengths_that_can_be_read_in_two_ways_are_refused",
    "test_many_headers_that_fit_are_taken",
    "test_ordinary_chunks_are_taken",
    "test_several_samples_have_a_certificate_of_their_own",
    "test_the_certificate_of_an_answer_is_active_and_listed",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Ordered as they are written: the last tests kill replicas, and the last one stops it."""
    with serving_on_ray(tmp_path_factory.mktemp("ray")) as running:
        yield running


@pytest.fixture
def open_(served: Served) -> tuple[str, None]:
    return served.url, None


@pytest.fixture
def url(served: Served) -> str:
    return served.url


def test_a_response_has_one_id_and_it_is_the_clients_own(served: Served) -> None:
    response = served.client.get("/health", headers={"X-Request-ID": "mine"})
    assert response.headers.get_list("x-request-id") == ["mine"]
    spoilt = served.client.get(
        "/health", headers={"X-Request-ID": b"\xff", "X-Session-ID": b"\xff"}
    )
    assert spoilt.status_code == 200


def test_no_header_of_a_client_lets_its_question_run_on_without_it(served: Served) -> None:
    """Ray has a header with which it ignores that a client has left."""
    stays = {"x-request-disconnect-disabled": "?1"}
    body = {"problem": "A dial shows 3. A up 5.", "stream": True, **LONG}
    with httpx.stream("POST", f"{served.url}/solve", json=body, headers=stays) as response:
        next(response.iter_lines())
    until(lambda: all(value == 0 for value in samples_running(served)))


def samples_running(served: Served) -> list[float]:
    """What replicas report, asked often enough to hear all of them."""
    return [served.metric("rlcm_engine_requests") for _ in range(8)]


def test_all_replicas_answer_and_have_a_log_of_their_own(
    served: Served, threads: ThreadPoolExecutor
) -> None:
    clients, asking = ask(threads, served, plain=4, streamed=4)
    wait(asking)
    assert [client.status for client in clients] == [200] * 8
    assert len([*served.log.parent.glob("engine*.log")]) == 2


def test_a_killed_replica_loses_only_its_own_questions_and_says_so(
    served: Served, threads: ThreadPoolExecutor
) -> None:
    clients, asking = ask(threads, served, plain=4, streamed=4)
    victim, survivor = replicas_of(served)
    orphan = engine_of(victim)
    victim.send_signal(signal.SIGKILL)
    wait(asking)
    lost = [client for client in clients if not answered(client)]
    assert 0 < len(lost) < 8, "each replica had some"
    for client in lost:
        assert client.problem["type"] == "urn:rlcm:problem:engine-dead"
        assert client.names[-1:] == ["error"] or client.headers["retry-after"]
    assert served.solve().status_code == 200, "the other replica answers"
    until(lambda: not orphan.is_running())
    until_ready(served, begins=3)
    assert survivor in replicas_of(served)


def test_a_replica_whose_engine_dies_is_replaced(
    served: Served, threads: ThreadPoolExecutor
) -> None:
    before = {one.pid for one in replicas_of(served)}
    clients, asking = ask(threads, served, plain=4, streamed=4)
    victim = replicas_of(served)[0]
    engine_of(victim).send_signal(signal.SIGKILL)
    wait(asking)
    lost = [client for client in clients if not answered(client)]
    # All or none, if Ray's router did not know the new replica yet.
    assert {client.problem["status"] for client in lost} <= {503}
    psutil.wait_procs([victim], timeout=30)
    until_ready(served, begins=4)
    assert len({one.pid for one in replicas_of(served)} - before) == 1


def test_sigterm_lets_finish_what_runs_and_leaves_nothing(
    served: Served, threads: ThreadPoolExecutor
) -> None:
    clients, asking = ask(threads, served, plain=4, streamed=4)
    family = served.family()
    served.process.terminate()
    until(lambda: served.client.get("/readyz").status_code == 503)
    assert served.solve().json()["type"] == "urn:rlcm:problem:not-ready"
    wait(asking)
    assert all(answered(client) for client in clients)
    assert served.process.wait(60) == 0
    assert not psutil.wait_procs(family, timeout=30)[1]


def ask(
    threads: ThreadPoolExecutor, service: Served, plain: int, streamed: int
) -> tuple[list[Client], list[Future[Client]]]:
    """As `clients.ask`, for several replicas: each metrics page tells of one of them."""
    clients = [Client(service, number >= plain) for number in range(plain + streamed)]
    asking = [threads.submit(client.ask) for client in clients]
    until(lambda: all("checkpoint" in client.names for client in clients[plain:]))
    return clients, asking


def answered(client: Client) -> bool:
    return client.status == 200 and client.names[-1:] in ([], ["done"])
