"""Runs the monitors of all levels, in one process at a time, and does what alarms ask for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import httpx

from calibration.certificate.certificate import Certificate
from rlcm_serve.errors import DatabaseRefused, NoReport, NotFound, NotReady
from rlcm_serve.monitoring.advance import Monitor, advance, alarm_text
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.losses import SeenAnswer, kinds_of
from rlcm_serve.monitoring.records import (
    WITHDRAWING,
    Action,
    EventKind,
    Hook,
    MonitorEvent,
    MonitorKind,
    runbook_of,
)
from rlcm_serve.monitoring.reference import reference_of
from rlcm_serve.settings import Settings
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.slots import slot_of
from rlcm_serve.store.answers.figures import FigureStore
from rlcm_serve.store.answers.monitors import AT_ONCE, Step, StoredMonitors, Watched
from rlcm_serve.store.answers.turn import LEASE, MonitorsTurn
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database

LOOK_EVERY = 10.0
"""Seconds between two looks at what is new. A look costs each monitor that has news a few
milliseconds, however many answers there are."""
HISTORY_EVERY = 300.0
"""Seconds between two rows of a level's history."""
CUT_EVERY = 3600.0
HOOK_TIMEOUT = 10.0
HOOK_TRIES = 20
"""Attempts to tell the webhook of an event, a minute apart."""
_HOOK_PAUSE = 60.0
_TOGETHER = 16
"""Monitors whose next states are stored in one transaction, which takes some milliseconds."""
_REST = 0.01
"""Seconds after each such transaction, so that other writers of SQLite, who poll, have their
turn."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")

CurrentGuarantees = Callable[[], Guarantees]


@dataclass(slots=True)
class _Times:
    """When regular work was last done, on the database's clock."""

    history: float = 0.0
    cut: float = 0.0
    hook: float = 0.0


