import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration.metrics.estimates import Estimate
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.markers import Category
from studies.paper.repeated import runs_of
from studies.paper.report.results_index import ResultsIndex, benchmark_of, mean_of, source_of
from studies.paper.report.write import REPEATED, SECTIONS, other_base_sections, write_report
from studies.paper.result import Result
from studies.paper.runs import repeated_runs, run_named
from tests.studies.paper.made_results import N_PROBLEMS, made_result, silent, with_domains

pytestmark = pytest.mark.slow

FIGURES = {"budgets", "brier", "votes", "control", "frontier", "confidence", "training"}


def block(page: Path, name: str) -> str:
    """The text of one."""
    found = re.search(f"<!-- begin {name} -->\n(.*?)<!-- end {name} -->", page.read_text(), re.S)
    assert found, name
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of all tables' lines, without intervals and emphasis."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[re.sub(r"<br>.*|[*]{2}|</?u>", "", cell) for cell in line] for line in lines]


def row(text: str, *heads: str) -> list[str]:
    """Of the first line that begins so, the other cells."""
    return next(r[len(heads) :] for r in rows(text) if tuple(r[: len(heads)]) == heads)


def keep(folder: Path, results: Sequence[Result]) -> Path:
    for result in results:
        result.write(folder)
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, every_result: Sequence[Result]) -> Path:
    """Of all runs."""
    folder = tmp_path_factory.mktemp("report")
    return write_report(keep(folder / "results", every_result), folder / "docs" / "paper.md")


def test_a_new_page_has_every_block_filled_and_every_figure(page: Path) -> None:
    assert all(block(page, name).strip() for name in SECTIONS)
    assert "not run yet" not in page.read_text()
    figures = {path.stem for path in (page.parent / "paper").iterdir()}
    assert figures == FIGURES
    assert set(re.findall(r"\]\(paper/([a-z]+)\.png\)", page.read_text())) == FIGURES


def test_every_table_has_as_many_cells_in_each_line(page: Path) -> None:
    for part in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.M):
        assert len({line.count(" | ") for line in part.splitlines()}) == 1, part


