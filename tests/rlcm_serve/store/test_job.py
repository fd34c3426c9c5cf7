from dataclasses import replace
from typing import Any

import pytest

from calibration import Method, Promise
from calibration.simulation.groups import Average
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.store.job import UNFINISHED, CalibrationRequest, JobState


def some(count: int, groups: int | None = None) -> list[LabelledProblem]:
    return [
        LabelledProblem(f"p{n}", "x?", "1", None if groups is None else f"g{n % groups}")
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("values", "field", "why"),
    [
        ({"alphas": ()}, "alphas", "at least one"),
        ({"alphas": (0.1, 0.1)}, "alphas", "each only once"),
        ({"alphas": (0.1, 1.0)}, "alphas", "alpha is 1.0"),
        ({"delta": 0.0}, "delta", "delta is 0.0"),
        ({"samples": 0}, "n", "n is 0"),
        ({"samples": 65, "rollouts": 65}, "n", "n is 65"),
        ({"samples": 4, "rollouts": 3}, "rollouts", "rollouts is 3 and n is 4"),
        ({"rollouts": 0}, "rollouts", "rollouts is 0"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(values: dict[str, Any], field: str, why: str) -> None:
    with pytest.raises(RequestRefused, match=why) as refused:
        CalibrationRequest(**values)
    assert refused.value.field == field


def test_a_request_survives_as_text() -> None:
    request = CalibrationRequest(
        alphas=(1 / 3,),
        promise=Promise.POINTWISE,
        samples=4,
        rollouts=5,
        method=Method.SPLIT,
        average=Average.GROUPS,
    )
    assert CalibrationRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("request_", "needed"),
    [
        # 0.8^n <= delta / levels, the least n in which no error is proof enough.
        (CalibrationRequest(alphas=(0.2,)), 11),
        (CalibrationRequest(alphas=(0.1, 0.2)), 14),
        (CalibrationRequest(alphas=(0.1, 0.2), promise=Promise.POINTWISE), 11),
        # A share of them only orders the policies: round(0.3 n) and round(0.1 n).
        (CalibrationRequest(alphas=(0.2,), method=Method.SPLIT), 15),
        (CalibrationRequest(alphas=(0.2,), method=Method.RESCALED_CHAINS), 12),
    ],
)
def test_too_few_problems_are_refused_at_once(request_: CalibrationRequest, needed: int) -> None:
    request_.require_enough(some(needed))
    with pytest.raises(RequestRefused, match=f"{needed - 1} problems or groups leave .* give more"):
        request_.require_enough(some(needed - 1))


def test_problems_of_a_group_count_as_one() -> None:
    request = CalibrationRequest(alphas=(0.2,))
    request.require_enough(some(500, groups=11))
    with pytest.raises(RequestRefused, match="10 problems or groups"):
        request.require_enough(some(500, groups=10))


def test_a_group_of_several_kinds_is_refused_before_anything_is_recorded() -> None:
    request = CalibrationRequest(alphas=(0.2,), by="kind")
    one = [replace(own, kind="algebra") for own in some(40, groups=20)]
    request.require_enough(one)
    one[-1] = replace(one[-1], kind="poetry")
    with pytest.raises(RequestRefused, match="'g19' has problems of the kinds 'algebra' and 'poe"):
        request.require_enough(one)


def test_groups_of_unequal_size_need_a_declared_size_or_count_the_same() -> None:
    request, unequal = CalibrationRequest(alphas=(0.2,)), some(31, groups=15)
    with pytest.raises(RequestRefused, match="groups have 2 to 3 problems") as refused:
        request.with_group_size(unequal)
    assert refused.value.field == "max_group_size"
    with pytest.raises(RequestRefused, match="a group has 3 problems"):
        replace(request, max_group_size=2).with_group_size(unequal)
    declared = replace(request, max_group_size=5)
    assert declared.with_group_size(unequal) == declared
    alike = replace(request, average=Average.GROUPS)
    assert alike.with_group_size(unequal) == alike
    # The familiarity check may drop problems of some groups later.
    assert request.with_group_size(some(30, groups=15)).max_group_size == 2
    assert request.with_group_size(some(30)) == request


def test_a_job_has_ended_or_goes_on() -> None:
    ended = {state for state in JobState if state.ended}
    assert ended == {JobState.DONE, JobState.FAILED, JobState.CANCELLED}
    assert ended.isdisjoint(UNFINISHED)
