"""Runs side by side: ranks, paired differences, and what is not comparable."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibration.metrics.bootstrap import estimate_difference
from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from calibration.report_kit.tables import ranked
from calibration.report_kit.wording import excludes_zero
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.compare import Comparison, compare, to_text, write_comparison
from rlcm_serve.evaluation.compare.base import DIFFERENCES
from rlcm_serve.evaluation.compare.page import headline
from rlcm_serve.evaluation.run_folder import RunFolder
from rlcm_serve.evaluation.sources import Source
from tests.pages import Parsed, check_readable_unseen, check_references, check_self_contained
from tests.rlcm_serve.evaluation.measured import MeasuredRun, measured_run

BENCHMARKS = ("math500", "aime24")
SOURCES = (Source.PROBE, Source.TAIL)


def run(name: str, seed: int = 0, **changes: Any) -> MeasuredRun:
    return measured_run(
        name, seed, **{"benchmarks": BENCHMARKS, "sources": SOURCES, "n_problems": 30} | changes
    )


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare([run("base"), run("grpo", 1, skill=2.5), run("rlcm", 2, skill=1.0)])


@dataclass(frozen=True)
class Shuffled:
    """The same run, its problems numbered otherwise and some left out."""

    run: MeasuredRun
    order: tuple[int, ...]

    def __getattr__(self, name: str) -> Any:
        return "shuffled" if name == "name" else getattr(self.run, name)

    def problem_ids(self, benchmark: str) -> tuple[str, ...]:
        ids = self.run.problem_ids(benchmark)
        return tuple(ids[p] for p in self.order)

    def scored(self, benchmark: str, source: str) -> ScoredRollouts:
        scored = self.run.scored(benchmark, source)
        parts = [np.flatnonzero(scored.problem_R == p) for p in self.order]
        rows = np.concatenate(parts)
        return ScoredRollouts(
            np.repeat(np.arange(len(self.order)), [len(part) for part in parts]),
            scored.correct_R[rows],
            scored.confidence_R[rows],
            scored.answer_class_R[rows],
        )


@pytest.mark.parametrize(
    ("values", "higher", "expected"),
    [
        ([0.1, 0.3, 0.2], True, ["", "best", "second"]),
        ([0.1, 0.3, 0.2], False, ["best", "", "second"]),
        ([0.1, 0.3], True, ["", "best"]),
        ([0.2, 0.2, 0.1], True, ["best", "best", ""]),
        ([0.20001, 0.2, 0.1], True, ["best", "best", ""]),
        ([0.3, 0.2, 0.2], True, ["best", "second", "second"]),
        ([None, 0.2, 0.1, 0.3], False, ["", "second", "best", ""]),
        ([None, 0.2], True, ["", ""]),
    ],
)
def test_ranks(values: list[float | None], higher: bool, expected: list[str]) -> None:
    assert ranked([Estimate(value) for value in values], higher) == expected


def test_the_main_table_has_the_runs_own_figures(comparison: Comparison) -> None:
    for benchmark in comparison.benchmarks:
        for measures, places in zip(comparison.measures, benchmark.table, strict=True):
            (found,) = [b for b in measures.benchmarks if b.name == benchmark.name]
            assert places is not None
            assert places["accuracy"].estimate == found.accuracy
            assert places["ece"].estimate == found.sources[0].metrics["ece"]
    assert [places["accuracy"].rank for places in comparison.benchmarks[0].table] == [
        "", "best", "second",
    ]  # fmt: skip


def test_overall_is_the_mean_of_the_benchmarks_that_all_have() -> None:
    found = compare([run("base"), run("other", 1, benchmarks=(*BENCHMARKS, "amc23"))])
    assert [benchmark.name for benchmark in found.benchmarks] == [*BENCHMARKS, "amc23"]
    assert found.benchmarks[2].table[0] is None
    assert found.benchmarks[2].differences == ()
    for places, measures in zip(found.overall, found.measures, strict=True):
        accuracies = [b.accuracy.value for b in measures.benchmarks[:2]]
        assert places["accuracy"].estimate.value == pytest.approx(np.mean(accuracies))
    assert compare([run("a", benchmarks=("amc23",)), run("b", benchmarks=("amc23",))]).overall == ()


def test_differences_are_the_others_minus_the_first(comparison: Comparison) -> None:
    base, grpo = run("base"), run("grpo", 1, skill=2.5)
    (first, _) = comparison.benchmarks[0].differences
    expected = estimate_difference(
        base.scored("math500", Source.PROBE), grpo.scored("math500", Source.PROBE), DIFFERENCES
    )
    assert (first.run, first.n_problems, first.metrics) == ("grpo", 30, expected)
    assert first.metrics["accuracy"].value > 0.1
    assert excludes_zero(first.metrics["accuracy"])


def test_differences_are_of_the_same_problems_however_they_are_numbered() -> None:
    base = run("base")
    order = tuple(np.random.default_rng(0).permutation(30)[:20].tolist())
    found = compare([base, Shuffled(base, order)]).benchmarks[0].differences[0]
    assert found.n_problems == 20
    assert [found.metrics[name].value for name in DIFFERENCES] == pytest.approx([0.0] * 5)
    # Paired: without, twenty problems would leave some doubt.
    assert found.metrics["auroc"] == Estimate(0.0)


def test_each_run_is_taken_by_its_own_source() -> None:
    tail = replace(run("tail"), source=Source.TAIL)
    found = compare([run("probe"), tail])
    places = found.benchmarks[0].table[1]
    assert places is not None
    (_, by_tail) = tail.measures.benchmarks[0].sources
    assert places["ece"].estimate == by_tail.metrics["ece"]
    difference = found.benchmarks[0].differences[0].metrics
    assert difference["accuracy"].value == 0
    assert difference["auroc"].value < 0
    assert any("different sources" in warning for warning in found.warnings)
    assert any("does not claim to be a probability" in warning for warning in found.warnings)


def test_runs_that_are_alike_raise_no_warning(comparison: Comparison) -> None:
    assert comparison.warnings == ()


def with_first_benchmark(changed: MeasuredRun, **changes: object) -> MeasuredRun:
    first, *rest = changed.measures.benchmarks
    benchmarks = (replace(first, **changes), *rest)
    return replace(changed, measures=replace(changed.measures, benchmarks=benchmarks))


def with_sampling(changed: MeasuredRun) -> MeasuredRun:
    engine = {"sampling": {"temperature": 0.9}}
    return replace(changed, manifest=changed.manifest | {"engine": engine})


NOT_ALIKE: dict[str, tuple[Callable[[MeasuredRun], MeasuredRun], str]] = {
    "sampling": (with_sampling, "temperature is 0.6 in base and 0.9 in other"),
    "answers": (
        lambda r: replace(r, manifest=r.manifest | {"answers": 2}),
        "answers forced at every reading is 4 in base and 2 in other",
    ),
    "request": (
        lambda r: replace(r, manifest=r.manifest | {"request": " Be brief."}),
        "text after every problem is '' in base and ' Be brief.' in other",
    ),
    "unknown setting": (
        lambda r: replace(r, manifest=r.manifest | {"lora": "x"}),
        "lora is not recorded in base and 'x' in other",
    ),
    "grader": (
        lambda r: with_first_benchmark(r, grader="math-verify 0.8.0"),
        "MATH-500: graded by math-verify 0.9.0 in base and by math-verify 0.8.0 in other",
    ),
    "references": (
        lambda r: with_first_benchmark(r, problems="another digest"),
        "MATH-500: the problems have the same ids in base and other, but other texts",
    ),
    "rollouts": (
        lambda r: replace(r, measures=replace(r.measures, rollouts={"math500": 4, "aime24": 4})),
        "MATH-500 and AIME 2024: 8 rollouts of each problem in base and 4 in other",
    ),
    "problems": (
        lambda _: run("other", n_problems=20),
        "MATH-500 and AIME 2024: 30 problems in base and 20 in other, 20 of them in both",
    ),
    "missing": (
        lambda _: run("other", benchmarks=("math500",)),
        "AIME 2024: not evaluated in other",
    ),
    "more": (
        lambda _: run("other", benchmarks=(*BENCHMARKS, "amc23")),
        "AMC 2023: not evaluated in base, but in other",
    ),
}


@pytest.mark.parametrize("what", NOT_ALIKE)
def test_each_difference_between_runs_is_stated_once(what: str) -> None:
    change, expected = NOT_ALIKE[what]
    found = compare([run("base"), change(run("other"))]).warnings
    assert len(found) == 1
    assert expected in found[0]


def test_problems_without_any_in_common(tmp_path: Path) -> None:
    base, other = run("base"), run("other")
    strange = replace(other, worlds=other.worlds)
    object.__setattr__(strange, "problem_ids", lambda name: tuple(f"x{p}" for p in range(30)))
    found = compare([base, strange])
    assert found.benchmarks[0].differences[0].reason == "they have no problem in common"
    said = "No difference to base could be computed: they have no problem in common"
    assert headline(found) == f"{said}."
    assert said in Parsed.of(write_comparison(found, tmp_path)).words


def test_the_finding_names_the_benchmark_of_its_difference(tmp_path: Path) -> None:
    base, other = run("base"), run("other", 1)
    ids = {"math500": tuple(f"x{p}" for p in range(30)), "aime24": base.problem_ids("aime24")}
    strange = replace(other, worlds=other.worlds)
    object.__setattr__(strange, "problem_ids", lambda name: ids[name])
    page = Parsed.of(write_comparison(compare([base, strange]), tmp_path))
    assert "other minus base on AIME 2024: accuracy" in page.words


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (lambda: [run("a")], "give two or more"),
        (lambda: [run("a"), run("a", 1)], "two runs are called 'a'"),
        (
            lambda: [run("a", benchmarks=("amc23",)), run("b", benchmarks=("aime24",))],
            "no benchmark in common",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    runs: Callable[[], list[MeasuredRun]], said: str
) -> None:
    with pytest.raises(RequestRefused, match=said):
        compare(runs())


def test_the_folder_of_a_run_is_refused(comparison: Comparison, tmp_path: Path) -> None:
    RunFolder(tmp_path).begin({"model": "m"})
    with pytest.raises(RequestRefused, match="holds a run: give a folder of its own"):
        write_comparison(comparison, tmp_path)


@pytest.mark.slow
def test_the_page(comparison: Comparison, tmp_path: Path) -> None:
    page = write_comparison(comparison, tmp_path)
    check_self_contained(page)
    check_references(page)
    check_readable_unseen(page)
    text = Parsed.of(page).words
    assert "are the same in all runs" in text
    assert headline(comparison).split(",")[0] in text
    best = comparison.benchmarks[0].table[1]
    assert best is not None
    assert f"<strong>{100 * best['accuracy'].estimate.value:.1f}</strong>" in page.read_text(
        "utf-8"
    )
    assert "<u>" in page.read_text("utf-8")
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"differences", "budgets", "votes", "markers"}


@pytest.mark.slow
def test_the_json(comparison: Comparison, tmp_path: Path) -> None:
    write_comparison(comparison, tmp_path)
    told = json.loads((tmp_path / "comparison.json").read_text("utf-8"))
    assert told["names"] == ["base", "grpo", "rlcm"]
    difference = comparison.benchmarks[0].differences[0].metrics["accuracy"]
    told_difference = told["benchmarks"][0]["differences"][0]["metrics"]["accuracy"]
    assert told_difference == pytest.approx(
        {"value": difference.value, "low": difference.low, "high": difference.high}
    )
    assert "measures" not in told


def test_the_terminal(comparison: Comparison) -> None:
    warned = replace(comparison, warnings=("[temperature] differs",))
    console = Console(record=True, width=120, file=None, quiet=False)
    with console.capture() as captured:
        console.print(to_text(warned))
    text = captured.get()
    for benchmark in comparison.benchmarks:
        assert benchmark.title in text
        for places in benchmark.table:
            assert places is not None
            assert f"{places['ece'].estimate.value:.3f}" in text
    assert "! [temperature] differs" in text


def test_brackets_in_names_are_no_markup() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(to_text(compare([run("base[lora]"), run("[/b]", 1)])))
    assert "Differences to base[lora], 95% intervals" in captured.get()
    assert "[/b]" in captured.get()


def test_the_headline_speaks_only_of_what_is_clear(comparison: Comparison) -> None:
    assert "grpo is" in headline(comparison)
    assert "better than base on MATH-500" in headline(comparison)
    same = compare([run("base"), run("again")])
    assert headline(same) == "No run differs from base in accuracy by more than chance."


def test_runs_without_curves_have_a_page_too(tmp_path: Path) -> None:
    runs = [
        run(name, benchmarks=("math500",), n_problems=4, n_rollouts=1, skill=50.0)
        for name in ("one", "two")
    ]
    bare = [with_first_benchmark(r, budgets=(), categories=(), indicators=()) for r in runs]
    page = write_comparison(compare(bare), tmp_path)
    check_readable_unseen(page)
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"differences"}
    assert "nan" not in Parsed.of(page).words
