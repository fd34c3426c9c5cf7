import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, Gauge, Metric
from prometheus_client.parser import text_string_to_metric_families

from calibration import ExitPolicy, ExitReason
from rlcm_serve.admission import Admission
from rlcm_serve.core import Question
from rlcm_serve.engine.worker.facts import EngineFacts
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.service import Service
from rlcm_serve.store.job import JobState
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.question_metrics import TOKEN_KINDS
from rlcm_serve.telemetry.request_metrics import ServedRequest
from tests.rlcm_serve.scripted_engine import IDENTITY, ScriptedEngine, certificate
from tests.rlcm_serve.telemetry.solutions import QUESTION, sample, solution

pytestmark = pytest.mark.anyio


class Page:
    """What `/metrics` would show now."""

    def __init__(self, metrics: Metrics) -> None:
        page, media_type = metrics.page()
        assert media_type == "text/plain; version=0.0.4; charset=utf-8"
        self.families: dict[str, Metric] = {
            family.name: family for family in text_string_to_metric_families(page.decode())
        }
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self._values[name, frozenset(labels.items())]

    def labelled(self, name: str, label: str) -> Mapping[str, float]:
        """The samples of a family with one label, by its value."""
        values = self.families[name].samples
        return {sample.labels[label]: sample.value for sample in values}


def test_a_page_is_whole_before_anything_happened() -> None:
    page = Page(Metrics())
    assert page("rlcm_questions_total", outcome="abstained", guarantee="given") == 0
    assert set(page.labelled("rlcm_tokens", "kind")) == set(TOKEN_KINDS)
    reasons = {"high", "low", "natural", "budget", "cancelled"}
    assert set(page.labelled("rlcm_exits", "reason")) == reasons
    assert page("rlcm_build_info", version=version("rlcm-serve")) == 1
    assert page("process_resident_memory_bytes") > 1e6
    assert not [name for name in page.families if name.endswith("_created")]


def test_every_family_of_the_service_has_its_prefix_and_a_text() -> None:
    for name, family in Page(Metrics()).families.items():
        assert name.startswith(("rlcm_", "process_"))
        assert len(family.documentation) > 10


def test_a_solution_is_counted_by_what_came_of_it() -> None:
    metrics = Metrics()
    metrics.questions.solved(QUESTION, solution(), 3.0)
    metrics.questions.solved(QUESTION, solution(answer=None, guarantee=None), 30.0)
    page = Page(metrics)
    assert page("rlcm_questions_total", outcome="answered", guarantee="given") == 1
    assert page("rlcm_questions_total", outcome="abstained", guarantee="withheld") == 1
    assert page("rlcm_questions_total", outcome="abstained", guarantee="given") == 0
    assert page("rlcm_question_seconds_sum") == 33
    assert page("rlcm_question_seconds_bucket", le="5.0") == 1
    assert page("rlcm_question_samples_sum") == 6
    assert page("rlcm_answer_confidence_count") == 1
    assert page("rlcm_answer_confidence_bucket", le="0.7") == 0
    assert page("rlcm_answer_confidence_bucket", le="0.75") == 1


def test_samples_are_counted_by_exit_and_confidence() -> None:
    metrics = Metrics()
    broken = sample(ExitReason.BUDGET, float("nan"))
    metrics.questions.solved(QUESTION, solution(), 1.0)
    without = solution(sample(ExitReason.LOW, 0.04), broken, guarantee=None)
    metrics.questions.solved(QUESTION, without, 1.0)
    page = Page(metrics)
    assert page.labelled("rlcm_exits", "reason") == {
        "high": 1,
        "natural": 1,
        "cancelled": 1,
        "low": 1,
        "budget": 1,
    }
    assert page("rlcm_sample_confidence_count", certificate="c0") == 2
    assert page("rlcm_sample_confidence_count", certificate="") == 1
    assert page("rlcm_sample_confidence_bucket", certificate="", le="0.05") == 1
    assert page("rlcm_sample_confidence_bucket", certificate="c0", le="0.65") == 1
    assert page("rlcm_broken_readings_total") == 1


