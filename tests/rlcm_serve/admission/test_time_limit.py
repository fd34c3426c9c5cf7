"""What a time limit does, and what it says of the guarantee."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlcm_serve.admission.time_limit import in_time
from rlcm_serve.core import Guarantee
from rlcm_serve.errors import OutOfTime


async def test_a_time_limit_may_have_begun_earlier() -> None:
    now = asyncio.get_running_loop().time()
    async with in_time(20, since=now - 10):
        await asyncio.sleep(0)
    with pytest.raises(OutOfTime, match="within 20 s") as cut:
        async with in_time(20, since=now - 30):
            await asyncio.Event().wait()
    assert cut.value.no_guarantee_reason is None, "it was cut before it began"


@pytest.mark.parametrize(
    ("risk", "counts"),
    [
        ("selective", "it is not an abstention of the certified procedure"),
        ("error", "it counts as a wrong answer"),
        ("regret", "it counts as a right answer that was lost"),
    ],
)
async def test_a_question_that_is_cut_under_a_guarantee_says_how_it_counts(
    risk: str, counts: str
) -> None:
    promised = Guarantee(risk, 0.1, 0.1, 0.1, "simultaneous", "c0", "", 100, "", "", ())

    async def ask() -> None:
        async with in_time(0.01) as limit:
            limit.guarantee = promised
            await asyncio.Event().wait()

    with pytest.raises(OutOfTime) as cut:
        await ask()
    assert cut.value.no_guarantee_reason == (
        "the time limit cut the question, and the certificate was calibrated without one: " + counts
    )


@given(arrays(float, (2, 2, 2), elements=st.floats(0, 1)).filter(lambda p_AWT: p_AWT.sum() > 0.01))
def test_how_far_a_time_limit_raises_a_risk(p_AWT: np.ndarray) -> None:
    """For every joint law of answered, wrong and cut; a cut question is left out, or is a loss."""
    p_AWT = p_AWT / p_AWT.sum()
    cut, answered_in_time = p_AWT[..., 1].sum(), p_AWT[1, :, 0].sum()
    if p_AWT[1].sum() > 0:
        selective = p_AWT[1, 1].sum() / p_AWT[1].sum()
        # The page divides both sides by the share that is answered in time.
        assert p_AWT[1, 1, 0] <= selective * (answered_in_time + cut) + 1e-12
    error = p_AWT[:, 1].sum()
    assert p_AWT[:, 1, 0].sum() + cut <= error + cut + 1e-12
