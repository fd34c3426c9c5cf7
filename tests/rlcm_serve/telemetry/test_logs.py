import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.logs import Exchange
from tests.rlcm_serve.telemetry.log_lines import loggers_restored, objects


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    with loggers_restored():
        yield


def written(form: str = "json", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(level, form, stream)
    return stream


@pytest.fixture
def process_named_by_vllm() -> Iterator[None]:
    """Once vLLM is imported, every record of the process carries its name for it."""
    made = logging.getLogRecordFactory()

    def make(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = made(*arguments, **named)
        record.vllm_process_name = "MainProcess"
        return record

    logging.setLogRecordFactory(make)
    yield
    logging.setLogRecordFactory(made)


@pytest.mark.usefixtures("process_named_by_vllm")
def test_a_line_is_one_object_with_its_fields(exchange: Exchange) -> None:
    stream = written()
    exchange.trace_id = "t1"
    logger = logging.getLogger("rlcm_serve.jobs")
    fields = {"job": 7, "where": {"line": 3}, "share": 0.5}
    logger.warning("job %s\nstopped", 7, extra=fields)
    (line,) = objects(stream)
    time = line.pop("time")
    assert time.endswith("Z")
    assert len(time) == len("2026-01-31T12:00:00.000Z")
    assert line == {
        "level": "warning",
        "logger": "rlcm_serve.jobs",
        "message": "job 7\nstopped",
        "request_id": "r1",
        "trace_id": "t1",
        "job": 7,
        "where": {"line": 3},
        "share": 0.5,
    }


def test_outside_of_a_request_a_line_names_none() -> None:
    stream = written()
    logging.getLogger("rlcm_serve").info("up")
    assert "request_id" not in objects(stream)[0]


def test_no_field_takes_the_place_of_another() -> None:
    stream = written()
    logging.getLogger("rlcm_serve").info("up", extra={"level": "none", "logger": "mine", "time": 0})
    (line,) = objects(stream)
    assert (line["level"], line["logger"]) == ("info", "rlcm_serve")
    assert line["time"] != 0


def test_what_json_has_no_word_for_is_written_in_words() -> None:
    stream = written()
    odd = {"nan": float("nan"), "inner": [float("inf"), {1: float("-inf")}], "type": object}
    logging.getLogger("rlcm_serve").info("odd \ud800", extra=odd)
    line = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert (line["nan"], line["inner"]) == ("nan", ["inf", {"1": "-inf"}])
    assert line["type"] == "<class 'object'>"


def test_a_traceback_is_on_the_line() -> None:
    stream = written()
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        logging.getLogger("rlcm_serve").exception("it broke")
    (line,) = objects(stream)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ZeroDivisionError: division by zero")


def test_for_people_a_line_is_short_and_one_line() -> None:
    stream = written("console")
    logging.getLogger("rlcm_serve").info("came\nup", extra={"model": "a b"})
    (line,) = stream.getvalue().splitlines()
    assert line[12:] == r' info    came\nup model="a b"'
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        logging.getLogger("rlcm_serve").exception("it broke")
    _, broke, first, *_, last = stream.getvalue().splitlines()
    assert broke.endswith("error   it broke")
    assert (first[:9], last) == ("Traceback", "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("form", logs.FORMATS)
def test_a_key_is_cut_wherever_it_stands(form: str) -> None:
    stream = written(form)
    key = "rlcm_k7_" + "aB3_-" * 8
    logger = logging.getLogger("rlcm_serve")
    logger.info("with %s", key, extra={"header": f"Bearer {key}"})
    try:
        raise ValueError(key)
    except ValueError:
        logger.exception("no")
    text = stream.getvalue()
    assert text.count("rlcm_k7_***") == 3
    assert "aB3" not in text


@pytest.mark.parametrize("form", logs.FORMATS)
def test_what_is_private_is_cut_from_messages_and_tracebacks(form: str, exchange: Exchange) -> None:
    stream = written(form)
    problem = "How many of\nAnn's apples?"
    logs.keep_private(problem, "7")
    logger = logging.getLogger("rlcm_serve")
    for quoted in (problem, repr(problem)):
        try:
            raise ValueError(f"cannot read {quoted} at 7")
        except ValueError as error:
            logger.exception("failed: %s", error)
    text = stream.getvalue()
    assert "apples" not in text
    assert text.count("[private]") == 4
    assert "at 7" in text, "a text so short stands everywhere by chance"


def test_what_is_told_goes_to_the_request_alone(exchange: Exchange) -> None:
    logs.add_fields(tokens=3)
    logs.add_fields(answered=True)
    assert exchange.fields == {"tokens": 3, "answered": True}
    logs.current.set(None)
    logs.add_fields(tokens=4)
    logs.keep_private("nobody is there to keep this")
    assert exchange.fields["tokens"] == 3
    assert exchange.private == []


@pytest.mark.anyio
async def test_tasks_write_for_the_request_that_started_them() -> None:
    stream = written()

    async def serve(name: str) -> None:
        logs.current.set(Exchange(name))

        async def work() -> None:
            await asyncio.sleep(0)
            logging.getLogger("rlcm_serve").info("done", extra={"work": name})

        await asyncio.create_task(work())

    await asyncio.gather(*(asyncio.create_task(serve(f"r{number}")) for number in range(5)))
    lines = objects(stream)
    assert len(lines) == 5
    assert all(line["request_id"] == line["work"] for line in lines)


def test_the_level_is_of_this_service_and_others_only_warn() -> None:
    stream = written(level="debug")
    for name in ("rlcm_serve.a", "uvicorn.error", "httpx"):
        logging.getLogger(name).debug("detail")
        logging.getLogger(name).warning("trouble")
    said = [(line["logger"], line["message"]) for line in objects(stream)]
    assert said == [
        ("rlcm_serve.a", "detail"),
        ("rlcm_serve.a", "trouble"),
        ("uvicorn.error", "detail"),
        ("uvicorn.error", "trouble"),
        ("httpx", "trouble"),
    ]


def test_uvicorn_writes_no_access_log_of_its_own() -> None:
    stream = written(level="debug")
    logging.getLogger("uvicorn.access").info("GET / 200")
    assert stream.getvalue() == ""


def test_configuring_twice_writes_once() -> None:
    written()
    stream = written()
    logging.getLogger("uvicorn.error").info("up")
    assert len(objects(stream)) == 1
