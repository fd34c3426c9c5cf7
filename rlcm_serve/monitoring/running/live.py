"""Live monitoring of one process: takes its answers, and knows the store of all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlcm_serve.core import Question, Solution
from rlcm_serve.monitoring.given import given_answer
from rlcm_serve.monitoring.in_flight import InFlight
from rlcm_serve.monitoring.records import GivenAnswer
from rlcm_serve.monitoring.running.betting import Betting
from rlcm_serve.monitoring.steady_clock import SteadyClock
from rlcm_serve.monitoring.writer import AnswerWriter
from rlcm_serve.settings import Settings
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.slots import ServedUnder
from rlcm_serve.store.answers.draws import draw_of
from rlcm_serve.store.answers.figures import MonitoringFigures
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database


class LiveMonitoring:
    """Keeps each answer of this process, and draws those that need a label.

    Args:
        database: shared by all processes.
        settings: of monitoring.
        certificates: what is tested, and withdrawn after an alarm.

    Attributes:
        answers: those of all processes.
        draw: decides which answers need a label.
        writer: stores the answers of this process.
        in_flight: its questions that are being answered.
        betting: runs the monitors, if no other process does.
    """

    def __init__(
        self, database: Database, settings: Settings, certificates: CertificateStore
    ) -> None:
        self.settings = settings
        self.draw = draw_of(database, settings.shares)
        self.answers = StoredAnswers(database, self.draw, texts=settings.audit_texts)
        self.writer = AnswerWriter(self._add)
        self.betting = Betting(database, settings, self.draw, certificates, self._mark)
        self.in_flight = InFlight(SteadyClock(self.betting.monitors.last_seen()))
        self.database = database
        self.threads = database.threads

    def given(
        self,
        id_: str,
        key_id: str | None,
        question: Question,
        digest: bytes,
        solution: Solution,
        digests: Mapping[str, str],
        started: float,
        shadow: ShadowDraw | None = None,
        *,
        departs: bool = False,
        under: ServedUnder | None = None,
    ) -> Solution:
        """Takes a solution that is about to be given; returns it with whether it was drawn.

        Args:
            id_: of the answer.
            key_id: of the API key that asked.
            question: as it was asked.
            digest: of the question, by `digest_of_ask`.
            solution: what came of it.
            digests: of the active certificates, by their ids.
            started: when the question was asked, Unix time.
            shadow: how its shadow run was drawn, if one could be.
            departs: whether its conversation or its schema is not the profile's.
            under: of which engine and profile it is.
        """
        guarantee = solution.guarantee
        answer = given_answer(
            question,
            solution,
            id_=id_,
            key_id=key_id,
            certificate=None if guarantee is None else digests[guarantee.certificate],
            draw=self.draw,
            started=started,
            now=time.time(),
            deadline=self.settings.audit_deadline_s,
            shadow=shadow,
            question_digest=self.draw.question_digest(digest),
            departs=departs,
            under=under,
        )
        self.writer.put(answer)
        return replace(solution, audited=answer.wants_label)

    async def figures(self) -> MonitoringFigures:
        """What the monitors know now.

        Raises:
            DatabaseRefused: the database cannot be read.
        """
        return await self.threads.read(self.betting.figures.read)

    async def close(self) -> None:
        """Stores what waits."""
        await self.writer.close()

    def _mark(self) -> float:
        """All questions asked before this time have ended, and are stored."""
        return min(self.in_flight.mark(), self.writer.oldest())  # in this order: one, then other

    async def _add(self, answers: Sequence[GivenAnswer]) -> None:
        await self.threads.write(self.answers.add, answers)


def open_monitoring(
    settings: Settings, database: Database, certificates: CertificateStore
) -> LiveMonitoring | None:
    """The monitoring that the settings ask for; None if they ask for none.

    Raises:
        DatabaseRefused: the database cannot be used.
    """
    return LiveMonitoring(database, settings, certificates) if settings.monitor else None
