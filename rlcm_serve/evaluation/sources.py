"""Sources of confidence, for exits, votes and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """A source of confidence. The values stand in files and on the command line."""

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
    """Properties of a source, for reports and costs.

    Attributes:
        title: in tables and figures.
        definition: one sentence, with the paper it comes from.
        is_probability: it claims to be the probability that the answer is right. For any other
            source, ECE only measures how far its scale is from a probability.
        online: read inside the engine during reasoning, without token cost. Other sources generate
            text at every reading.
        brings_answer: the text generated for a reading contains the answer after a stop there.
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
        "The probability of the forced answer's tokens; missing if the model's own answer differs.",
        is_probability=True,
        online=False,
        brings_answer=True,
    ),
    Source.AGREEMENT: About(
        "agreement",
        "The share of the other forced answers that equal the answer.",
        is_probability=True,
        online=False,
        brings_answer=True,
    ),
    Source.ENTROPY: About(
        "entropy after </think>",
        "exp(-H), where H is the entropy of the token after </think> (EAT, arXiv 2509.26522).",
        is_probability=False,
        online=False,
    ),
    Source.VERBALIZED: About(
        "verbalised",
        "What the model states in <confidence> (RLCR, arXiv 2507.16806); 0 if it states nothing.",
        is_probability=True,
        online=False,
        brings_answer=True,
    ),
}
