"""`POST /aggregate`: turns the body of a request into a response."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from mmap import ACCESS_READ, mmap

import msgspec
import pyarrow as pa
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from rlcm_serve.aggregation import Aggregation
from rlcm_serve.aggregation.formats.decoding import RolloutDecoder, without_mark
from rlcm_serve.aggregation.graders import Graders
from rlcm_serve.aggregation.results import summary_json, to_json, to_json_lines
from rlcm_serve.aggregation.rollouts import ITEMS, LINES
from rlcm_serve.api.media import JSON, NDJSON
from rlcm_serve.api.server.threaded import Terms, ThreadedResponse
from rlcm_serve.api.wire.aggregate import AggregateOptions
from rlcm_serve.errors import BodyTooLarge, RequestRefused, TooManyRollouts

MAX_ROLLOUTS = 1_000_000
"""Limit for one request."""
LONGEST_ARRAY = 256 * 2**20
"""Bytes of a body that is one JSON object: all else waits while its end is searched, and while a
single rollout of that size is decoded, up to half a second each. JSON lines have no such limit."""
MOST_FIELDS = 100
"""Names in that object."""
LONGEST_OPTION = 2**16
"""Bytes of the value of an option."""
NICENESS = 10
"""Of the processes that compare answers: the engine and the event loop go first."""


def vote_on_lines(
    asked: AggregateOptions, terms: Terms, compare_seconds: float
) -> ThreadedResponse:
    """The response to JSON lines: results as they become ready, then the summary or an error.

    Args:
        asked: the options in the URL.
        terms: how the request gets a thread.
        compare_seconds: for comparing all answers.
    """
    options, graders = asked.to_options(), _graders(compare_seconds)
    decoder = RolloutDecoder(ignore_extra=asked.ignore_extra)

    def work(body: Iterator[bytes], write: Callable[[bytes], None]) -> None:
        with Aggregation(options, places=LINES, graders=graders) as aggregation:
            for results in _vote(aggregation, decoder.read_lines(body)):
                for lines in to_json_lines(results):
                    write(lines)
            write(b'{"summary":%b}\n' % summary_json(aggregation.summary))

    return ThreadedResponse(
        work,
        graders.abandon,
        terms,
        NDJSON,
        last_words=lambda error: json.dumps({"error": error}).encode() + b"\n",
    )


def vote_on_array(
    asked: AggregateOptions, terms: Terms, compare_seconds: float
) -> ThreadedResponse:
    """The response to one JSON object: all results and the summary, sent once complete.

    The arguments are those of `vote_on_lines`.
    """
    graders = _graders(compare_seconds)

    def work(body: Iterator[bytes], write: Callable[[bytes], None]) -> None:
        with tempfile.TemporaryFile(prefix="rlcm-") as file:
            file.writelines(without_mark(_within(body, LONGEST_ARRAY)))
            file.flush()
            fields = _fields(mmap(file.fileno(), 0, access=ACCESS_READ) if file.tell() else b"")
            rollouts = fields.pop("rollouts", None)
            if rollouts is None:
                raise RequestRefused("rollouts", "rollouts is missing: give an array of objects")
            options = _read_options(asked, fields)
            decoder = RolloutDecoder(ignore_extra=options.ignore_extra)
            with Aggregation(options.to_options(), places=ITEMS, graders=graders) as aggregation:
                write(b'{"results":[')
                comma = b""
                for results in _vote(aggregation, decoder.read_array(rollouts)):
                    for block in to_json(results):
                        write(comma + b",".join(block))
                        comma = b","
                write(b'],"summary":%b}' % summary_json(aggregation.summary))

    return ThreadedResponse(work, graders.abandon, terms, JSON, last_words=None)


def _graders(seconds: float) -> Graders:
    return Graders(batch_limit=seconds, niceness=NICENESS)


def _vote(aggregation: Aggregation, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = 0
    for rollouts in batches:
        count += len(rollouts)
        if count > MAX_ROLLOUTS:
            raise TooManyRollouts(MAX_ROLLOUTS)
        yield from aggregation.add(rollouts)
    yield from aggregation.finish()


def _within(body: Iterator[bytes], most: int) -> Iterator[bytes]:
    """The parts of a body.

    Raises:
        BodyTooLarge: they have over `most` bytes.
    """
    size = 0
    for part in body:
        size += len(part)
        if size > most:
            raise BodyTooLarge(most)
        yield part


def _fields(text: mmap | bytes) -> dict[str, msgspec.Raw]:
    """The fields of the body, with values that are not parsed yet."""
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(
            "body", f'the body is not a JSON object ({error}): send {{"rollouts": [...]}}'
        ) from error


def _read_options(asked: AggregateOptions, fields: dict[str, msgspec.Raw]) -> AggregateOptions:
    """The options of the body; the URL supplies the options that the body lacks.

    Raises:
        RequestValidationError: an option is unknown or has an invalid value.
    """
    long = [name for name, value in fields.items() if len(memoryview(value)) > LONGEST_OPTION]
    if long or len(fields) > MOST_FIELDS:
        raise RequestRefused(
            "body",
            f"the body has over {MOST_FIELDS} fields, or an option of over {LONGEST_OPTION} bytes: "
            "send only rollouts and options",
        )
    try:
        given = {name: json.loads(bytes(value)) for name, value in fields.items()}
    except (ValueError, RecursionError) as error:
        raise RequestRefused("body", f"an option cannot be read: {error}") from error
    try:
        return AggregateOptions.model_validate(
            asked.model_dump(exclude_unset=True) | given, strict=True
        )
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from error
