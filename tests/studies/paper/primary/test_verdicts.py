"""Verdicts of made results: what differs is found, what does not is not, and margins are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcm_serve.errors import RequestRefused
from studies.paper.primary.design import (
    ENDPOINTS,
    METHODS,
    PILOT_SEEDS,
    SEEDS,
    run_named,
    runs,
)
from studies.paper.primary.result import PrimaryResult, read_primary
from studies.paper.primary.tables import report_text
from studies.paper.primary.verdicts import Verdict, n_common, verdicts, whole_seeds
from tests.studies.paper.primary.made_primary import made
from training.errors import TrainingRefused


@pytest.fixture(scope="module")
def results() -> dict[str, PrimaryResult]:
    """RLCM tells more than GRPO and takes fewer tokens; the authors' method is like GRPO."""
    found = {}
    for seed in SEEDS:
        for method in METHODS:
            is_better = method == "rlcm"
            one = made(method, seed, 2.0 if is_better else 1.0, 350.0 if is_better else 400.0)
            found[one.name] = one
    return found


def by_name(found: list[Verdict]) -> dict[tuple[str, str], Verdict]:
    return {(one.method, one.endpoint.name): one for one in found}


def test_what_differs_is_found_and_what_does_not_is_not(results: dict[str, PrimaryResult]) -> None:
    found = by_name(verdicts(results, SEEDS, number=100))
    assert len(found) == 2 * len(ENDPOINTS)
    for endpoint in ENDPOINTS[:3]:
        assert found["rlcm", endpoint.name].text == "better"
        assert found["rlcm-authors", endpoint.name].text == "not shown"
    assert found["rlcm", "tokens at equal certified risk"].difference.mean == pytest.approx(
        -50, 0.1
    )
    for one in found.values():
        low, high = one.difference.interval()
        assert low < one.difference.mean < high
        assert one.adjusted >= one.p
        assert one.detectable > 0


def test_a_lower_resolution_is_worse(results: dict[str, PrimaryResult]) -> None:
    names = {"grpo": "rlcm", "rlcm": "grpo", "rlcm-authors": "rlcm-authors"}
    swapped = {
        f"{method}-{seed}": results[f"{other}-{seed}"]
        for method, other in names.items()
        for seed in SEEDS
    }
    found = by_name(verdicts(swapped, SEEDS, number=100))
    assert found["rlcm", "resolution"].text == "worse"
    assert found["rlcm", "tokens at equal certified risk"].text == "worse"


def test_out_of_domain_problems_enter_no_primary_endpoint(
    results: dict[str, PrimaryResult],
) -> None:
    assert 60 < n_common(results, SEEDS[:2]) < 120


def test_a_report_without_every_seed_gives_no_verdict(results: dict[str, PrimaryResult]) -> None:
    some = {name: one for name, one in results.items() if not name.endswith("-9")}
    assert whole_seeds(some, SEEDS) == [*range(9)]
    text = report_text(some, SEEDS, number=20)
    assert "9 of 10 seeds" in text
    assert "This is no verdict" in text
    assert "better" not in text
    assert "Seconds of a run: 302 in the mean" in text
    whole = report_text(results, SEEDS, number=100)
    assert "| better |" in whole
    assert "no verdict" not in whole
    assert "needs two seeds" in report_text({}, PILOT_SEEDS)


def test_a_result_is_what_was_written(results: dict[str, PrimaryResult], tmp_path: Path) -> None:
    one = results["rlcm-3"]
    one.write(tmp_path)
    assert report_text(read_primary(tmp_path), SEEDS) == report_text({one.name: one}, SEEDS)
    assert read_primary(tmp_path)[one.name].measured.right_PK == one.measured.right_PK
    (tmp_path / "grpo-1.json").write_text("{}")
    with pytest.raises(RequestRefused, match="is no valid result"):
        read_primary(tmp_path)


def test_runs_come_seed_by_seed_and_pilots_are_apart() -> None:
    names = [run.name for run in runs()]
    assert names[:4] == ["grpo-0", "rlcm-0", "rlcm-authors-0", "grpo-1"]
    assert len(names) == 30
    assert not set(SEEDS) & set(PILOT_SEEDS)
    assert run_named("rlcm-authors-101").seed == 101
    with pytest.raises(TrainingRefused, match="'rlcr-0' is no run"):
        run_named("rlcr-0")
