"""What monitoring keeps of an answer, made from the question and its solution."""

from __future__ import annotations

import math

from rlcm_serve.core import Question, Solution
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import GivenAnswer
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.slots import ServedUnder


def given_answer(
    question: Question,
    solution: Solution,
    *,
    id_: str,
    key_id: str | None,
    certificate: str | None,
    draw: AuditDraw,
    started: float,
    now: float,
    deadline: float,
    shadow: ShadowDraw | None = None,
    question_digest: bytes | None = None,
    departs: bool = False,
    under: ServedUnder | None = None,
) -> GivenAnswer:
    """The record of an answer or an abstention, with its question's text and its own.

    Args:
        question: as it was asked.
        solution: what came of it.
        id_: of the answer.
        key_id: of the API key that asked.
        certificate: digest of the certificate behind the solution's guarantee.
        draw: decides whether a label is wanted.
        started: when the question was asked, Unix time.
        now: Unix time.
        deadline: seconds until a label must be in.
        shadow: how its shadow run was drawn, if one could be.
        question_digest: as in `GivenAnswer`.
        departs: as in `GivenAnswer`.
        under: as in `GivenAnswer`.
    """
    share = draw.share(key_id, question.kind)
    guarantee = solution.guarantee
    return GivenAnswer(
        id=id_,
        key_id=key_id,
        started=started,
        time=now,
        profile=solution.profile,
        kind=question.kind,
        certificate=certificate,
        alpha=None if guarantee is None else guarantee.alpha_certified,
        risk=str(question.risk),
        answered=not solution.abstained,
        confidence=confidence_at_exit(solution),
        tokens=tokens_of(solution),
        familiarity=solution.familiarity,
        audited=draw.draws(id_, share),
        audit_share=share,
        due=now + deadline,
        question=question.text,
        answer=solution.answer,
        shadow=shadow,
        question_digest=question_digest,
        departs=departs,
        under=under,
    )


def confidence_at_exit(solution: Solution) -> float:
    """As `calibration.simulation.risks.Outcomes.confidence_DT`, also of a declined question.

    The only sample's confidence, or the winner's share of the vote; 0 if no sample has an answer.
    """
    found = solution.confidence
    if found is None:
        finished = solution.finished
        if len(solution.samples) == 1 and finished:
            found = finished[0].rollout.confidence
        elif total := sum(solution.tally.values()):
            found = max(solution.tally.values()) / total
    return found if found is not None and math.isfinite(found) else 0.0


def tokens_of(solution: Solution) -> int:
    """Reasoning and answer tokens of all samples, as certificates count them."""
    counts = solution.tokens_by_kind
    return counts["reasoning"] + counts["answer"] + counts["cancelled"]