def test_every_token_is_of_one_kind() -> None:
    solved = solution()
    kinds = solved.tokens_by_kind
    assert kinds == {
        "prompt": 50,
        "cached_prompt": 16,
        "reasoning": 80,
        "answer": 6,
        "suffix": 8,
        "discarded": 2,
        "cancelled": 20,
    }
    generated = ("reasoning", "answer", "discarded", "cancelled")
    assert sum(kinds[kind] for kind in generated) == solved.tokens
    metrics = Metrics()
    metrics.questions.solved(QUESTION, solved, 1.0)
    metrics.questions.solved(QUESTION, solved, 1.0)
    expected = {kind: 2.0 * tokens for kind, tokens in kinds.items()}
    assert Page(metrics).labelled("rlcm_tokens", "kind") == expected


def test_savings_and_their_opposite_are_counted_apart() -> None:
    metrics = Metrics()
    cost = solution().tokens
    metrics.questions.solved(QUESTION, solution(expected=cost + 100.0), 1.0)
    metrics.questions.solved(QUESTION, solution(expected=cost - 30.0), 1.0)
    metrics.questions.solved(QUESTION, solution(expected=None), 1.0)
    page = Page(metrics)
    assert page("rlcm_tokens_saved_total") == 100
    assert page("rlcm_tokens_over_total") == 30
    assert page("rlcm_full_budget_tokens_total") == 2 * cost + 70


def test_a_failure_is_counted_by_its_kind() -> None:
    metrics = Metrics()
    metrics.questions.failed("overloaded")
    assert Page(metrics)("rlcm_question_failures_total", kind="overloaded") == 1


def test_requests_are_counted_by_route_and_status() -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.requests.began()
    metrics.requests.ended(ServedRequest("/solve", "POST", 200, 12.0, first_event=0.2))
    metrics.requests.ended(ServedRequest("/solve", "POST", 499, 1.0, client_gone=True))
    page = Page(metrics)
    assert page("rlcm_http_requests_total", route="/solve", method="POST", status="200") == 1
    assert page("rlcm_http_requests_total", route="/solve", method="POST", status="499") == 1
    assert page("rlcm_http_requests_in_flight") == 1
    assert page("rlcm_http_request_seconds_sum", route="/solve") == 13
    assert page("rlcm_http_first_event_seconds_count", route="/solve") == 1
    assert page("rlcm_http_first_event_seconds_sum", route="/solve") == 0.2
    assert page("rlcm_http_clients_gone_total", route="/solve") == 1


def test_invented_methods_make_one_series() -> None:
    metrics = Metrics()
    for number in range(5):
        metrics.requests.ended(ServedRequest("(none)", f"BREW{number}", 405, 0.1))
    page = Page(metrics)
    assert page("rlcm_http_requests_total", route="(none)", method="other", status="405") == 5
    assert len(page.families["rlcm_http_requests"].samples) == 1


class CountedEngine(ScriptedEngine):
    """An engine whose vLLM keeps metrics."""

    has_metrics = True


@pytest.fixture
def waiting() -> Iterator[Gauge]:
    gauge = Gauge("vllm:num_requests_waiting", "Requests that wait.", ["engine"])
    yield gauge
    REGISTRY.unregister(gauge)


async def test_routers_see_what_waits_for_vllm_and_what_waits_for_us(waiting: Gauge) -> None:
    waiting.labels("0").set(3)
    waiting.labels("1").set(0)
    metrics, admission = Metrics(), Admission(max_running=1, max_waiting=5)
    metrics.watch(admission=admission, service=Service(CountedEngine()))
    async with admission.place(), asyncio.TaskGroup() as tasks:
        waits = tasks.create_task(admission.place().__aenter__())
        await asyncio.sleep(0)  # until it waits
        page = Page(metrics)
        waits.cancel()
    assert page.labelled("vllm:num_requests_waiting", "engine") == {"0": 3 + 1, "1": 0}
    assert Page(metrics)("vllm:num_requests_waiting", engine="0") == 3


async def test_the_queue_is_shown_as_it_is_now() -> None:
    metrics, admission = Metrics(), Admission(max_running=2, max_waiting=5)
    metrics.watch(admission=admission)
    async with admission.place():
        page = Page(metrics)
        assert page("rlcm_queue_running") == 1
        assert page("rlcm_queue_waiting") == 0
    page = Page(metrics)
    assert page("rlcm_queue_running") == 0
    assert (page("rlcm_queue_running_limit"), page("rlcm_queue_waiting_limit")) == (2, 5)
    assert page("rlcm_queue_seconds_count") == 1
    assert page("rlcm_queue_drain_per_second") == 0


