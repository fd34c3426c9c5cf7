"""Alarms of live monitoring as evaluations of answers."""

from __future__ import annotations

from rlcm_serve.monitoring.records import MonitorEvent
from rlcm_serve.telemetry.contract import Evaluation


def evaluation_of(event: MonitorEvent) -> Evaluation:
    """An alarm about the answers of a level, or of a certificate."""
    attributes: dict[str, str | float] = {"rlcm.certificate": event.certificate[:12]}
    if event.alpha is not None:
        attributes["rlcm.alpha"] = event.alpha
    attributes["rlcm.action"] = event.action.value
    return Evaluation(event.what.value, "alarm", explanation=event.text, attributes=attributes)