class Betting:
    """Shows new answers to the monitors of their levels.

    Several processes may have one; the one that holds the lease works. Even if two worked at once,
    a monitor's state, its place in the order of answers, and what it found are stored in one
    transaction, which fails if another process was faster. So a process may be killed anywhere: no
    answer is seen twice, and none is left out.

    Args:
        database: shared by all processes.
        settings: actions, webhook, retention.
        draw: has the secret for ties.
        certificates: to withdraw, and for their report data.
        mark: a time such that all questions of this process asked before it have ended and are
            stored.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        draw: AuditDraw,
        certificates: CertificateStore,
        mark: Callable[[], float] = time.time,
    ) -> None:
        self.monitors = StoredMonitors(database)
        self.figures = FigureStore(database, self.monitors, draw)
        self._database = database
        self._settings = settings
        self._actions = settings.actions
        self._draw = draw
        self._certificates = certificates
        self._mark = mark
        self._turn = MonitorsTurn(database)
        self._registered: set[str] = set()
        self._served: Sequence[Certificate] | None = None
        """What this process serves; None until its engine has started once."""
        self._times = _Times()
        self._tries: dict[int, int] = {}
        self.on_alarm: Callable[[MonitorEvent], None] = lambda event: None
        self.after: Callable[[], None] = lambda: None
        """Called after each look of the monitors, in every process."""

    async def run(self, guarantees: CurrentGuarantees) -> NoReturn:
        """Works until it is cancelled. While the database cannot be used, the monitors wait."""
        has_failed = False
        while True:
            try:
                if await self._kept(asyncio.to_thread(self.work, guarantees)):
                    await self._kept(self._tell())
                has_failed = False
            except DatabaseRefused as error:
                if not has_failed:
                    _log.error("the monitors wait, because the database fails: %s", error)
                has_failed = True
            except Exception:  # monitors must not end in silence  # noqa: BLE001
                if not has_failed:
                    _log.exception("the monitors failed; trying again")
                has_failed = True
            await asyncio.sleep(LOOK_EVERY)

    async def _kept(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of some work, while which no other process forgets this one.

        A look at many labels takes longer than the lease. The questions that run meanwhile are
        the long ones, so their answers must not be passed over.
        """
        working = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({working}, timeout=LOOK_EVERY))[0]:
                with suppress(DatabaseRefused):  # the work meets it too, and says so
                    await asyncio.to_thread(self.keep)
            return working.result()
        finally:
            working.cancel()

    def keep(self) -> None:
        """Renews the mark of this process, and its lease if it holds it."""
        now = self.monitors.now()
        self.monitors.note_mark(self._turn.holder, self._mark(), now + LEASE)
        self._turn.renew(now)

    def work(self, guarantees: CurrentGuarantees) -> bool:
        """One look at what is new; False without an engine, and while another process looks."""
        has_turn = self._look(guarantees)
        self.after()
        return has_turn

    def _look(self, guarantees: CurrentGuarantees) -> bool:
        with suppress(NotReady):
            now_served = guarantees()
            self._served = now_served.certificates
            self._register(now_served)
        now = self.monitors.now()
        mark = self.monitors.note_mark(self._turn.holder, self._mark(), now + LEASE)
        # Whether a certificate still has its place is not known before there is an engine.
        if self._served is None or not self._turn.claim(now):
            return False
        news = self.monitors.with_news(mark)
        for start in range(0, len(news), _TOGETHER):
            self.catch_up(news[start : start + _TOGETHER], mark, now)
        self.monitors.counts.expire()
        self.monitors.shadow_counts.expire()
        self._turn.note_look(now)
        self._upkeep(now)
        return True

    def catch_up(self, news: Sequence[Watched], mark: float, now: float) -> None:
        """Shows monitors the answers to questions asked before `mark`, in short transactions.

        So they see answers in the order in which questions were asked. In the order in which they
        end, a burst of questions would begin with its easy ones and end with its hard ones.
        """
        while news := self._ready(news, mark, now):
            unseen = self.monitors.unseen([one.monitor for one in news], mark, AT_ONCE)
            shown = [
                (step, answers)
                for one, answers in zip(news, unseen, strict=True)
                if answers and (step := self._step(one, answers, now)) is not None
            ]
            stored = self.monitors.commit([step for step, _ in shown])
            news = []
            for (step, answers), is_stored in zip(shown, stored, strict=True):
                if is_stored and step.event is not None:
                    _log.warning("certificate %s: %s", step.event.certificate[:12], step.event.text)
                    self.on_alarm(step.event)
                if is_stored and len(answers) == AT_ONCE:
                    news.append(replace(step.before, monitor=step.after))
            time.sleep(_REST)

    def _ready(self, news: Sequence[Watched], mark: float, now: float) -> list[Watched]:
        """Those that need not wait for what their next answer lost; reads that answer alone."""
        losing = [one.monitor for one in news if one.monitor.what is not MonitorKind.DRIFT]
        firsts = iter(self.monitors.unseen(losing, mark, 1))
        return [
            one
            for one in news
            if one.monitor.what is MonitorKind.DRIFT
            or not any(one.monitor.waits(first, now) for first in next(firsts))
        ]

    def _step(self, watched: Watched, answers: Sequence[SeenAnswer], now: float) -> Step | None:
        """A monitor's next state; None if its own one cannot be used."""
        monitor = watched.monitor
        try:
            if monitor.what is MonitorKind.RISK and "seen" not in monitor.state:
                # It starts after the drift monitor of its level, or an older release started it.
                state = {**monitor.state, "seen": self.monitors.passed(monitor)}
                monitor = replace(monitor, state=state)
            after = advance(monitor, answers, now, self._seed(monitor))
            has_alarmed = after.alarmed is not None and monitor.alarmed is None
            tells = has_alarmed and monitor.what is not MonitorKind.SHADOW
            return Step(watched, after, self._event(watched, after, now) if tells else None)
        except DatabaseRefused:
            raise
        except Exception as error:  # the others go on  # noqa: BLE001
            self.monitors.note_unusable(monitor, error)
            return None

    def _seed(self, monitor: Monitor) -> bytes:
        return self._draw.digest(f"ties {monitor.certificate} {monitor.alpha!r}")

    def _event(self, watched: Watched, monitor: Monitor, now: float) -> MonitorEvent:
        text, figures = alarm_text(monitor, self._seed(monitor))
        action = Action(self._actions.of(monitor.certificate[:12], monitor.what.value))
        # A late label says nothing about the certificate that is in its place now.
        if action in WITHDRAWING and self._certificates.is_replaced(
            monitor.certificate, watched.slot, self._served or ()
        ):
            action = Action.WARN
            text += "; the certificate is no longer active, so nothing is withdrawn"
        return MonitorEvent(
            time=now,
            certificate=monitor.certificate,
            alpha=monitor.alpha,
            what=EventKind(f"{monitor.what.value}_alarm"),
            text=text,
            figures=figures,
            action=action,
            hook=Hook.WAITING if self._settings.alarm_webhook else Hook.NONE,
        )

    def _register(self, guarantees: Guarantees) -> None:
        """Adds the monitors of certificates that became active here."""
        new = [one for one in guarantees.certificates if one.digest not in self._registered]
        watched: list[Watched] = []
        for certificate in new:
            try:
                report = self._certificates.report(certificate.id)
            except (NoReport, NotFound):
                report = None
            levels = certificate.certified_levels
            for level in levels:
                reference = reference_of(certificate, level, report)
                for what in kinds_of(certificate.risk, shadows=self._settings.shadow_share > 0):
                    monitor = Monitor(
                        certificate=certificate.digest,
                        alpha=level.alpha,
                        what=what,
                        risk=certificate.risk,
                        delta=certificate.delta / len(levels),
                        reference=reference if what is MonitorKind.DRIFT else {},
                        started=0.0,
                        sequence=0,
                        state={},
                        alarmed=None,
                    )
                    watched.append(Watched(monitor, slot_of(certificate), certificate.whole_delta))
        if watched:
            self.monitors.register(watched)
        self._registered |= {one.digest for one in new}

    def _upkeep(self, now: float) -> None:
        """History, and deletion of what is too old."""
        if now - self._times.history >= HISTORY_EVERY:
            self._times.history = now
            rows = self.figures.history_rows(now)
            if rows:
                self.monitors.add_history(rows)
        if now - self._times.cut >= CUT_EVERY:
            before = now - self._settings.answers_days * 86_400
            while self.monitors.cut(before):  # in short transactions
                pass
            self.monitors.cut_history(before)
            self._times.cut = now

    async def _tell(self) -> None:
        """Posts waiting events to the webhook."""
        url = self._settings.alarm_webhook
        loop_time = asyncio.get_running_loop().time()
        if not url or loop_time - self._times.hook < (_HOOK_PAUSE if self._tries else 0):
            return
        threads = self._database.threads
        waiting = await threads.read(self.monitors.events, 10, Hook.WAITING)
        if not waiting:
            return
        self._times.hook = loop_time
        async with httpx.AsyncClient(timeout=HOOK_TIMEOUT) as client:
            runbooks = self._settings.runbook_url
            posts = [_posted(client, url, event, runbooks) for event in waiting]
            # At once: a webhook that hangs delays the next look by one timeout.
            for event, delivered in zip(waiting, await asyncio.gather(*posts), strict=True):
                tries = self._tries.get(event.number, 0) + 1
                self._tries[event.number] = tries
                if delivered or tries == HOOK_TRIES:
                    del self._tries[event.number]
                    hook = Hook.DELIVERED if delivered else Hook.FAILED
                    await threads.write(self.monitors.told, event.number, hook)


async def _posted(
    client: httpx.AsyncClient, url: str, event: MonitorEvent, runbooks: str | None
) -> bool:
    """Whether the webhook took an event."""
    body = {
        "event": event.what.value,
        "number": event.number,
        "time": event.time,
        "certificate": event.certificate[:12],
        "alpha": event.alpha,
        "text": event.text,
        "action": event.action.value,
        "runbook": runbook_of(event.what, runbooks),
        "figures": dict(event.figures),
    }
    try:
        response = await client.post(url, json=body)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        _log.warning("the webhook was not told of event %d: %s", event.number, type(error).__name__)
        return False
    if not response.is_success:
        _log.warning("the webhook answers %d to event %d", response.status_code, event.number)
    return response.is_success
