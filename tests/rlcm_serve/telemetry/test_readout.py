import time

from calibration import ExitReason
from rlcm_serve.solving.service import Service
from rlcm_serve.store.job import JobState
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.question_metrics import SHARES
from tests.rlcm_serve.scripted_engine import ScriptedEngine
from tests.rlcm_serve.telemetry.solutions import PROMISED, QUESTION, sample, solution


def test_it_has_the_numbers_of_the_page() -> None:
    metrics = Metrics()
    metrics.questions.solved(QUESTION, solution(), 1.0)
    metrics.questions.solved(QUESTION, solution(answer=None, guarantee=None), 1.0)
    metrics.questions.failed("overloaded")
    read = metrics.readout()
    assert read.total("rlcm_questions_total") == 2
    assert read.total("rlcm_questions_total", outcome="answered") == 1
    assert read.total("rlcm_questions_total", outcome="answered", guarantee="withheld") == 0
    assert read.total("rlcm_nothing_total") == 0
    assert read.by_label("rlcm_question_failures_total", "kind") == {"overloaded": 1}
    assert read.by_label("rlcm_exits_total", "reason")["cancelled"] == 2
    labels = ("certificate", "alpha", "outcome")
    assert read.by("rlcm_certified_questions_total", *labels) == {("c0", "0.1", "answered"): 1}


def test_a_histogram_is_counted_bucket_by_bucket() -> None:
    metrics = Metrics()
    confidences = (0.0, 0.05, 0.0501, 0.9, 1.0)
    drawn = [sample(ExitReason.HIGH, confidence) for confidence in confidences]
    metrics.questions.solved(QUESTION, solution(*drawn), 1.0)
    counts = metrics.readout().histogram("rlcm_sample_confidence")
    assert len(counts) == len(SHARES) + 1
    found = {place: count for place, count in enumerate(counts) if count}
    assert found == {0: 2, 1: 1, SHARES.index(0.9): 1, SHARES.index(1.0): 1}


def test_histograms_are_counted_together_or_apart() -> None:
    metrics = Metrics()
    for guarantee in (PROMISED, PROMISED, None):
        drawn = sample(ExitReason.HIGH, 0.03)
        metrics.questions.solved(QUESTION, solution(drawn, guarantee=guarantee), 1.0)
    read = metrics.readout()
    first, *_ = read.histogram("rlcm_sample_confidence")
    assert first == 3
    apart = {
        name: read.histogram("rlcm_sample_confidence", certificate=name)[0]
        for name in ("c0", "", "another")
    }
    assert apart == {"c0": 2, "": 1, "another": 0}


def test_it_says_for_how_long_it_has_counted() -> None:
    began = time.monotonic()
    metrics = Metrics()
    time.sleep(0.01)
    assert 0.01 <= metrics.readout().uptime <= time.monotonic() - began


def test_it_asks_neither_the_engine_nor_the_database() -> None:
    def refuse() -> dict[JobState, int]:
        raise AssertionError("the jobs were counted")

    class Untouchable(ScriptedEngine):
        @property
        def has_metrics(self) -> bool:
            raise AssertionError("vLLM's metrics were read")

    metrics = Metrics()
    metrics.watch(service=Service(Untouchable()), jobs=refuse)
    assert metrics.readout().total("rlcm_questions_total") == 0
