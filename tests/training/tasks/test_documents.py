import random
import re

import pytest

from rlcm_serve.engine.prompts import FORCED_ANSWER, FORCED_SUFFIX
from tests.training.tasks.parsed_text import worked_sums
from training.tasks.documents import (
    CONFIDENCE_REQUEST,
    CUT_SHARE,
    VERBALISED_SHARE,
    Document,
    answered_text,
    document,
    drill,
    forced_text,
    prompt_text,
    unmarked_document,
)
from training.tasks.problems import LEVELS, Problem, make_problem
from training.tasks.reasoning import write_reasoning

PROBLEM = make_problem("dial", 3, random.Random(0))


def documents(problem: Problem = PROBLEM, count: int = 400) -> list[Document]:
    rng = random.Random(5)
    return [document(problem, rng) for _ in range(count)]


def texts(item: Document) -> tuple[str, str, str, str]:
    """Prompt, reasoning, forced suffix (empty in a whole trace) and answer."""
    prompt, *middle, answer = item
    suffix = middle.pop().text if middle and middle[-1].text == FORCED_SUFFIX else ""
    return prompt.text, "".join(piece.text for piece in middle), suffix, answer.text


def is_cut(item: Document) -> bool:
    return bool(texts(item)[2])


def is_verbalised(item: Document) -> bool:
    return CONFIDENCE_REQUEST in texts(item)[0]


def test_the_prompt_and_the_forced_suffix_are_read_and_the_rest_is_learned() -> None:
    for item in documents():
        prompt, _, suffix, _ = texts(item)
        assert all(piece.learned == (piece.text not in (prompt, suffix)) for piece in item)
        assert all(piece.text for piece in item)


def test_a_whole_trace_is_the_reasoning_and_the_answer_it_came_to() -> None:
    for seed in range(300):
        item = document(PROBLEM, random.Random(seed))
        if is_cut(item):
            continue
        expected = write_reasoning(PROBLEM, random.Random(seed))
        prompt, reasoning, _, answer = texts(item)
        assert prompt == prompt_text(PROBLEM.question, verbalise=is_verbalised(item))
        assert prompt.endswith("<think>\n")
        assert reasoning == expected.text
        assert answer.startswith("</think>\n")
        assert f"\\boxed{{{expected.final}}}" in answer
        assert answer.endswith("<|im_end|>")


def test_a_cut_trace_is_answered_with_the_candidate_held_there() -> None:
    problem = make_problem("total", 6, random.Random(1))
    right = set()
    for seed in range(300):
        item = document(problem, random.Random(seed))
        if not is_cut(item):
            continue
        expected = write_reasoning(problem, random.Random(seed))
        prompt, reasoning, suffix, answer = texts(item)
        assert prompt == prompt_text(problem.question)
        assert suffix == FORCED_SUFFIX
        assert expected.text.startswith(reasoning)
        # With nothing held yet, the right answer is the best guess.
        held = expected.candidate_at(len(reasoning)) or problem.answer
        assert answer == forced_text(held)
        right.add(held == problem.answer)
    assert right == {True, False}, "wrong candidates are to be brought out as well"


def test_reasoning_is_marked_by_whether_the_answer_held_is_right() -> None:
    problem = make_problem("total", 6, random.Random(1))
    marks = set()
    for seed in range(200):
        item = document(problem, random.Random(seed))
        reasoning = write_reasoning(problem, random.Random(seed))
        prompt, *middle, answer = item
        assert prompt.right is answer.right is None
        if middle and middle[-1].text == FORCED_SUFFIX:
            assert middle.pop().right is None
        start = 0
        for piece in middle:
            assert piece.right == (reasoning.candidate_at(start) == problem.answer)
            start += len(piece.text)
            marks.add(piece.right)
    assert marks == {True, False}


