import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibration import ExitPolicy
from rlcm_serve.api.wire.openai import answer_text
from rlcm_serve.api.wire.openai.answer_text import AnswerStream, cut_at
from rlcm_serve.core import Reading
from rlcm_serve.events import CheckpointEvent, TokenEvent

POLICY = ExitPolicy(lambda_answer=0.5)
PIECES = st.lists(st.text("ab \n", min_size=1, max_size=3), max_size=12)
STOPS = st.lists(st.text("ab \n", min_size=1, max_size=4), max_size=4)


def end(confidence: float) -> CheckpointEvent:
    return CheckpointEvent(0, Reading(16, confidence, is_final=True))


@example(pieces=["ab ", "a"], stops=["b", "ab "], known_after=0, forced=False)
@given(pieces=PIECES, stops=STOPS, known_after=st.integers(0, 12), forced=st.booleans())
def test_what_is_streamed_adds_up_to_the_cut_text(
    pieces: list[str], stops: list[str], known_after: int, forced: bool
) -> None:
    events = [TokenEvent(0, 1, piece, is_answer=True) for piece in pieces]
    stream = AnswerStream(POLICY, stops)
    told = [stream.take(e) for e in [*events[:known_after], end(0.6), *events[known_after:]]]
    written = "".join(pieces).strip() + ("\n\nforced" if forced else "")
    whole = cut_at(written, stops)
    assert whole.startswith("".join(told))
    assert "".join(told) + stream.rest(whole) == whole


def test_text_comes_as_soon_as_its_answer_is_certain_and_not_before() -> None:
    stream = AnswerStream(POLICY)
    assert stream.take(TokenEvent(0, 1, "\n\nIt ", is_answer=True)) == ""
    assert stream.take(end(0.6)) == "It"
    assert stream.take(TokenEvent(0, 1, "is", is_answer=True)) == " is"
    assert stream.take(TokenEvent(0, 1, "thinking")) == ""


def test_whether_the_text_is_given_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of thousands of tokens may follow a thousand readings, on the event loop."""
    decided = []
    decide = answer_text.answers_at_last
    monkeypatch.setattr(
        answer_text, "answers_at_last", lambda *given: decided.append(given) or decide(*given)
    )
    stream = AnswerStream(POLICY)
    stream.take(CheckpointEvent(0, Reading(8, 0.6)))
    stream.take(end(0.6))
    for _ in range(10):
        assert stream.take(TokenEvent(0, 1, "7", is_answer=True)) == "7"
    assert len(decided) == 1


def test_text_of_an_answer_that_is_withheld_is_never_sent() -> None:
    stream = AnswerStream(POLICY)
    assert stream.take(end(0.4)) == ""
    assert stream.take(TokenEvent(0, 1, "It is 7.", is_answer=True)) == ""


def test_the_start_of_a_stop_sequence_waits() -> None:
    stream = AnswerStream(POLICY, ["END"])
    stream.take(end(0.6))
    words = ["7 E", "N", "E", "ND", " more"]
    told = [stream.take(TokenEvent(0, 1, word, is_answer=True)) for word in words]
    assert told == ["7 ", "", "EN", "", ""]
