"""The readings of a calibration that live ones are compared with: one of each unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration import Certificate, CertifiedLevel, Traces
from calibration.certificate.report_data import ReportData
from calibration.monitoring.grids import bin_of
from calibration.monitoring.reference import ReferenceCounts
from calibration.report.build_data import build_report_data
from calibration.report.reference import references
from calibration.simulation.groups import Average, Groups
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import outcomes
from tests.calibration.recordings import several_rollouts


def counted(certificate: Certificate, traces: Traces) -> dict[str, ReferenceCounts]:
    """The reference of the last level, by statistic."""
    level = certificate.levels[-1]
    assert isinstance(level, CertifiedLevel)
    (found,) = references(certificate, [level.policy], traces)
    return {one.statistic: one for one in found}


def units(found: dict[str, ReferenceCounts]) -> dict[str, int]:
    return {name: sum(one.by_bin()) for name, one in found.items()}


def test_with_one_rollout_of_each_problem_it_is_what_the_policy_does_with_them(
    certificate: Certificate, traces: Traces
) -> None:
    level = certificate.levels[-1]
    assert isinstance(level, CertifiedLevel)
    done = outcomes(traces, [level.policy])
    familiarity_P = np.random.default_rng(0).random(traces.n_problems)
    found = counted(certificate, replace(traces, familiarity_P=familiarity_P))
    wanted: dict[str, Any] = {
        "familiarity": familiarity_P,
        "confidence": done.confidence_DT[:, 0],
        "tokens": done.tokens_DT[:, 0],
        "declined": ~done.answered_DT[:, 0],
    }
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        assert dict(found[name].counts) == Counter(bin_of(name, one) for one in values.tolist())


def test_several_rollouts_of_a_problem_are_one_reading(
    certificate: Certificate, traces: Traces
) -> None:
    """Together they would look like more problems than there are."""
    found = counted(certificate, several_rollouts(traces, 4))
    assert units(found) == dict.fromkeys(("confidence", "declined", "tokens"), 100)


def test_with_several_samples_tokens_and_votes_are_left_out(
    certificate: Certificate, traces: Traces
) -> None:
    """A service cancels samples that can change no answer, so it has other tokens and shares."""
    made = replace(certificate, procedure=Procedure(4, "majority"))
    assert units(counted(made, several_rollouts(traces, 4))) == {"declined": 100}


@pytest.mark.parametrize("average", list(Average))
def test_of_a_group_one_problem_is_taken_and_large_groups_as_often_as_they_are_asked(
    certificate: Certificate, traces: Traces, average: Average
) -> None:
    """Groups of 1 and of 3; by size, two thirds of the groups of one problem are left out."""
    names = [*(f"a{n}" for n in range(100)), *(f"b{n // 3}" for n in range(300))]
    grouped = replace(traces, groups=tuple(names))
    made = replace(certificate, groups=Groups(average))
    found = counted(made, grouped)
    (number,) = set(units(found).values())
    if average is Average.GROUPS:
        assert number == 200
    else:
        assert 100 + 15 < number < 100 + 55


def test_report_data_has_it_for_certified_levels_and_old_report_data_has_none(
    certificate: Certificate, traces: Traces
) -> None:
    made = build_report_data(certificate, traces)
    assert [bool(made.reference_at(one.alpha)) for one in made.levels] == [False, True, True]
    assert ReportData.from_text(made.to_text()) == made
    plain = made.to_json()
    for level in plain["levels"]:
        del level["reference"]
    old = ReportData.from_json(plain)
    assert {old.reference_at(one.alpha) for one in old.levels} == {()}


def test_damaged_counts_are_refused(certificate: Certificate, traces: Traces) -> None:
    plain = build_report_data(certificate, traces).to_json()
    plain["levels"][-1]["reference"][0]["counts"] = ((256, 1),)
    with pytest.raises(Exception, match="the report data is damaged"):
        ReportData.from_json(plain)
