"""Streams of `/solve`, written by hand: every state that an answer can be in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

POLICY = {"lambda_low": 0.2, "patience": 128, "lambda_high": 0.9, "lambda_answer": 0.6}
FULL_BUDGET = {"lambda_low": -1.0, "patience": 0, "lambda_high": 1.01}
STATEMENT = (
    "Of the questions that this policy answers, at most 5% get a wrong answer on average. This "
    "covers first asks of questions like the calibration's, with 90% confidence over the draw of "
    "1600 calibration problems, whichever alpha is chosen."
)
GUARANTEE = {
    "statement": STATEMENT,
    "covers": "With probability at least 90% every certified policy keeps its alpha.",
    "risk": "selective",
    "alpha_requested": 0.05,
    "alpha_certified": 0.05,
    "delta": 0.1,
    "promise": "simultaneous",
    "certificate": "571b667eda0c",
    "kind": None,
    "verified": "none",
}
WORDS = "A takes 9, so 19 - 9 = 10. "
BUDGET, CHECKPOINT, FULL_TOKENS = 960, 32, 348.3


@dataclass(frozen=True)
class Told:
    """One question as the service would stream it.

    Attributes:
        answers: of the samples, in turn; None if one gives none.
        exits: why they ended, in turn.
        ends: tokens of their thinking, in turn.
        n: samples.
        code: why there is no guarantee, in one word; None with a guarantee.
        reason: the same in a sentence.
        abstains: whether no answer is given.
        policy: exit policy.
    """

    answers: Sequence[str | None] = ("14",)
    exits: Sequence[str] = ("high",)
    ends: Sequence[int] = (160, 192, 224, 352)
    n: int = 4
    code: str | None = None
    reason: str | None = None
    abstains: bool = False
    policy: dict[str, Any] | None = None

    def stream(self) -> str:
        """The body of the response."""
        return "".join(
            f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in self.events()
        )

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """The events in order, samples one after the other."""
        events = [("start", self._start())]
        samples: list[dict[str, Any]] = []
        for number in range(self.n):
            samples.append(self._sample(number))
            events += self._thinking(number, samples[-1])
            if self.n > 1:
                events.append(("vote", self._vote(samples)))
        return [*events, ("done", self._done(samples))]

    def _start(self) -> dict[str, Any]:
        return {
            "id": "chatcmpl-1",
            "samples": self.n,
            "max_tokens": BUDGET,
            "policy": self.policy or POLICY | ({"lambda_vote": 0.3} if self.n > 1 else {}),
            "guarantee": None if self.code else GUARANTEE,
            "no_guarantee_reason": self.reason,
            "no_guarantee_code": self.code,
        }

    def _sample(self, number: int) -> dict[str, Any]:
        exit_ = self.exits[number % len(self.exits)]
        answer = self.answers[number % len(self.answers)]
        return {
            "answer": answer,
            "exit": exit_,
            "confidence": {"high": 0.93, "low": 0.12, "natural": 0.7}[exit_],
            "reasoning_tokens": self.ends[number % len(self.ends)],
            "answer_tokens": 4 if answer else 0,
        }

    def _thinking(self, number: int, ended: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        events: list[tuple[str, dict[str, Any]]] = []
        end, last = ended["reasoning_tokens"], ended["confidence"]
        top = last if ended["exit"] == "high" else 0.35
        for at in range(CHECKPOINT, end + 1, CHECKPOINT):
            read = last if at == end else round(0.3 + (top - 0.3) * (at / end) ** 1.5, 4)
            token = {"sample": number, "tokens": CHECKPOINT, "text": WORDS, "is_answer": False}
            final = at == end and ended["exit"] == "natural"
            reading = {"sample": number, "tokens": at, "confidence": read, "is_final": final}
            events += [("token", token), ("checkpoint", reading)]
        stop = {"exit": ended["exit"], "tokens": end, "confidence": last}
        return [
            *events,
            ("exit", {"sample": number} | stop),
            ("sample", {"sample": number} | ended),
        ]

    def _vote(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        tally: dict[str, float] = {}
        for one in samples:
            if one["answer"]:
                tally[one["answer"]] = tally.get(one["answer"], 0.0) + one["confidence"]
        leader = max(tally, key=lambda answer: tally[answer], default=None)
        total = sum(tally.values())
        return {
            "counted": len(samples),
            "samples": self.n,
            "tally": tally,
            "leader": leader,
            "share": tally[leader] / total if leader else 0.0,
            "decided": len(samples) == self.n,
        }

    def _done(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        vote = self._vote(samples)
        share = vote["share"] if self.n > 1 else samples[0]["confidence"]
        thought = sum(one["reasoning_tokens"] for one in samples)
        saved = {
            "full_budget_tokens": FULL_TOKENS * self.n,
            "tokens": FULL_TOKENS * self.n - thought,
            "by_cancelling_tokens": 0.0,
        }
        return {
            "id": "chatcmpl-1",
            "answer": None if self.abstains else vote["leader"],
            "abstained": self.abstains,
            "confidence": None if self.abstains else share,
            "exit": samples[0]["exit"],
            "guarantee": None if self.code else GUARANTEE,
            "no_guarantee_reason": self.reason,
            "no_guarantee_code": self.code,
            "familiarity": 0.002 if self.code == "unfamiliar" else 0.4,
            "tally": vote["tally"],
            "samples": list(samples),
            "usage": {"reasoning_tokens": thought, "answer_tokens": 4 * self.n},
            "saved": None if self.code else saved,
        }


UNFAMILIAR = "the question is unlike the calibration problems: its familiarity is 0.002"
ALARM = "risk alarm at alpha 0.05: 31 of 120 audited answers are wrong; answered at the full budget"
STATES = {
    "guaranteed": Told(),
    "weak": Told(answers=("14", "13", "12", "11")),
    "none": Told(code="not_covered", reason="certificate 571b667eda0c does not cover this request"),
    "unfamiliar": Told(code="unfamiliar", reason=UNFAMILIAR),
    "withdrawn": Told(
        n=1, code="withdrawn", reason=ALARM, exits=("natural",), ends=(352,), policy=FULL_BUDGET
    ),
    "abstained": Told(n=1, exits=("low",), answers=(None,), ends=(256,), abstains=True),
}
"""A question for each state of trust."""
