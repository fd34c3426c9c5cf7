"""Captures a test's logs in the service's format."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlcm_serve.telemetry import logs

LOGGERS = ("", "rlcm_serve", "uvicorn", "uvicorn.error", "uvicorn.access", "py.warnings")


@contextmanager
def loggers_restored() -> Iterator[None]:
    """Restores the process's loggers at the end."""
    before = []
    for name in LOGGERS:
        logger = logging.getLogger(name)
        state = (list(logger.handlers), logger.level, logger.propagate, logger.disabled)
        before.append((logger, *state))
    yield
    logging.captureWarnings(False)
    for logger, handlers, level, propagate, disabled in before:
        logger.handlers, logger.propagate, logger.disabled = handlers, propagate, disabled
        logger.setLevel(level)


@contextmanager
def json_logs(level: str = "info") -> Iterator[io.StringIO]:
    """All logs of the process, as JSON."""
    stream = io.StringIO()
    with loggers_restored():
        logs.configure(level, "json", stream)
        yield stream


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    """The JSON objects of the log, one for each line."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]
