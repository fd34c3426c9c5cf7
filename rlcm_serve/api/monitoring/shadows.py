"""Shadow runs of this process: what they need of it, and the grading of their answers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rlcm_serve.admission import Admission
from rlcm_serve.answers.grader import BACKGROUND, AnswerGrader
from rlcm_serve.answers.profile_graders import verdicts_as_given, verdicts_of
from rlcm_serve.core import Solution
from rlcm_serve.errors import NotReady, ProfileRefused, RequestRefused
from rlcm_serve.monitoring.running.live import LiveMonitoring
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.settings import Settings
from rlcm_serve.solving.service import Service
from rlcm_serve.solving.shadow.background import stored
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.shadow.runs import Claim, ShadowOutcome, ShadowRuns
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.store.answers.stored import SHADOW_DEADLINE
from rlcm_serve.store.shadows.stored import StoredShadows, Ungraded

if TYPE_CHECKING:
    from rlcm_serve.api.context import Context

GRADING_S = 5.0
"""Seconds for which answers are graded after one look of the monitors, which wait meanwhile."""
GRADING_TRIES = 3
"""Looks after which a grader that fails on an answer is not asked about it again."""
_log = logging.getLogger(__name__)


def open_shadows(
    settings: Settings, monitoring: LiveMonitoring | None, admission: Admission, service: Service
) -> ShadowRuns | None:
    """The shadow runs that the settings ask for; None if they ask for none."""
    if monitoring is None:
        return None
    runs = StoredShadows(monitoring.database, texts=settings.audit_texts)
    monitoring.betting.after = FullAnswerGrading(runs, service).grade
    if not settings.shadow_share:
        return None

    async def keep(outcome: ShadowOutcome) -> None:
        async def write() -> bool:
            await monitoring.writer.written()
            return await monitoring.threads.write(runs.end, outcome)

        await stored(write, f"the shadow run of {outcome.id}")

    return ShadowRuns(
        settings.shadow_share,
        settings.shadow_runs,
        monitoring.draw.draws,
        lambda: admission.is_busy,
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


class FullAnswerGrading:
    """Grades full-budget answers with references that labels brought.

    Callers send references, so any one may fail. The others are graded all the same, before those
    that failed at an earlier look. What another version of a grader judged is left to the
    processes that have it.
    """

    def __init__(self, stored: StoredShadows, service: Service) -> None:
        self._stored, self._service = stored, service
        self._failures: Counter[str] = Counter()
        self._absent: set[str] = set()

    def grade(self) -> None:
        """Grades what waits under the profiles served here, for some seconds. It blocks."""
        try:
            identities = self._service.guarantees.identities
        except NotReady:
            return
        profiles = {one.profile.name: one.profile for one in identities}
        waiting = self._stored.ungraded([*profiles], self._absent)
        until = time.monotonic() + GRADING_S
        with AnswerGrader(niceness=BACKGROUND) as grader:  # live votes do not wait for this one
            for one in sorted(waiting, key=lambda each: self._failures[each.id]):
                if time.monotonic() > until:
                    return
                self._grade(one, profiles[one.profile], grader)

    def _grade(self, one: Ungraded, profile: Profile, grader: AnswerGrader) -> None:
        try:
            verdicts = verdicts_as_given(one.grader, profile, grader)
            verdicts.check_reference(one.reference)
            right: bool | None = verdicts.equal(one.answer, one.reference)
        except ProfileRefused as error:
            if one.grader is not None and one.grader not in self._absent:
                self._absent.add(one.grader)
                _log.warning("full-budget answers are left to other processes: %s", error)
            return
        except Exception as error:  # a grader may be anybody's  # noqa: BLE001
            self._failures[one.id] += 1
            is_refused = isinstance(error, RequestRefused)
            last = is_refused or self._failures[one.id] == GRADING_TRIES
            _log.warning(
                "the full-budget answer of %s cannot be graded%s: %s: %s",
                one.id,
                "" if last else ", trying again",
                type(error).__name__,
                error,
            )
            if not last:
                return
            right = None
        self._stored.grade(one, right)
        del self._failures[one.id]
