"""The time limit of a question, and what it means for the guarantee under which it was asked.

No calibration has a time limit: recorded rollouts end at their token budget. So a question that is
cut by time is not declined by the certified procedure, and the answers that come in time are not
those that were certified, because slow questions may be right more often, or less.

Let T be the event that a question is cut; it changes nothing else. A certificate bounds
P(wrong, answered) by alpha P(answered), without the limit. With it:

- `selective`: the wrong answers that come in time are at most alpha P(answered), and of the
  answered at most those cut by time are missing. So the share of wrong answers among those that
  come in time is at most alpha (1 + P(T) / P(answered in time)).
- `error`, `regret`: a cut question has no answer and counts as lost. The share of losses among all
  questions is at most alpha + P(T).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rlcm_serve.core import Guarantee, RiskName
from rlcm_serve.errors import OutOfTime

_COUNTS = {
    RiskName.SELECTIVE: "it is not an abstention of the certified procedure",
    RiskName.ERROR: "it counts as a wrong answer",
    RiskName.REGRET: "it counts as a right answer that was lost",
}


@dataclass(slots=True)
class TimeLimit:
    """The running time limit of a question.

    Attributes:
        guarantee: under which the question is being answered; None without one, and while it waits.
    """

    guarantee: Guarantee | None = None


@asynccontextmanager
async def in_time(seconds: float | None, since: float | None = None) -> AsyncIterator[TimeLimit]:
    """Cancels the body after `seconds`; None sets no limit.

    Args:
        seconds: the limit.
        since: when the time began, on the event loop's clock; now by default.

    Raises:
        OutOfTime: the body was cancelled.
    """
    began = asyncio.get_running_loop().time() if since is None else since
    timeout = asyncio.timeout_at(None if seconds is None else began + seconds)
    limit = TimeLimit()
    try:
        async with timeout:
            yield limit
    except TimeoutError:
        if seconds is None or not timeout.expired():
            raise
        raise OutOfTime(seconds, _why_no_guarantee(limit.guarantee)) from None


def _why_no_guarantee(promised: Guarantee | None) -> str | None:
    if promised is None:
        return None
    return (
        "the time limit cut the question, and the certificate was calibrated without one: "
        f"{_COUNTS[RiskName(promised.risk)]}"
    )