async def test_engine_and_certificates_are_shown_once_they_are_there(tmp_path: Path) -> None:
    one = certificate({0.05: None, 0.1: ExitPolicy(lambda_high=0.9), 0.2: ExitPolicy()})
    one.save(tmp_path / "one.json")
    engine, metrics = ScriptedEngine(), Metrics()
    service = Service(engine, [tmp_path / "one.json"])
    metrics.watch(service=service)
    page = Page(metrics)
    assert (page("rlcm_engine_up"), page("rlcm_certificates")) == (0, 0)
    engine.started.set()
    await service.start()
    try:
        page = Page(metrics)
    finally:
        service.stop()
    assert (page("rlcm_engine_up"), page("rlcm_certificates")) == (1, 1)
    assert page("rlcm_engine_restarts_total") == 0
    levels = page.families["rlcm_certified_level_info"].samples
    assert [level.labels for level in levels] == [
        {
            "certificate": one.id,
            "risk": "selective",
            "samples": "1",
            "vote": "confidence",
            "max_tokens": "96",
            "delta": "0.1",
            "alpha": alpha,
        }
        for alpha in ("0.1", "0.2")
    ]
    assert Page(metrics)("rlcm_engine_up") == 0


@pytest.mark.parametrize(("dtype", "void"), [("float32", 0), ("bfloat16", 1)])
async def test_a_certificate_that_the_engine_voids_is_shown(
    tmp_path: Path, dtype: str, void: int
) -> None:
    facts = EngineFacts(dtype="float32")
    fitted = fingerprint_of(replace(IDENTITY, facts=facts))
    one = certificate({0.1: ExitPolicy(lambda_high=0.9)}, fingerprint=fitted)
    one.save(tmp_path / "one.json")
    engine, metrics = ScriptedEngine(), Metrics()
    engine.identity = replace(IDENTITY, facts=replace(facts, dtype=dtype))
    engine.started.set()
    service = Service(engine, [tmp_path / "one.json"])
    metrics.watch(service=service)
    await service.start()
    try:
        page = Page(metrics)
    finally:
        service.stop()
    assert (page("rlcm_certificates"), page("rlcm_certificate_void", certificate=one.id)) == (
        1,
        void,
    )


def test_jobs_are_shown_by_state() -> None:
    metrics = Metrics()
    metrics.watch(jobs=lambda: {JobState.RECORDING: 1, JobState.DONE: 4})
    by_state = Page(metrics).labelled("rlcm_jobs", "state")
    assert by_state["recording"] == 1
    assert by_state["done"] == 4
    assert by_state["failed"] == 0
    assert set(by_state) == {str(state) for state in JobState}


def test_a_broken_database_leaves_the_rest_of_the_page(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> dict[JobState, int]:
        raise OSError("the disk is gone")

    metrics = Metrics()
    metrics.watch(jobs=broken)
    with caplog.at_level(logging.ERROR):
        page = Page(metrics)
    assert "rlcm_jobs" not in page.families
    assert "rlcm_questions" in page.families
    assert "could not be counted" in caplog.text


def test_a_silent_database_is_not_asked() -> None:
    """Each question to it takes seconds, and Prometheus waits ten."""

    def silent() -> Any:
        raise AssertionError("it was asked")

    metrics = Metrics()
    metrics.watch(jobs=silent, monitoring=silent)
    page = metrics.page(has_database=False)[0].decode()
    assert "rlcm_database_up 0.0" in page
    assert "rlcm_questions_total" in page
    assert "rlcm_jobs" not in page


def test_what_callers_choose_makes_no_series() -> None:
    metrics = Metrics()
    metrics.questions.solved(QUESTION, solution(), 1.0)
    before = len(metrics.page()[0].splitlines())
    for number in range(50):
        asked = Question(f"What is {number}?", alpha=0.01 + number / 100, samples=1 + number)
        metrics.questions.solved(asked, solution(answer=str(number)), 1.0 + number)
    assert len(metrics.page()[0].splitlines()) == before


def test_two_servers_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.questions.failed("internal")
    assert "rlcm_question_failures" in Page(other).families
    assert not Page(other).families["rlcm_question_failures"].samples
