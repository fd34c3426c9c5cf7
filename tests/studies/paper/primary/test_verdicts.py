"""Verdicts of made results: what differs is found, what does not is not, and margins are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
    """RLCM tells more than GRPO, takes fewer tokens and is right more often.

    The authors' method is like GRPO.
    """
    return of_all_seeds(lambda method: BETTER if method == "rlcm" else AS_GRPO)


BETTER: dict[str, float] = {"tells": 2.0, "tokens": 350.0, "skill": 0.1}
AS_GRPO: dict[str, float] = {"tells": 1.0}


def of_all_seeds(how: Callable[[str], Mapping[str, float]]) -> dict[str, PrimaryResult]:
    """Results of every run, made as `how` says of its method."""
    every = [made(method, seed, **how(method)) for seed in SEEDS for method in METHODS]
    return {one.name: one for one in every}


def by_name(found: list[Verdict]) -> dict[tuple[str, str], Verdict]:
    return {(one.method, one.endpoint.name): one for one in found}


def test_what_differs_is_found_and_what_does_not_is_not(results: dict[str, PrimaryResult]) -> None:
    found = by_name(verdicts(results, SEEDS, number=100))
    assert len(found) == 2 * len(ENDPOINTS)
    for endpoint in ENDPOINTS[:3]:
        assert found["rlcm", endpoint.name].text == "better"
        assert found["rlcm-authors", endpoint.name].text == "not shown"
    tokens = found["rlcm", "tokens at equal certified risk"].difference
    assert tokens is not None
    assert tokens.mean == pytest.approx(-50, 0.1)
    for one in found.values():
        assert one.difference is not None
        low, high = one.difference.interval()
        assert low < one.difference.mean < high
        assert one.adjusted >= one.p
        assert one.detectable is not None
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


def test_fewer_tokens_count_only_beside_an_accuracy_that_is_kept() -> None:
    results = of_all_seeds(lambda method: AS_GRPO if method == "grpo" else LAZY)
    found = by_name(verdicts(results, SEEDS, number=100))
    tokens = found["rlcm", "tokens at equal certified risk"]
    assert tokens.difference is not None
    assert tokens.difference.interval()[1] < -200
    assert tokens.p == found["rlcm", "accuracy"].p
    assert tokens.text == "not shown"


LAZY: dict[str, float] = {"tells": 1.0, "tokens": 100.0, "skill": -0.5}


def test_a_run_that_is_always_wrong_leaves_the_other_endpoints(
    results: dict[str, PrimaryResult],
) -> None:
    broken = results | {"rlcm-authors-3": made("rlcm-authors", 3, 1.0, skill=-9.0)}
    found = by_name(verdicts(broken, SEEDS, number=100))
    for method in ("rlcm", "rlcm-authors"):
        within = found[method, "AUROC within a question"]
        assert (within.difference, within.p, within.text) == (None, 1.0, "not shown")
    assert found["rlcm", "resolution"].text == "better"
    text = report_text(broken, SEEDS, number=20)
    assert "0 problems are mixed in every run" in text
    assert "| AUROC within a question | not defined | – | 1 | 1 | not shown | – |" in text


def test_runs_of_two_designs_are_not_compared(results: dict[str, PrimaryResult]) -> None:
    other = replace(results["rlcm-3"], design="0ther")
    with pytest.raises(RequestRefused, match="rlcm-3 was made under another design than grpo-0"):
        verdicts(results | {"rlcm-3": other}, SEEDS, number=20)


def test_runs_of_problems_in_another_order_are_not_compared(
    results: dict[str, PrimaryResult],
) -> None:
    measured = results["rlcm-3"].measured
    turned = replace(measured, problems=measured.problems[::-1])
    other = replace(results["rlcm-3"], measured=turned)
    with pytest.raises(RequestRefused, match="problems of rlcm-3 are not those of grpo-0, in thei"):
        verdicts(results | {"rlcm-3": other}, SEEDS, number=20)


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
