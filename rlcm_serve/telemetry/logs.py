"""Logs on stderr, one line per event, as JSON or as text for people.

A line never contains a prompt, an answer or a key. No caller passes one to a logger. Keys are
recognized by their format and masked. The texts passed to `keep_private` are also removed from
messages and tracebacks, because an error may quote them.
"""

from __future__ import annotations

import json
import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

FORMATS = ("json", "console")
_KEY = re.compile(r"\brlcm_([A-Za-z0-9]+)_[A-Za-z0-9_-]{32,}")
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_ADDED_BY_OTHERS = {"color_message", "vllm_process_name"}
"""Fields that uvicorn and vLLM add to records for their own formatters."""
_SHORTEST_PRIVATE = 8
"""Shorter texts occur in any log line by chance; removing them would garble every line."""


@dataclass(slots=True)
class Exchange:
    """The request behind the log lines that are written while it is served.

    `fields` go on its access line. The texts in `private` go on no line.
    """

    request_id: str
    trace_id: str | None = None
    fields: dict[str, object] = field(default_factory=dict)
    private: list[str] = field(default_factory=list)


current: ContextVar[Exchange | None] = ContextVar("rlcm_exchange", default=None)
"""The request being served by this task and by the tasks it starts."""


def add_fields(**fields: object) -> None:
    """Adds fields to the access line of the current request, if there is one."""
    if (exchange := current.get()) is not None:
        exchange.fields.update(fields)


def keep_private(*texts: str) -> None:
    """Keeps texts out of every log line of the current request, if there is one."""
    if (exchange := current.get()) is not None:
        exchange.private.extend(text for text in texts if len(text) >= _SHORTEST_PRIVATE)


class _Formatter(logging.Formatter, ABC):
    """Collects the fields of a line, and removes private texts and keys."""

    def format(self, record: logging.LogRecord) -> str:
        return _KEY.sub(r"rlcm_\1_***", self._line(record, self._fields(record)))

    @abstractmethod
    def _line(self, record: logging.LogRecord, fields: dict[str, object]) -> str: ...

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Everything besides the message: ids of the request, extra fields, the traceback."""
        fields: dict[str, object] = {}
        if (exchange := current.get()) is not None:
            fields["request_id"] = exchange.request_id
            if exchange.trace_id is not None:
                fields["trace_id"] = exchange.trace_id
        not_fields = _OWN_FIELDS | _ADDED_BY_OTHERS
        fields |= {name: value for name, value in vars(record).items() if name not in not_fields}
        if record.exc_info:
            fields["exception"] = _without_private(self.formatException(record.exc_info))
        return fields


class JsonFormatter(_Formatter):
    """One JSON object per line: time (UTC), level, logger, message, request_id, further fields."""

    def _line(self, record: logging.LogRecord, fields: dict[str, object]) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _without_private(record.getMessage()),
        }
        # Twice: the standard fields come first, and no further field overwrites them.
        return json.dumps({**said, **_plain(fields), **said}, default=str)


class ConsoleFormatter(_Formatter):
    """Local time, level, message, and further fields as `name=value`; a traceback follows."""

    def _line(self, record: logging.LogRecord, fields: dict[str, object]) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        message = _without_private(record.getMessage()).replace("\n", "\\n")
        traceback = fields.pop("exception", "")
        said = [
            f"{name}={json.dumps(_plain(value), default=str)}" for name, value in fields.items()
        ]
        line = " ".join([time[11:23], record.levelname.lower().ljust(7), message, *said])
        return f"{line}\n{traceback}".rstrip()


def configure(level: str = "info", form: str = "json", stream: TextIO | None = None) -> None:
    """Makes every logger of this process write to `stream`, including uvicorn's.

    Start uvicorn with `log_config=None`, or it undoes this. Its access log is turned off, because
    the service writes its own. Other libraries log only warnings and errors.

    Args:
        level: lowest level of this service's lines: debug, info, warning or error.
        form: one of `FORMATS`.
        stream: the destination; None is stderr.
    """
    root = logging.getLogger()
    root.handlers = [_handler(form, stream)]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    for name in ("rlcm_serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.access").disabled = True


def configure_own(level: str = "info", form: str = "json") -> None:
    """As `configure`, but for this service's loggers alone, inside a server of somebody else."""
    logger = logging.getLogger("rlcm_serve")
    logger.handlers = [_handler(form, None)]
    logger.propagate = False
    logger.setLevel(level.upper())


def _handler(form: str, stream: TextIO | None) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    return handler


def _plain(value: Any) -> Any:
    """The value for JSON, with NaN and the infinities replaced by their names."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _without_private(text: str) -> str:
    exchange = current.get()
    for private in () if exchange is None else exchange.private:
        if len(private) > len(text):
            continue
        # Error messages often quote a value with `repr`.
        for written in (private, repr(private)[1:-1]):
            text = text.replace(written, "[private]")
    return text
