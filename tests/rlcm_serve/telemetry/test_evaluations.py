"""Labels and alarms as OpenTelemetry's evaluation events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rlcm_serve.api.app import create_app
from rlcm_serve.monitoring.records import Action, EventKind, MonitorEvent
from rlcm_serve.settings import Settings
from rlcm_serve.telemetry.alarms import evaluation_of
from rlcm_serve.telemetry.contract import Evaluation, Tracing
from rlcm_serve.telemetry.spans import SpanTracing
from tests.rlcm_serve.api.serving import PROBLEM, client_of, serving

pytestmark = pytest.mark.anyio


class Recorded:
    """Tracing, and what it has sent."""

    def __init__(self) -> None:
        self._events, self.spans = InMemoryLogRecordExporter(), InMemorySpanExporter()
        provider, logs = TracerProvider(), LoggerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._events))
        self.tracing = SpanTracing(provider, logs)

    def events(self) -> list[tuple[str | None, dict[str, Any]]]:
        found = [one.log_record for one in self._events.get_finished_logs()]
        return [(one.event_name, dict(one.attributes or {})) for one in found]


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    one = Recorded()
    yield one
    one.tracing.close()


def test_an_alarm_is_an_event_about_its_level(recorded: Recorded) -> None:
    text = "risk alarm at alpha 0.1: 31 of 120 audited answers are wrong"
    alarm = MonitorEvent(
        1.0, "571b667eda0c" + "0" * 52, 0.1, EventKind.RISK_ALARM, text, {}, Action.WITHDRAW
    )
    recorded.tracing.evaluated(evaluation_of(alarm))
    assert recorded.events() == [
        (
            "gen_ai.evaluation.result",
            {
                "gen_ai.evaluation.name": "risk_alarm",
                "gen_ai.evaluation.score.label": "alarm",
                "gen_ai.evaluation.explanation": text,
                "rlcm.certificate": "571b667eda0c",
                "rlcm.alpha": 0.1,
                "rlcm.action": "withdraw",
            },
        )
    ]


async def test_a_label_is_an_event_that_names_its_answer(
    recorded: Recorded, tmp_path: Path
) -> None:
    async with serving(settings=Settings(state=tmp_path)) as running:
        context = replace(running.context, tracing=recorded.tracing)
        async with client_of(create_app(context, running.failures.append)) as client:
            asked = {"problem": PROBLEM, "alpha": 0.1, "on_infeasible": "full_budget"}
            solved = (await client.post("/solve", json=asked)).json()
            given = {"id": solved["id"], "right": False}
            labels = {"answers": [given, {"id": "another", "right": True}]}
            response = await client.post("/feedback", json=labels)
    assert response.status_code == 200, response.text
    assert recorded.events() == [
        (
            "gen_ai.evaluation.result",
            {
                "gen_ai.evaluation.name": "correctness",
                "gen_ai.evaluation.score.label": "incorrect",
                "gen_ai.evaluation.score.value": 0.0,
                "gen_ai.response.id": solved["id"],
            },
        )
    ]
    (span,) = [one for one in recorded.spans.get_finished_spans() if one.name == "solve"]
    assert span.attributes is not None
    assert span.attributes["gen_ai.response.id"] == solved["id"]


def test_without_a_place_for_events_none_is_sent() -> None:
    evaluation = Evaluation("correctness", "correct")
    Tracing().evaluated(evaluation)
    tracing = SpanTracing.to("http://localhost:1/a/receiver/of/its/own")
    tracing.evaluated(evaluation)
    tracing.close()
