import pytest

from rlcm_serve.admission.budgets import TokenBucket
from rlcm_serve.admission.rates import RateLimits, Rates, duration
from rlcm_serve.errors import RateLimited


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_evenly_up_to_what_it_holds() -> None:
    clock = Clock()
    bucket = TokenBucket(120, clock)
    bucket.spend(120)
    assert (bucket.level, bucket.seconds_until(1)) == (0, 0.5)
    clock.now += 15
    assert bucket.level == pytest.approx(30)
    clock.now += 3600
    assert (bucket.level, bucket.seconds_until(120)) == (120, 0)


async def test_a_key_waits_until_it_has_paid_what_it_owes() -> None:
    clock = Clock()
    limits, rates = RateLimits(clock=clock), Rates(tokens=600)
    await limits.enter("a", rates)
    limits.spend("a", 900)
    with pytest.raises(RateLimited, match="has spent its 600 tokens per minute") as refused:
        await limits.enter("a", rates)
    assert refused.value.retry_after == pytest.approx(30.1)
    clock.now += refused.value.retry_after
    await limits.enter("a", rates)


async def test_so_many_requests_begin_at_once_and_then_one_after_another() -> None:
    clock = Clock()
    limits, rates = RateLimits(clock=clock), Rates(requests=3)
    for _ in range(3):
        await limits.enter("a", rates)
    with pytest.raises(RateLimited, match="its 3 requests per minute: retry in 20 s"):
        await limits.enter("a", rates)
    await limits.enter("b", rates)
    clock.now += 20.001
    await limits.enter("a", rates)
    with pytest.raises(RateLimited):
        await limits.enter("a", rates)


async def test_tokens_that_were_not_needed_are_given_back() -> None:
    limits, rates = RateLimits(clock=Clock()), Rates(tokens=600)
    await limits.enter("a", rates)
    limits.spend("a", 400)
    limits.spend("a", -300)
    assert limits.headers("a", rates)["x-ratelimit-remaining-tokens"] == "500"


async def test_headers_say_what_is_left_of_each_limit() -> None:
    limits, rates = RateLimits(clock=Clock()), Rates(requests=60, tokens=6000)
    await limits.enter("a", rates)
    limits.spend("a", 9000)
    assert limits.headers("a", rates) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m30s",
    }
    assert limits.headers("b", Rates()) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.1204, "121ms"),
        (1, "1s"),
        (7.523, "7.52s"),
        (59.999, "1m0s"),
        (119.6, "2m0s"),
        (360, "6m0s"),
    ],
)
def test_durations_are_written_as_openai_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
