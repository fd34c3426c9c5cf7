"""The draw for audit."""

import pytest

from rlcm_serve.evidence.records import new_id
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.settings.shares import AuditShares

SHARES = AuditShares.parse(0.25, ["kind:algebra=0.5", "key:9f2c01ab=0", "kind:a=b:c=1"])


def test_a_key_s_share_goes_before_a_kind_s_and_that_before_the_default() -> None:
    assert SHARES.of(None, None) == 0.25
    assert SHARES.of("other", "algebra") == 0.5
    assert SHARES.of("9f2c01ab", "algebra") == 0
    assert SHARES.of(None, "a=b:c") == 1


@pytest.mark.parametrize(
    "entry",
    ["algebra=0.5", "kind:=0.5", "kind:a", "kind:a=1.5", "kind:a=nan", "key:team a=1", "key:=1"],
)
def test_a_malformed_share_is_refused_by_name(entry: str) -> None:
    with pytest.raises(ValueError, match="key:ID=SHARE") as refused:
        AuditShares.parse(0.1, [entry])
    assert repr(entry) in str(refused.value)


def test_the_share_of_answers_is_drawn_and_the_same_ones_each_time() -> None:
    ids = [new_id() for _ in range(20_000)]
    draw, again = (AuditDraw(b"s" * 32, SHARES) for _ in range(2))
    drawn = [draw.draws(id_, 0.25) for id_ in ids]
    assert drawn == [again.draws(id_, 0.25) for id_ in ids]
    assert abs(sum(drawn) / len(ids) - 0.25) < 5 * (0.25 * 0.75 / len(ids)) ** 0.5
    assert not any(draw.draws(id_, 0) for id_ in ids)
    assert all(draw.draws(id_, 1) for id_ in ids)


def test_another_secret_draws_others() -> None:
    ids = [new_id() for _ in range(2000)]
    one, other = (AuditDraw(secret * 32, SHARES) for secret in (b"1", b"2"))
    both = sum(one.draws(id_, 0.5) and other.draws(id_, 0.5) for id_ in ids)
    assert abs(both / len(ids) - 0.25) < 0.06
    assert one.digest("8") != other.digest("8")
    assert one.digest("8") != one.digest("9")
