"""Rollouts made by hand."""

from msgspec.structs import replace

from rlcm_serve.evaluation.rollouts import EvaluationReading, EvaluationRollout

CHECKPOINT = EvaluationReading(
    tokens=16,
    signals={"probe": 0.3, "sequence-probability": 0.8},
    answers=("7", "8", "7", None),
    answer_tokens=(3, 4, 5, 6),
    answer_probability=0.6,
    entropy=0.5,
    verbalized=0.4,
    verbalized_tokens=2,
)
FINAL = replace(CHECKPOINT, tokens=20, signals={"probe": 0.9, "sequence-probability": 0.7})
NATURAL = EvaluationRollout(
    problem_id="p1",
    rollout=0,
    text="Wait, that's 8.",
    tokens=20,
    natural=True,
    own_text=r"It is \boxed{8}.",
    own_answer="8",
    own_tokens=9,
    own_verbalized=None,
    readings=(CHECKPOINT, FINAL),
)
CUT_OFF = replace(
    NATURAL, rollout=1, natural=False, own_text=None, own_answer=None, own_tokens=0, text="Hm."
)