def test_the_same_results_give_the_same_bytes(
    tmp_path: Path, every_result: Sequence[Result]
) -> None:
    results = keep(tmp_path / "r", every_result[:2])
    one, other = (write_report(results, tmp_path / d / "paper.md") for d in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    figures = list((one.parent / "paper").iterdir())
    assert len(figures) == len(FIGURES)
    for figure in figures:
        again = other.parent / "paper" / figure.name
        assert again.read_bytes() == figure.read_bytes(), figure.name


def test_prose_stays_and_figures_of_former_times_go(
    tmp_path: Path, every_result: Sequence[Result]
) -> None:
    results, out = keep(tmp_path / "r", every_result[:1]), tmp_path / "paper.md"
    write_report(results, out)
    out.write_text(out.read_text().replace("## Every run", "## Mine\n\nMy prose.\n\n## Every run"))
    (tmp_path / "paper" / "former.png").touch()
    (tmp_path / "paper" / "notes.txt").touch()
    write_report(results, out)
    assert "## Mine\n\nMy prose.\n" in out.read_text()
    assert not (tmp_path / "paper" / "former.png").exists()
    assert (tmp_path / "paper" / "notes.txt").exists()


def test_a_page_without_a_block_is_left_as_it_is(
    tmp_path: Path, every_result: Sequence[Result]
) -> None:
    out = tmp_path / "paper.md"
    out.write_text("# Mine")
    with pytest.raises(RequestRefused, match="the page has no block 'setting'"):
        write_report(keep(tmp_path / "r", every_result[:1]), out)
    assert out.read_text() == "# Mine"
    assert not (tmp_path / "paper").exists()


def test_figures_in_the_main_table_are_those_of_the_rollouts(
    page: Path, every_result: Sequence[Result]
) -> None:
    """GRPO over its seeds, on as many rollouts as the others."""
    right = [
        sum(sum(own[:4]) for own in result.rollouts.right) / (4 * N_PROBLEMS)
        for result in every_result
        if result.method == "grpo"
    ]
    text = block(page, "main")
    assert row(text, "GRPO", "probe", "3")[0] == f"{sum(right) / 3:.3f}"
    assert f"<sub>{min(right):.3f} to {max(right):.3f}</sub>" in text
    assert row(text, "RLCR", "verbalised", "1")
    assert "dial<br>ECE ↓" in text


def test_best_and_second_are_marked_once_in_a_column(page: Path) -> None:
    lines = [line for line in block(page, "main").splitlines() if line.startswith("| ")][2:7]
    accuracies = [line.split(" | ")[3] for line in lines]
    assert sum(cell.startswith("**") for cell in accuracies) == 1
    assert sum(cell.startswith("<u>") for cell in accuracies) == 1
    value = [float(re.sub(r"<br>.*|[*]{2}|</?u>", "", cell)) for cell in accuracies]
    assert accuracies[value.index(max(value))].startswith("**")


def test_differences_are_bold_where_the_interval_excludes_zero(page: Path) -> None:
    cells = re.findall(
        r"(\*\*)?([+−][0-9.]+)(?:\*\*)?<br><sub>(−?[0-9.]+) to (−?[0-9.]+)</sub>", page.read_text()
    )
    assert len(cells) > 40
    for bold, _, low, high in cells:
        ends = [float(end.replace("−", "-")) for end in (low, high)]
        if 0 not in ends:  # rounded
            assert bool(bold) == (ends[0] > 0 or ends[1] < 0)


def test_incomplete_results_are_said_and_drawn(
    tmp_path: Path, every_result: Sequence[Result]
) -> None:
    some = [r for r in every_result if r.name in ("base-0", "grpo-0", "grpo-1", "rlcr-0.3-0")]
    page = write_report(keep(tmp_path / "r", some), tmp_path / "paper.md")
    assert row(block(page, "main"), "RLCM", "", "0") == ["not run yet"] * 4
    assert row(block(page, "gain"), "RLCM − GRPO", "")[0] == "not run yet"
    assert row(block(page, "gain"), "GRPO − Base", "0")[0].startswith(("+", "−"))
    assert row(block(page, "lambda"), "0.05")[0] == "not run yet"
    missing = block(page, "runs").splitlines()[0]
    assert missing.startswith("Not run yet: rlcr-1-0, ")
    assert "grpo-1" not in missing
    assert row(block(page, "runs"), "rlcm-0.1-2")[3:6] == ["not run yet"] * 3
    assert block(page, "claims").count("**not run yet**") > 5


@pytest.mark.parametrize("name", ["base-2", "final-brier-0.1-0", "rlcr-3-0", "c2gspg-0.01-0"])
def test_a_single_result_makes_a_page(tmp_path: Path, name: str) -> None:
    result = made_result(run_named(name), 8)
    page = write_report(keep(tmp_path / "r", [result]), tmp_path / "paper.md")
    assert f"| {name} |" in block(page, "runs")


def test_settings_that_differ_are_all_listed(tmp_path: Path) -> None:
    one, other = (made_result(run_named(name), 8) for name in ("grpo-0", "grpo-1"))
    other = replace(other, settings=other.settings | {"steps": 7})
    page = write_report(keep(tmp_path / "r", [one, other]), tmp_path / "paper.md")
    assert row(block(page, "setting"), "steps") == ["7 or 30", "600"]
    assert row(block(page, "setting"), "learning rate") == ["0.001, linear", "1e-06"]


def test_a_model_that_voices_no_doubt_says_nothing_about_it(
    tmp_path: Path, every_result: Sequence[Result]
) -> None:
    page = write_report(keep(tmp_path / "r", [silent(every_result[0])]), tmp_path / "paper.md")
    assert "No method writes any of the phrases." in block(page, "markers")
    assert row(block(page, "markers"), "Base") == ["0.00"] * len(Category)


@pytest.mark.parametrize("title", ["0", "3", "GRPO", "RLCM"])
def test_a_difference_is_of_the_rollouts_beside_it(page: Path, title: str) -> None:
    text = block(page, "brier")
    own, reference = (float(row(text, name)[0]) for name in (title, "1"))
    assert float(row(text, title)[3].replace("−", "-")) == pytest.approx(own - reference, abs=0.002)


def test_levels_that_are_not_certified_are_named(page: Path) -> None:
    text = block(page, "control")
    assert "not certified" in row(text, "C²GSPG")[0]  # α = 0.05 is too low for it
    assert row(text, "RLCM")[1].startswith("tokens ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("problems", "base-0 and grpo-0 in .* are not of the same problems, grader and"),
        ("design", "base-0 and grpo-0 in .* are not of the same problems, grader and design"),
        ("name", "rlcm-0.2-0 in .* is no run of the paper"),
        ("benchmarks", "grpo-0 in .* is of 2 benchmarks"),
        ("source", "grpo-0 holds nothing of tail"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(
    tmp_path: Path, every_result: Sequence[Result], change: str, message: str
) -> None:
    base, grpo = every_result[:2]
    measures, benchmark = grpo.measures, benchmark_of(grpo)
    if change == "problems":
        others = (replace(benchmark, problems="of others"),)
        grpo = replace(grpo, measures=replace(measures, benchmarks=others))
    elif change == "name":
        grpo = replace(grpo, name="rlcm-0.2-0")
    elif change == "design":
        grpo = replace(grpo, design="another")
    elif change == "benchmarks":
        grpo = replace(grpo, measures=replace(measures, benchmarks=(benchmark, benchmark)))
    else:
        grpo = replace(grpo, measures=replace(measures, source="tail"))
    with pytest.raises(RequestRefused, match=message):
        write_report(keep(tmp_path / "r", [base, grpo]), tmp_path / "paper.md")
    assert not (tmp_path / "paper.md").exists()


def test_seeds_are_found_by_method_and_lambda(every_result: Sequence[Result]) -> None:
    index = ResultsIndex({result.name: result for result in every_result})
    assert [result.name for result in index.of("rlcm")] == [
        "rlcm-0.1-0", "rlcm-0.1-1", "rlcm-0.1-2",
    ]  # fmt: skip
    assert [result.name for result in index.of("rlcm", 0.5)] == ["rlcm-0.5-0"]
    assert [pair[1].name for pair in index.pairs("base", "rlcr")] == ["rlcr-1-0"]
    assert index.families == ("dial", "tale", "total")
    assert index.missing == ()
    assert source_of(index.any).source == "probe"


def test_a_mean_over_seeds_has_their_range_and_no_interval() -> None:
    assert mean_of([Estimate(0.25, 0, 1), Estimate(0.75), Estimate(0.5)]) == Estimate(
        0.5, 0.25, 0.75
    )
    assert mean_of([Estimate(0.1, 0, 1)]) == Estimate(0.1)
    assert mean_of([Estimate(0.1), Estimate(None)]) == Estimate(None)
    assert mean_of([]) == Estimate(None)


@pytest.fixture(scope="module")
def repeated_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of some methods."""
    folder = tmp_path_factory.mktemp("repeated")
    names = {"base", "grpo", "rlcm", "rlcr", "final-margin", "rlcm-authors"}
    made = [with_domains(made_result(run)) for run in repeated_runs() if run.method in names]
    results = keep(folder / "results", made)
    return write_report(results, folder / "all.md", repeated_runs(), REPEATED, "Every method")


def test_the_page_of_three_seeds_has_its_own_blocks_and_no_verdict(repeated_page: Path) -> None:
    text = repeated_page.read_text()
    assert text.startswith("# Every method\n")
    assert all(block(repeated_page, name).strip() for name in REPEATED)
    assert "begin claims" not in text
    figures = {path.stem for path in (repeated_page.parent / "all").iterdir()}
    assert figures == FIGURES | {"tradeoff", "votes-budgets"}


def test_sweeps_are_means_over_the_seeds_that_all_have(repeated_page: Path) -> None:
    text = block(repeated_page, "lambda")
    assert "Means over 3 seeds (0, 1, 2)" in text
    assert len(rows(text)) == 2 + 4
    assert len(row(text, "0.05")) == 6
    assert len(row(text, "0.1")) == 3  # no difference to itself
    assert "A straight line through all 12 runs changes by" in text
    assert "Not run yet" in block(repeated_page, "runs")


def test_what_is_out_of_domain_stands_beside_the_trained_kinds(repeated_page: Path) -> None:
    text = block(repeated_page, "domain")
    assert "trained kinds<br>accuracy" in text
    assert "out of domain<br>ECE" in text
    own = [made_result(run) for run in repeated_runs() if run.method == "grpo"]
    count = min(len(one) for result in own for one in result.rollouts.right)
    for place, family in ((0, ("tale",)), (3, ("dial", "total"))):
        right = [
            np.mean(
                [
                    row[:4]
                    for row, part in zip(one.right, one.parts, strict=True)
                    if part.startswith(family)
                ]
            )
            for one in (result.rollouts for result in own)
        ]
        assert count == 4
        assert float(row(text, "GRPO")[place]) == pytest.approx(np.mean(right), abs=5e-4)
    assert "tale" not in block(repeated_page, "main"), "no other table pools them"


def test_a_result_without_problems_out_of_domain_is_refused(tmp_path: Path) -> None:
    made = [made_result(run) for run in repeated_runs()[:2]]
    results = keep(tmp_path / "results", made)
    with pytest.raises(RequestRefused, match="base-0 has no problems out of domain: make the run"):
        write_report(results, tmp_path / "all.md", repeated_runs(), REPEATED)


def test_the_page_of_another_base_model_has_only_its_own_runs(tmp_path: Path) -> None:
    runs = tuple(runs_of("base,grpo,rlcm"))
    results = keep(tmp_path / "results", [with_domains(made_result(run)) for run in runs[:4]])
    page = write_report(results, tmp_path / "other.md", runs, other_base_sections(runs), "Another")
    assert "Qwen3-4B-Instruct-2507" in block(page, "setting")
    assert "Not run yet: grpo-1" in block(page, "runs")
    for method in ("RLCR", "C²GSPG", "Final-Brier"):
        assert method not in page.read_text()
    assert not {"lambda", "brier", "ablation", "regulariser"} & set(
        re.findall(r"<!-- begin ([a-z-]+) -->", page.read_text())
    )


def test_phrases_and_votes_at_budgets_are_read_from_the_results(repeated_page: Path) -> None:
    phrases = rows(block(repeated_page, "phrases"))
    assert phrases[0][:4] == ["phrase", "category", "Base", "GRPO"]
    assert {line[1] for line in phrases[2:]} == {str(category) for category in Category}
    assert "Means over the seeds of each method" in block(repeated_page, "budgets")
    votes = block(repeated_page, "votes-budgets")
    assert "all/votes-budgets.png" in votes
    assert [line[0] for line in rows(votes)[2:]] == ["Base", "GRPO", "RLCR", "RLCM"]
