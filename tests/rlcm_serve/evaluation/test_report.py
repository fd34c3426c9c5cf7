"""The report: whole, self-contained, true to its measures, and never at a loss."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from calibration.metrics.estimates import Estimate
from calibration.report_kit import wording
from calibration.report_kit.page import html_of
from calibration.report_kit.palette import THEME
from calibration.report_kit.style import settings
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.equal_error import error_levels, tokens_at
from rlcm_serve.evaluation.measuring.measures import (
    BenchmarkMeasures,
    Controlled,
    Frontier,
    Marker,
    Origin,
    RunMeasures,
    SourceMeasures,
)
from rlcm_serve.evaluation.report import confidence, findings, risk_tables, verbalized, write_report
from rlcm_serve.evaluation.report.results import headline, mean
from rlcm_serve.evaluation.report.risk_figures import draw_target_risk
from rlcm_serve.evaluation.report.style import STYLES, title_of
from rlcm_serve.evaluation.sources import Source
from tests.pages import Parsed, check_readable_unseen, check_references, check_self_contained
from tests.rlcm_serve.evaluation.measured import measured_run

pytestmark = pytest.mark.slow

OF_ONE = [
    "budgets", "distribution", "frontier", "indicators", "markers", "ranking", "reliability",
    "risk-coverage", "target-risk-error", "target-risk-selective", "target-tokens-error",
    "target-tokens-selective", "votes", "votes-by-budget",
]  # fmt: skip


@pytest.fixture(scope="module")
def run() -> RunMeasures:
    return measured_run().measures


@pytest.fixture(scope="module")
def small() -> RunMeasures:
    """Two sources: quickly drawn."""
    return measured_run(sources=(Source.PROBE, Source.TAIL), n_problems=20).measures


@pytest.fixture(scope="module")
def report(run: RunMeasures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(run, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def benchmark(run: RunMeasures) -> BenchmarkMeasures:
    return run.benchmarks[0]


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def with_benchmark(run: RunMeasures, **changes: object) -> RunMeasures:
    return replace(run, benchmarks=(replace(run.benchmarks[0], **changes),))


def test_files(report: Path) -> None:
    assert sorted(path.name for path in report.parent.iterdir()) == ["figures", "report.html"]
    pngs = sorted((report.parent / "figures").iterdir())
    assert sorted(path.stem for path in pngs) == OF_ONE
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in pngs)
    assert report.stat().st_size < 2_000_000


def test_the_page_needs_nothing_from_elsewhere(report: Path) -> None:
    check_self_contained(report)


def test_ids_are_unique_and_every_reference_has_one(report: Path) -> None:
    check_references(report)


def test_the_page_can_be_read_without_seeing_it(report: Path) -> None:
    check_readable_unseen(report)
    assert len(Parsed.of(report).all("figure")) == len(OF_ONE)


def test_figures_take_the_colours_of_the_page(report: Path) -> None:
    style, body = report.read_text("utf-8").split("</style>", 1)
    assert not any(light in body for light, _ in THEME.values())
    used = set(re.findall(r"var\(--([a-z]+)\)", body))
    assert used >= {"ink", "blue", "orange", "green", "purple", "teal", "rose", "gold", "brown"}
    assert all(style.count(f"--{role}: ") == 2 for role in used)  # light and dark


def test_sources_are_told_apart_without_colour() -> None:
    assert set(STYLES) == set(Source)
    assert len({style.marker for style in STYLES.values()}) == len(STYLES)
    assert len({style.color for style in STYLES.values()}) == len(STYLES)


def test_the_page_says_what_was_measured(report: Path, benchmark: BenchmarkMeasures) -> None:
    text = Parsed.of(report).words
    assert plain(wording.share_in_full(benchmark.accuracy)) in text
    for found in benchmark.sources:
        for estimate in found.metrics.values():
            assert f"{wording.number(estimate)} {wording.number_interval(estimate)}" in text
        assert wording.number(found.depth_auroc) in text
        for estimate in found.oracle_distance.values():
            assert f"{wording.number(estimate, 0)} {wording.number_interval(estimate, 0)}" in text
    assert benchmark.oracle_exit is not None
    assert wording.number_in_full(benchmark.oracle_exit.tokens, 0) in text
    assert wording.number_in_full(benchmark.oracle_exit.full_distance, 0) in text
    for part in benchmark.parts:
        assert f"{part.name} {part.n_problems} {plain(wording.share(part.accuracy))}" in text
    for found in benchmark.controlled:
        if found.realised is not None:
            assert plain(wording.share_in_full(found.realised)) in text
        else:
            assert found.reason in text
    for marker in benchmark.indicators:
        assert marker.name in text
        assert wording.number_in_full(marker.per_rollout, 3).split()[0] in text


def test_it_says_what_was_run_and_what_the_words_mean(report: Path, run: RunMeasures) -> None:
    text = Parsed.of(report).words
    assert all(value in text for value in run.made_by.values())
    assert all(title_of(source) in text for source in Source)
    assert run.benchmarks[0].grader in text
    assert run.benchmarks[0].problems in text


def test_the_same_measures_make_the_same_files(
    report: Path, run: RunMeasures, tmp_path: Path
) -> None:
    again = write_report(run, tmp_path)
    assert again.read_bytes() == report.read_bytes()
    for path in (report.parent / "figures").iterdir():
        assert (tmp_path / "figures" / path.name).read_bytes() == path.read_bytes()


def test_another_report_in_the_folder_replaces_the_first(
    small: RunMeasures, tmp_path: Path
) -> None:
    write_report(small, tmp_path)
    write_report(with_benchmark(small, indicators=(), categories=()), tmp_path)
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == set(OF_ONE) - {"markers", "indicators"}


def test_pictures_that_no_report_made_stay(small: RunMeasures, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    mine = tmp_path / "figures" / "my-own.png"
    mine.write_bytes(b"mine")
    write_report(small, tmp_path)
    write_report(small, tmp_path)
    assert mine.read_bytes() == b"mine"


def test_several_benchmarks_stand_side_by_side(tmp_path: Path) -> None:
    run = measured_run(
        benchmarks=("math500", "aime24"), sources=(Source.PROBE,), n_problems=20
    ).measures
    page = write_report(run, tmp_path)
    check_references(page)
    check_readable_unseen(page)
    text = Parsed.of(page).words
    accuracy = mean([benchmark.accuracy for benchmark in run.benchmarks])
    assert f"mean of the benchmarks {plain(wording.share(accuracy))}" in text
    assert "on average over MATH-500 and AIME 2024, weighted equally" in text
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names >= {"reliability-math500", "reliability-aime24", "budgets", "votes", "frontier"}


EMPTY = {
    "sources": (
        {"sources": (), "parts": ()},
        "No source of confidence was measured",
        "reliability",
    ),
    "budgets": ({"budgets": ()}, "fewer than two budgets", "budgets"),
    "controlled": ({"controlled": ()}, "No target was tested", "target-risk-error"),
    "frontiers": ({"frontiers": ()}, "nothing to stop at", "frontier"),
    "texts": ({"categories": (), "indicators": ()}, "were not kept", "markers"),
}


@pytest.mark.parametrize("part", EMPTY)
def test_missing_figures_are_explained(part: str, small: RunMeasures, tmp_path: Path) -> None:
    changes, said, figure = EMPTY[part]
    page = write_report(with_benchmark(small, **changes), tmp_path)
    assert said in Parsed.of(page).words
    assert not (tmp_path / "figures" / f"{figure}.png").exists()
    check_readable_unseen(page)


def test_one_rollout_of_one_problem_that_is_right(tmp_path: Path) -> None:
    run = measured_run(
        sources=(Source.PROBE, Source.AGREEMENT), n_problems=3, n_rollouts=1, skill=50.0
    ).measures
    text = Parsed.of(write_report(run, tmp_path)).words
    assert "a single rollout, so there is nothing to vote on" in text
    assert "ranking by confidence is undefined" in text


def test_a_run_without_its_own_source(small: RunMeasures, tmp_path: Path) -> None:
    sources = tuple(s for s in small.benchmarks[0].sources if s.source == Source.TAIL)
    other = with_benchmark(small, sources=sources)
    text = Parsed.of(write_report(other, tmp_path)).words
    assert "weighted by tail" in text


def test_nothing_certified(small: RunMeasures, tmp_path: Path) -> None:
    controlled = tuple(
        Controlled(Source.PROBE, Origin(fitted_on=30), "error", alpha, reason="none passed")
        for alpha in (0.1, 0.2)
    )
    text = Parsed.of(write_report(with_benchmark(small, controlled=controlled), tmp_path)).words
    assert "for probe no policy passed the test at any target" in text
    assert text.count("none passed") == 2
    assert not (tmp_path / "figures" / "target-risk-error.png").exists()
    assert not (tmp_path / "figures" / "target-tokens-error.png").exists()


def test_no_interval_no_figure(small: RunMeasures, tmp_path: Path) -> None:
    """A single problem has no intervals, and of some metrics no value."""
    (benchmark,) = small.benchmarks
    bare = tuple(
        replace(
            found,
            metrics={
                name: Estimate(None if "auroc" in name else estimate.value)
                for name, estimate in found.metrics.items()
            },
        )
        for found in benchmark.sources
    )
    page = write_report(
        with_benchmark(small, sources=bare, accuracy=Estimate(benchmark.accuracy.value)), tmp_path
    )
    text = Parsed.of(page).words
    assert "None" not in text
    assert "nan" not in text


def test_no_phrase_in_any_text(small: RunMeasures, tmp_path: Path) -> None:
    none = Estimate(0.0, 0.0, 0.0)
    silent = tuple(Marker(m.name, m.category, none, none) for m in small.benchmarks[0].categories)
    page = write_report(with_benchmark(small, categories=silent), tmp_path)
    assert "None of the 48 phrases" in Parsed.of(page).words


@pytest.mark.parametrize(
    ("confidence", "said"),
    [
        (0.75, "15.0 points too high"),
        (0.5, "10.0 points too low"),
        (0.6, "as high as its accuracy"),
    ],
)
def test_the_headline(small: RunMeasures, confidence: float, said: str) -> None:
    sources = tuple(replace(found, mean=confidence) for found in small.benchmarks[0].sources)
    sure = with_benchmark(small, accuracy=Estimate(0.6, 0.5, 0.7), sources=sources)
    assert said in headline(sure)
    assert plain(headline(sure)).startswith("It answers 60.0% (50.0 to 70.0) of MATH-500 right.")
    assert "points" not in headline(replace(sure, source=Source.TAIL))  # it claims no probability


def test_tokens_at_equal_error_by_hand() -> None:
    frontier = Frontier("probe", (1.01, 0.9, 0.8, 0.7), (1.0, 0.8, 0.6, 0.4), (0.3, 0.3, 0.4, 0.3))
    assert tokens_at(frontier, 0.3) == pytest.approx(0.8)
    assert tokens_at(frontier, 0.35) == pytest.approx(0.7)  # half-way; the way back is not taken
    assert tokens_at(frontier, 0.5) == pytest.approx(0.4)
    assert tokens_at(frontier, 0.29) is None


def test_the_cheapest_source_is_marked(benchmark: BenchmarkMeasures) -> None:
    frontiers = (
        Frontier("probe", (1.01, 0.5), (1.0, 0.5), (0.3, 0.3)),
        Frontier("agreement", (1.01, 0.5), (1.2, 0.7), (0.3, 0.3)),
    )
    cut = replace(benchmark, frontiers=frontiers)
    assert error_levels(cut)[0] == pytest.approx(0.3)
    table = html_of(risk_tables.at_equal_error(cut))
    assert table.count("<strong>50.0%</strong>") == 5
    assert "<strong>70.0%</strong>" not in table


def test_no_error_level_is_above_all_answers_wrong(benchmark: BenchmarkMeasures) -> None:
    cut = replace(benchmark, frontiers=(Frontier("probe", (1.01, 0.5), (1.0, 0.5), (0.97, 0.98)),))
    table = html_of(risk_tables.at_equal_error(cut))
    assert "+2 (99.0%)" in table
    assert "+5" not in table


def test_the_best_calibrated_source_is_one_that_claims_a_probability(small: RunMeasures) -> None:
    found = small.benchmarks[0].sources[0]

    def ece(source: Source, value: float) -> SourceMeasures:
        return replace(found, source=source, metrics=found.metrics | {"ece": Estimate(value)})

    both = with_benchmark(small, sources=(ece(Source.TAIL, 0.1), ece(Source.PROBE, 0.2)))
    assert findings.confidence(both).startswith("lowest ECE: probe, 0.200; highest AUROC: ")
    alone = with_benchmark(small, sources=(ece(Source.TAIL, 0.1),))
    assert findings.confidence(alone).startswith("highest AUROC: ")


def test_fewer_tokens_are_not_praised_where_less_is_answered(benchmark: BenchmarkMeasures) -> None:
    def found(source: Source, tokens: float, answered: float) -> Controlled:
        return Controlled(
            source, Origin(fitted_on=9), "error", 0.1, realised=Estimate(0.1),
            answered=answered, right=0.5, tokens=tokens, full_tokens=100.0, n_problems=9,
        )  # fmt: skip

    every = replace(benchmark, controlled=(found(Source.PROBE, 60, 1), found(Source.TAIL, 50, 1)))
    fewer = replace(benchmark, controlled=(found(Source.PROBE, 60, 1), found(Source.TAIL, 50, 0.3)))
    assert "<strong>" in html_of(risk_tables.by_target(every, "error"))
    assert "<strong>" not in html_of(risk_tables.by_target(fewer, "error"))


def test_sources_without_any_certified_policy_have_no_panel(benchmark: BenchmarkMeasures) -> None:
    def found(source: Source, reason: str | None) -> Controlled:
        realised = Estimate(0.1, 0.0, 0.2) if reason is None else None
        return Controlled(source, Origin(fitted_on=9), "error", 0.2, reason, realised)

    some = (found(Source.PROBE, None), found(Source.TAIL, "none passed"))
    cut = replace(benchmark, controlled=some)
    with settings():
        titles = [panel.get_title("left") for panel in draw_target_risk(cut).get_axes()]
    assert titles == ["probe"]
    assert "tail" not in html_of(risk_tables.by_target(cut, "error"))
    assert "for tail no policy passed" in risk_tables.nowhere_certified(cut, "error")


def test_each_number_of_samples_has_its_panel(benchmark: BenchmarkMeasures) -> None:
    origins = [Origin("c0ffee12"), Origin("deadbeef", samples=4), Origin(fitted_on=9)]
    found = [
        Controlled(Source.PROBE, origin, "error", 0.2, realised=Estimate(0.1, 0.0, 0.2))
        for origin in origins
    ]
    with settings():
        axes = draw_target_risk(replace(benchmark, controlled=tuple(found))).get_axes()
    assert [panel.get_title("left") for panel in axes] == ["probe", "probe, n = 4"]
    assert [str(origin) for origin in origins] == [
        "certificate c0ffee12",
        "certificate deadbeef (n = 4)",
        "fitted on 9 problems",
    ]


def test_figures_that_are_the_same_in_print_are_both_the_best(small: RunMeasures) -> None:
    one, two = small.benchmarks[0].sources
    alike = tuple(
        replace(found, metrics=found.metrics | {"pce": Estimate(value)})
        for found, value in ((one, 0.10001), (two, 0.1))
    )
    first = next(part for part in confidence.section(with_benchmark(small, sources=alike)).content)
    assert html_of(first).count("<strong>0.100</strong>") == 2


def test_phrases_that_occur_are_drawn_in_order(benchmark: BenchmarkMeasures) -> None:
    figure = verbalized.draw_indicators(benchmark)
    written = {m.name: m.per_rollout.value for m in benchmark.indicators if m.per_rollout.value}
    drawn = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.get_axes()]
    assert sorted(name for names in drawn for name in names) == sorted(written)
    for names in drawn:
        assert names == sorted(names, key=lambda name: -written[name])


def test_what_cannot_be_written_is_refused(small: RunMeasures, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestRefused, match="is a file: give a folder"):
        write_report(small, tmp_path / "file")
    with pytest.raises(RequestRefused, match="no benchmark was measured"):
        write_report(replace(small, benchmarks=()), tmp_path)


def test_the_best_of_a_column_is_bold(report: Path, benchmark: BenchmarkMeasures) -> None:
    def value(found: SourceMeasures) -> float:
        best = found.metrics["within_auroc"].value
        assert best is not None
        return best

    best = max(benchmark.sources, key=value)
    assert f"<strong>{value(best):.3f}</strong>" in report.read_text("utf-8")
