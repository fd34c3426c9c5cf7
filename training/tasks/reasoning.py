"""Reasoning text for one problem: work, find an answer, check it, correct it, sometimes give up.

The writer slips at the rate of the problem's level and continues from the wrong value, as a person
would. The trained model learns to slip at about that rate and to notice some slips, so it has
something to be uncertain about.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from training.tasks.problems import FAMILIES, LEVELS, Problem

# The writer's behaviour. With these values, checks after the first two passes add little, so that
# stopping early saves tokens (docs/decisions.md).
REPEAT_SLIP = 0.35  # probability that a slip is repeated at the same place
NOTICE_SLIP = 0.15  # probability that a slip is noticed and corrected at once
HEDGE_WRONG, HEDGE_RIGHT = 0.6, 0.08  # probability of "I think" after a pass with, without a slip
MAX_PASSES = 5
EXTRA_CHECKS = {1: (3, 5), 2: (2, 4), 3: (2, 3), 4: (1, 3), 5: (1, 2), 6: (0, 2)}

OPENERS = ("Let me work it out.", "Let me think step by step.", "Okay, let me see.")
CHECKS = ("Let me double check.", "Let me check that again.")
REDOS = ("Let me redo it carefully.", "I made a mistake somewhere. Let me redo it.")
ONCE_MORE = ("Let me go over it one more time.", "One more check.")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of reasoning text, and the writer's candidate answer at its end."""

    text: str
    candidate: str | None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A whole trace in passages, and the answer after it."""

    passages: tuple[Passage, ...]
    final: str

    @property
    def text(self) -> str:
        return "".join(passage.text for passage in self.passages)

    def candidate_at(self, characters: int) -> str | None:
        """The candidate answer after `characters` characters; None before the first candidate."""
        held, end = None, 0
        for passage in self.passages:
            end += len(passage.text)
            if end > characters:
                break
            held = passage.candidate
        return held


class _Writer:
    """Writes one trace; remembers its slips, so that it can repeat them."""

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        self.problem, self.rng = problem, rng
        self.family = FAMILIES[problem.family]
        self.slip_rate = LEVELS[problem.level].slip
        self.slips: dict[tuple[int, int], int] = {}
        self.passages: list[Passage] = []
        self.candidate: str | None = None

    def say(self, text: str, candidate: str | None = None) -> None:
        """Writes a line; `candidate` is the answer from then on, None keeps the previous one."""
        self.candidate = candidate or self.candidate
        self.passages.append(Passage(text + "\n", self.candidate))

    def work(self) -> tuple[str, bool]:
        """Works through all steps once; returns the final value and whether a slip remained."""
        value, slipped, lines = self.problem.start, False, []
        for index, step in enumerate(self.problem.steps):
            word = self.family.plus if step.amount > 0 else self.family.minus
            right = self.family.move(value, step.amount)
            result = self._result(index, value, right)
            line = f"{step.letter} {step.words}: {value} {word} {step.size} is {result}."
            if result != right and self.rng.random() < NOTICE_SLIP:
                line += f" Wait, {value} {word} {step.size} is {right}."
                result = right
            slipped |= result != right
            lines.append(line)
            value = result
        self.say(" ".join(lines))
        return str(value), slipped

    def _result(self, index: int, value: int, right: int) -> int:
        place = (index, value)
        if place in self.slips and self.rng.random() < REPEAT_SLIP:
            return self.slips[place]
        if self.rng.random() >= self.slip_rate:
            return right
        self.slips[place] = self._wrong(value, self.problem.steps[index].amount, right)
        return self.slips[place]

    def _wrong(self, value: int, amount: int, right: int) -> int:
        """A typical mistake: the wrong direction, off by one, or off by ten."""
        near = [right + 1, right - 1, *([] if self.family.modulus else [right + 10, right - 10])]
        guesses = [self.family.move(value, -amount)] + [self.family.move(v, 0) for v in near]
        wrong = [v for v in guesses if v != right and v in self.family.values]
        return self.rng.choice(wrong) if wrong else right

    def _hedge(self, slipped: bool) -> str:
        hedged = self.rng.random() < (HEDGE_WRONG if slipped else HEDGE_RIGHT)
        return ", I think" if hedged else ""

    def write(self) -> Reasoning:
        self.say(self.rng.choice(OPENERS))
        value, slipped = self.work()
        self.say(f"So I get {value}{self._hedge(slipped)}.", value)
        self.say(self.rng.choice(CHECKS))
        seen = [value]
        for attempt in range(2, MAX_PASSES + 1):
            value, slipped = self.work()
            if value in seen:
                self.say(f"I get {value} again{self._hedge(slipped)}. It matches.", value)
                self._check_again(value, MAX_PASSES - attempt)
                break
            mismatch = f"Now I get {value}{self._hedge(slipped)}, but before I got {seen[-1]}."
            self.say(f"{mismatch} Wait, that does not match.", value)
            seen.append(value)
            if (attempt == 3 and self.problem.level >= 5) or attempt == MAX_PASSES:
                doubt = "I keep getting different results. I am not sure"
                self.say(f"{doubt}, I will go with {value}.", value)
                break
            self.say(self.rng.choice(REDOS))
        return Reasoning(tuple(self.passages), self.passages[-1].candidate or value)

    def _check_again(self, value: str, room: int) -> None:
        for _ in range(min(room, self.rng.randint(*EXTRA_CHECKS[self.problem.level]))):
            self.say(self.rng.choice(ONCE_MORE))
            again, slipped = self.work()
            if again == value:
                self.say(f"Yes, {value} again{self._hedge(slipped)}. I am sure.")
            else:
                self.say(f"Now I get {again}, but {value} came up twice, so I keep {value}.")


def write_reasoning(problem: Problem, rng: random.Random) -> Reasoning:
    """A random trace for one problem, including slips."""
    return _Writer(problem, rng).write()
