"""The samples of one question, run at the same time, and counted in the vote as they end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rlcm_serve.core import CancelledSample, Sample
from rlcm_serve.events import OnEvent, SampleEvent, VoteEvent
from rlcm_serve.solving.sample import SampleRun
from rlcm_serve.solving.vote import VoteTally


class RunningSamples:
    """Runs samples until each has ended, the vote stops, or the vote is decided.

    Under a policy whose vote may stop, samples are counted by the depth of their thinking, in
    reasoning tokens, and not in the order in which they end: a sample is counted once every other
    one has ended or has thought longer. Samples that ended beyond the depth at which the vote stops
    are not counted, and are returned as cancelled. So the outcome does not depend on how fast each
    sample ran (`calibration.policy.vote_stop`).

    Args:
        vote: counts the samples.
        stop_when_decided: whether to cancel the samples that can no longer change the result.
        on_event: is told of every sample and of the vote.
    """

    def __init__(self, vote: VoteTally, stop_when_decided: bool, on_event: OnEvent) -> None:
        self._vote = vote
        self._stop_when_decided = stop_when_decided
        self._on_event = on_event
        self._running: dict[asyncio.Task[Sample], SampleRun] = {}
        self._waiting: dict[int, Sample] = {}
        """Samples that have ended and are not counted yet."""
        self._results: dict[int, Sample | CancelledSample] = {}
        self._progress = asyncio.Event()

    def note_progress(self) -> None:
        """A sample has thought further."""
        self._progress.set()

    async def run(self, samples: Sequence[SampleRun]) -> list[Sample | CancelledSample]:
        """The samples in their order, ended or cancelled."""
        self._running = {asyncio.create_task(sample.run()): sample for sample in samples}
        try:
            while self._running:
                await self._next_change()
                told = len(self._results)
                self._collect()
                await self._count()
                if len(self._results) > told:
                    self._on_event(_vote_event(self._vote))
                self._cancel()
        finally:
            # After an error or a cancellation, no sample is left in the engine.
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
        return [self._results[sample.number] for sample in samples]

    async def _next_change(self) -> None:
        """Waits until a sample ends or, where an ended one waits to be counted, thinks further."""
        changes: set[asyncio.Task[Sample] | asyncio.Task[bool]] = {*self._running}
        if not self._waiting:
            await asyncio.wait(changes, return_when=asyncio.FIRST_COMPLETED)
            return
        self._progress.clear()
        progress = asyncio.create_task(self._progress.wait())
        try:
            await asyncio.wait({*changes, progress}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            progress.cancel()

    def _collect(self) -> None:
        """Takes the results of the samples that have ended."""
        for task in [task for task in self._running if task.done()]:
            sample = self._running.pop(task)
            if task.cancelled():
                self._end(sample.number, sample.cancelled())
            elif self._vote.stopped:
                self._end(sample.number, _beyond_the_stop(task.result()))
            else:
                self._waiting[sample.number] = task.result()

    async def _count(self) -> None:
        """Counts the samples that can be counted."""
        while counted := self._countable():
            for number in counted:
                result = self._waiting.pop(number)
                await self._vote.add(number, result)
                self._end(number, result)
            if self._vote.stopped:
                for number in sorted(self._waiting):
                    self._end(number, _beyond_the_stop(self._waiting.pop(number)))

    def _countable(self) -> list[int]:
        if not self._vote.may_stop:
            return list(self._waiting)
        depth = min((_depth(sample) for sample in self._waiting.values()), default=0)
        if any(sample.passed < depth for sample in self._running.values()):
            return []
        return [number for number, sample in self._waiting.items() if _depth(sample) == depth]

    def _cancel(self) -> None:
        """Ends the samples that are not needed; where they count, forced answers may finish."""
        decided = self._stop_when_decided and self._vote.decided
        for task, sample in self._running.items():
            if self._vote.stopped or (decided and sample.thinking):
                task.cancel()

    def _end(self, number: int, result: Sample | CancelledSample) -> None:
        self._results[number] = result
        self._on_event(SampleEvent(number, result))


def _depth(sample: Sample) -> int:
    return len(sample.rollout.tokens)


def _beyond_the_stop(sample: Sample) -> CancelledSample:
    rollout = sample.rollout
    return CancelledSample(sample.tokens, rollout.readings, rollout.tokens, rollout)


def _vote_event(vote: VoteTally) -> VoteEvent:
    return VoteEvent(
        counted=len(vote.counted),
        samples=vote.samples,
        tally=vote.tally,
        leader=vote.leader,
        share=vote.vote.share,
        decided=vote.decided,
    )
