"""Where a confidence may come from, under one interface: for exits, for votes, for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """What says how sure a rollout is."""

    PROBE = "probe"
    SEQUENCE_PROBABILITY = "sequence-probability"
    LOWEST_GROUP = "lowest-group"
    TAIL = "tail"
    ANSWER_PROBABILITY = "answer-probability"
    AGREEMENT = "agreement"
    ENTROPY = "entropy"
    VERBALIZED = "verbalised"


@dataclass(frozen=True, slots=True)
class About:
    """What a reader of a report has to know of a source.

    Attributes:
        title: how it is called in tables and figures.
        definition: one sentence, with its origin.
        is_probability: it claims to be the probability of being right, so that ECE judges a claim;
            of any other, ECE only says how far its scale is from one.
        online: read inside the engine, while the model thinks, at no token's cost; the others need
            text to be generated at every reading.
        brings_answer: what is generated for a reading holds the answer that a stop there gives.
    """

    title: str
    definition: str
    is_probability: bool
    online: bool
    brings_answer: bool = False


ABOUT: dict[Source, About] = {
    Source.PROBE: About(
        "probe",
        "A probe on the model's hidden state (RLCM §3.2).",
        is_probability=True,
        online=True,
    ),
    Source.SEQUENCE_PROBABILITY: About(
        "sequence probability",
        "exp of the mean log-probability of the reasoning tokens so far (C²GSPG, RLCM App. D).",
        is_probability=True,
        online=True,
    ),
    Source.LOWEST_GROUP: About(
        "lowest group",
        "The lowest mean token confidence of any window of tokens so far (DeepConf, arXiv "
        "2508.15260), c / (c + 10).",
        is_probability=False,
        online=True,
    ),
    Source.TAIL: About(
        "tail",
        "The mean token confidence of the last window of tokens (DeepConf, arXiv 2508.15260), "
        "c / (c + 10).",
        is_probability=False,
        online=True,
    ),
    Source.ANSWER_PROBABILITY: About(
        "answer probability",
        "The probability of the forced answer's own tokens; none if the model then gave another.",
        is_probability=True,
        online=False,
        brings_answer=True,
    ),
    Source.AGREEMENT: About(
        "agreement",
        "The share of the other forced answers that are equal to the answer given.",
        is_probability=True,
        online=False,
        brings_answer=True,
    ),
    Source.ENTROPY: About(
        "entropy after </think>",
        "exp(-H), H the entropy of the next token once the thinking is closed (EAT, arXiv "
        "2509.26522).",
        is_probability=False,
        online=False,
    ),
    Source.VERBALIZED: About(
        "verbalised",
        "What the model says in <confidence> (RLCR, arXiv 2507.16806); 0 where it says nothing.",
        is_probability=True,
        online=False,
        brings_answer=True,
    ),
}
