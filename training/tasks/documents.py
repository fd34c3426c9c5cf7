"""The training documents of the warm start: whole traces, cut traces and drills."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from rlcm_serve.engine.prompts import FORCED_ANSWER, FORCED_SUFFIX
from training.tasks.problems import FAMILIES, LETTERS, Problem
from training.tasks.reasoning import Passage, Reasoning, write_reasoning

# Requests RLCR's format (arXiv 2507.16806) in the question.
CONFIDENCE_REQUEST = "Say how confident you are."
END = "<|im_end|>"
CUT_SHARE = 0.35
VERBALISED_SHARE = 0.12


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document.

    Attributes:
        text: the text.
        learned: whether the model learns to predict the text; otherwise it only reads it.
        right: in reasoning, whether the current candidate answer is right; None elsewhere.
    """

    text: str
    learned: bool
    right: bool | None = None


Document = tuple[Piece, ...]
"""Text in pieces."""


def prompt_text(question: str, verbalise: bool = False, thinking: bool = True) -> str:
    """The chat template's text for one user turn, up to and including `<think>` if it has one."""
    asked = f"{question} {CONFIDENCE_REQUEST}" if verbalise else question
    opening = "<think>\n" if thinking else ""
    return f"<|im_start|>user\n{asked}{END}\n<|im_start|>assistant\n{opening}"


def answered_text(answer: str, confidence: float | None = None) -> str:
    """The text after the reasoning: the answer, and a verbalised confidence if there is one."""
    return f"</think>\n{_stated(answer, confidence)}{END}"


def _stated(answer: str, confidence: float | None) -> str:
    if confidence is None:
        return f"The answer is \\boxed{{{answer}}}."
    said = f"<confidence>{confidence:.1f}</confidence>"
    return f"<answer>\\boxed{{{answer}}}</answer>{said}"


def forced_text(answer: str) -> str:
    """The text after the forced suffix."""
    return f"{answer}}}.{END}"


def document(problem: Problem, rng: random.Random) -> Document:
    """A whole trace, or a trace cut at a random place and followed by a forced answer.

    The forced answer is the candidate at the cut. Before the first candidate it is the right
    answer: there, a forced answer should be the model's best guess.
    """
    reasoning = write_reasoning(problem, rng)
    if rng.random() < CUT_SHARE:
        cut = rng.randint(0, len(reasoning.text))
        held = reasoning.candidate_at(cut) or problem.answer
        return (
            Piece(prompt_text(problem.question), learned=False),
            *_reasoning_pieces(problem, reasoning, cut),
            Piece(FORCED_SUFFIX, learned=False),
            Piece(forced_text(held), learned=True),
        )
    verbalise = rng.random() < VERBALISED_SHARE
    confidence = _said_confidence(problem, reasoning, rng) if verbalise else None
    return (
        Piece(prompt_text(problem.question, verbalise), learned=False),
        *_reasoning_pieces(problem, reasoning, len(reasoning.text)),
        Piece(answered_text(reasoning.final, confidence), learned=True),
    )


def unmarked_document(problem: Problem, rng: random.Random) -> Document:
    """As `document`, for a model that marks no thinking: a cut may also fall into the answer."""
    reasoning = write_reasoning(problem, rng)
    is_cut = rng.random() < CUT_SHARE
    verbalise = not is_cut and rng.random() < VERBALISED_SHARE
    confidence = _said_confidence(problem, reasoning, rng) if verbalise else None
    stated = Passage(_stated(reasoning.final, confidence), reasoning.final)
    whole = replace(reasoning, passages=(*reasoning.passages, stated))
    prompt = Piece(prompt_text(problem.question, verbalise, thinking=False), learned=False)
    if not is_cut:
        pieces = _reasoning_pieces(problem, whole, len(whole.text))
        return (prompt, *pieces, Piece(END, learned=True))
    cut = rng.randint(0, len(whole.text))
    held = whole.candidate_at(cut) or problem.answer
    return (
        prompt,
        *_reasoning_pieces(problem, whole, cut),
        Piece(f"\n{FORCED_ANSWER}", learned=False),
        Piece(forced_text(held), learned=True),
    )


def _reasoning_pieces(problem: Problem, reasoning: Reasoning, cut: int) -> list[Piece]:
    """The first `cut` characters, by passages: the candidate changes at the end of a passage."""
    pieces, held = [], None
    for passage in reasoning.passages:
        pieces.append(Piece(passage.text[:cut], learned=True, right=held == problem.answer))
        cut -= len(pieces[-1].text)
        held = passage.candidate
    return [piece for piece in pieces if piece.text]


def _said_confidence(problem: Problem, reasoning: Reasoning, rng: random.Random) -> float:
    """A noisy confidence: high for most right answers, spread out for wrong ones."""
    right = reasoning.final == problem.answer
    return rng.betavariate(6.0, 1.5) if right else rng.betavariate(1.5, 2.5)


def drill(rng: random.Random) -> Document:
    """Single steps of one family without slips: the arithmetic that traces consist of."""
    family = rng.choice(list(FAMILIES.values()))
    scene = rng.choice(family.scenes)
    lines = []
    for _ in range(rng.randint(8, 20)):
        value, size = rng.choice(family.values), rng.randint(1, 9)
        gain = rng.random() < 0.5
        amount = size if gain else -size
        result = family.move(value, amount)
        if result < 0:
            continue
        words = (scene.gain if gain else scene.loss).format(size)
        sign = family.plus if gain else family.minus
        lines.append(f"{rng.choice(LETTERS)} {words}: {value} {sign} {size} is {result}.")
    return (Piece(" ".join(lines) + END, learned=True),)