def test_shares_of_cut_and_verbalised_documents() -> None:
    items = documents(count=2000)
    whole = [item for item in items if not is_cut(item)]
    assert 1 - len(whole) / len(items) == pytest.approx(CUT_SHARE, abs=0.04)
    verbalised = sum(map(is_verbalised, whole)) / len(whole)
    assert verbalised == pytest.approx(VERBALISED_SHARE, abs=0.03)


def test_a_confidence_is_said_only_on_request_and_in_rlcrs_format() -> None:
    for item in documents():
        answer = texts(item)[3]
        if is_verbalised(item):
            assert re.fullmatch(
                r"</think>\n<answer>\\boxed\{-?\d+\}</answer>"
                r"<confidence>(0\.\d|1\.0)</confidence><\|im_end\|>",
                answer,
            )
        else:
            assert "confidence" not in answer


def test_right_answers_are_said_with_more_confidence() -> None:
    problem = make_problem("total", 5, random.Random(3))
    said: dict[bool, list[float]] = {True: [], False: []}
    for item in documents(problem, 3000):
        if is_verbalised(item):
            answer = texts(item)[3]
            right = f"boxed{{{problem.answer}}}" in answer
            said[right].append(float(answer.split("<confidence>")[1].split("<")[0]))
    means = {right: sum(values) / len(values) for right, values in said.items()}
    assert means[True] > 0.7 > 0.5 > means[False]


def test_answers_read_as_they_are_served() -> None:
    assert answered_text("42") == "</think>\nThe answer is \\boxed{42}.<|im_end|>"
    assert "<confidence>0.9</confidence>" in answered_text("42", 0.949)
    assert (FORCED_SUFFIX + forced_text("42")).endswith("\\boxed{42}.<|im_end|>")


def test_a_drill_is_single_steps_without_slips() -> None:
    rng = random.Random(2)
    for _ in range(200):
        (piece,) = drill(rng)
        assert piece.learned
        assert piece.text.endswith(".<|im_end|>")
        modulus = 10 if re.search(r"\d (up|down) \d is", piece.text) else None
        sums = worked_sums(piece.text, modulus)
        assert 3 < len(sums) <= 20
        assert all(step.right and step.result >= 0 for step in sums)


def test_documents_of_every_level_can_be_made() -> None:
    rng = random.Random(0)
    for level in LEVELS:
        assert document(make_problem("tale", level, rng), rng)


def test_a_model_without_marks_of_thinking_reads_and_writes_none() -> None:
    rng = random.Random(5)
    cuts_in_the_answer = 0
    for _ in range(400):
        prompt, *middle, last = unmarked_document(PROBLEM, rng)
        whole = "".join(piece.text for piece in (prompt, *middle, last))
        assert "think>" not in whole
        verbalise = CONFIDENCE_REQUEST in prompt.text
        assert prompt.text == prompt_text(PROBLEM.question, verbalise, thinking=False)
        written = "".join(piece.text for piece in middle if piece.learned)
        if last.text == "<|im_end|>":
            assert re.search(
                r"\\boxed\{\d+\}(\.|</answer><confidence>0\.\d</confidence>)$", written
            ) or (verbalise and written.endswith("<confidence>1.0</confidence>"))
        else:
            assert middle[-1].text == f"\n{FORCED_ANSWER}"
            assert not middle[-1].learned
            assert re.fullmatch(r"\d+\}\.<\|im_end\|>", last.text)
            cuts_in_the_answer += "The answer" in written
    assert cuts_in_the_answer > 0


def test_the_forced_answer_is_the_candidate_also_without_marks_of_thinking() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        reasoning = write_reasoning(PROBLEM, rng)
        _, *middle, last = unmarked_document(PROBLEM, random.Random(seed))
        if last.text == "<|im_end|>":
            continue
        written = "".join(piece.text for piece in middle if piece.learned)
        held = reasoning.candidate_at(len(written)) or PROBLEM.answer
        if len(written) < len(reasoning.text):
            assert last.text == forced_text(held)
