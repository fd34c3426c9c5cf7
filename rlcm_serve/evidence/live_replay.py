"""Replays a certificate's policies on live readings: what it would have cost to answer with them.

Live readings end where the sample ended, so a policy can be replayed only as far as that. It is
known where it would have stopped earlier. Where it would have thought on, only a lower bound is
known: the tokens that were generated. What it would have answered is not known at all, because an
answer at an earlier stop was never forced. So this says what a certificate would have saved and
declined, and nothing about its risk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibration import Certificate, ExitPolicy, ExitReason, step
from calibration.policy.exit_rule import INITIAL_STATE, answers_at_end
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.evidence.chains import chains_in, parse, segments_of
from rlcm_serve.evidence.records import how_asked
from rlcm_serve.solving.fingerprints import fitted_on
from rlcm_serve.solving.gate import is_familiar

_OWN_ENDS = tuple(end.value for end in ExitReason if end.is_own_end)


@dataclass(slots=True)
class ReplayedLevel:
    """What one level would have done with the questions of the records. Tokens are of reasoning.

    Attributes:
        alpha: of the level.
        questions: replayed.
        samples: of these questions.
        undecided: samples that it would not have stopped, but something else did.
        tokens: that were generated.
        tokens_at_least: that it would have generated; exact if no sample is undecided.
        known: questions with one sample of which it is known whether it would have answered.
        declined: of these, those that it would have declined.
    """

    alpha: float
    questions: int = 0
    samples: int = 0
    undecided: int = 0
    tokens: int = 0
    tokens_at_least: int = 0
    known: int = 0
    declined: int = 0

    def in_words(self) -> str:
        """One line about the level."""
        if not self.questions:
            return f"alpha {self.alpha:g}: no question to replay"
        saved = 1 - self.tokens_at_least / self.tokens if self.tokens else 0.0
        most = "at most " if self.undecided else ""
        line = (
            f"alpha {self.alpha:g}: {most}{saved:.1%} fewer reasoning tokens on {self.questions} "
            f"questions; {self.undecided} of {self.samples} samples would have thought on"
        )
        if self.known:
            line += f"; abstentions on {self.declined} of {self.known}"
        return line


@dataclass(frozen=True, slots=True)
class LiveReplay:
    """All certified levels, and the answers of the records that say nothing about them.

    Attributes:
        levels: by rising alpha.
        others: answers left out: of another engine, asked in another way, to an unfamiliar
            question, or without a sample.
    """

    levels: tuple[ReplayedLevel, ...]
    others: int


def replay_records(certificate: Certificate, folder: Path) -> LiveReplay:
    """Replays the certified levels on the records of a folder, one record at a time.

    Args:
        certificate: has a fingerprint.
        folder: of the setting `evidence_folder`.

    Raises:
        CertificateMismatch: the certificate has no fingerprint.
        ValueError: a record was changed; the message names the file.
    """
    certified = certificate.certified_levels
    found = {level.alpha: ReplayedLevel(level.alpha) for level in certified}
    fitted = fitted_on(certificate)
    engines: dict[str, Fingerprint] = {}  # those with the readings of the certificate's
    others = 0
    for record in _records(folder):
        if record["kind"] == "engine":
            engine = Fingerprint.from_json(record["fingerprint"])
            if _is_like(fitted, engine):
                engines[record["engine"]] = engine
        elif record["kind"] == "answer":
            known = engines.get(record["engine"])
            if known is None or not _is_covered(certificate, known, record):
                others += 1
                continue
            for level in certified:
                _add(found[level.alpha], level.policy, record["samples"])
    return LiveReplay(tuple(found.values()), others)


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for chain in chains_in(folder):
        for segment in segments_of(chain):
            try:
                lines = segment.open("rb")
            except FileNotFoundError:  # the service has deleted it in the meantime
                continue
            with lines:
                for line in lines:
                    if not line.endswith(b"\n"):
                        break  # of a process that was killed, or that is writing now
                    try:
                        yield parse(line)
                    except (ValueError, RecursionError) as error:
                        raise ValueError(f"{segment}: {error}") from error


def _is_covered(certificate: Certificate, engine: Fingerprint, record: Mapping[str, Any]) -> bool:
    """Whether an answer of this engine, which fits the certificate, says anything about it."""
    return (
        bool(record["samples"])
        and is_familiar(engine, record.get("familiarity"))
        and not how_asked(record["asked"], engine).departures_from(certificate)
    )


def _is_like(fitted: Fingerprint, engine: Fingerprint) -> bool:
    """Whether the readings of an engine are those that the certificate was fitted on."""
    asked = replace(engine, samples=fitted.samples, vote=fitted.vote, max_tokens=fitted.max_tokens)
    return not fitted.differences(asked)


def _add(level: ReplayedLevel, policy: ExitPolicy, samples: list[Mapping[str, Any]]) -> None:
    level.questions += 1
    for sample in samples:
        stop, answers = stop_of_record(policy, sample)
        level.samples += 1
        level.tokens += sample["tokens"]
        level.tokens_at_least += sample["tokens"] if stop is None else stop
        level.undecided += stop is None
        if len(samples) == 1 and stop is not None:
            level.known += 1
            level.declined += not answers


def stop_of_record(policy: ExitPolicy, sample: Mapping[str, Any]) -> tuple[int | None, bool]:
    """As `stop_of`, for a sample as it was recorded."""
    readings = [(tokens, math.nan if c is None else c) for tokens, c in sample["readings"]]
    return stop_of(policy, readings, sample["tokens"], ends=sample["exit"] in _OWN_ENDS)


def stop_of(
    policy: ExitPolicy, readings: Sequence[tuple[int, float]], length: int, *, ends: bool
) -> tuple[int | None, bool]:
    """Tokens at which the policy stops a sample, and whether it answers then.

    None if the sample was stopped before the policy would have.

    Args:
        policy: to replay.
        readings: tokens and confidence of each; the last is c_end if the sample ended by itself.
        length: of the sample, in reasoning tokens.
        ends: whether it ended by itself, or at its budget.
    """
    state = INITIAL_STATE
    for tokens, confidence in readings[:-1] if ends else readings:
        state, reason = step(policy, state, tokens, confidence)
        if reason is not None:
            return tokens, reason is ExitReason.HIGH or policy.answer_on_low
    if not ends:
        return None, False
    at_end = readings[-1][1] if readings else math.nan
    return length, answers_at_end(policy, state, at_end)
