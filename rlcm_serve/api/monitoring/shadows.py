"""Shadow runs of this process: what they need of it, and the grading of their answers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rlcm_serve.admission import Admission
from rlcm_serve.answers.profile_graders import verdicts_of
from rlcm_serve.core import Solution
from rlcm_serve.errors import DatabaseRefused, NotReady, ProfileRefused, RequestRefused
from rlcm_serve.settings import Settings
from rlcm_serve.solving.service import Service
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.shadow.runs import Claim, ShadowOutcome, ShadowRuns
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.store.answers.live import LiveMonitoring
from rlcm_serve.store.answers.stored import SHADOW_DEADLINE
from rlcm_serve.store.shadows.stored import StoredShadows

if TYPE_CHECKING:
    from rlcm_serve.api.context import Context

_TRIES = 60
"""Attempts to store an outcome, a second apart."""
_log = logging.getLogger(__name__)


def open_shadows(
    settings: Settings, monitoring: LiveMonitoring | None, admission: Admission, service: Service
) -> ShadowRuns | None:
    """The shadow runs that the settings ask for; None if they ask for none."""
    if monitoring is None:
        return None
    stored = StoredShadows(monitoring.database, texts=settings.audit_texts)
    monitoring.betting.before = lambda: grade_full_answers(stored, service)
    if not settings.shadow_share:
        return None

    async def keep(outcome: ShadowOutcome) -> None:
        for _ in range(_TRIES):
            await monitoring.writer.written()
            try:
                if await monitoring.threads.write(stored.end, outcome):
                    return
            except DatabaseRefused:
                pass
            await asyncio.sleep(1)
        _log.error("the shadow run of %s was not stored", outcome.id)

    return ShadowRuns(
        settings.shadow_share,
        settings.shadow_runs,
        monitoring.draw.draws,
        lambda: admission.waiting > 0 or admission.running >= admission.max_running,
        keep,
        SHADOW_DEADLINE,
    )


def drawn_for(context: Context, id_: str) -> AbstractContextManager[Claim | None]:
    """The draw of a question that is asked, for as long as it is being answered."""
    return nullcontext() if context.shadows is None or not id_ else context.shadows.question(id_)


def run_on(
    context: Context, claim: Claim | None, prepared: Prepared, solution: Solution
) -> ShadowDraw | None:
    """Starts the shadow run of an answer that is given, if it was drawn; for its record."""
    if context.shadows is None or claim is None:
        return None
    verdicts = verdicts_of(prepared.reasoner.identity.profile, context.service.grader)
    return context.shadows.given(claim, prepared, solution, verdicts)


def grade_full_answers(stored: StoredShadows, service: Service) -> None:
    """Grades full-budget answers with references that labels brought. It blocks."""
    try:
        identities = service.guarantees.identities
    except NotReady:
        return
    for one in stored.ungraded():
        try:
            profile = next(i.profile for i in identities if i.profile.name == one.profile)
            verdicts = verdicts_of(profile, service.grader)
            verdicts.check_reference(one.reference)
            right: bool | None = verdicts.equal(one.answer, one.reference)
        except (StopIteration, ProfileRefused, RequestRefused) as error:
            _log.warning("the full-budget answer of %s cannot be graded: %s", one.id, error)
            right = None
        stored.grade(one.id, right)
