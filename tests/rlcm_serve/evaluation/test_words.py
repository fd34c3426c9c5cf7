"""The templates of reports and comparisons: no block is left over, and every value is given."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from rlcm_serve.evaluation import compare, report
from rlcm_serve.evaluation.compare.words import words as of_comparison
from rlcm_serve.evaluation.report.words import words as of_report
from rlcm_serve.evaluation.sources import Source


@pytest.mark.parametrize("init", [report.__file__, compare.__file__])
def test_every_block_is_used(init: str) -> None:
    (path,) = (Path(init).parent / "templates").iterdir()
    template = path.read_text("utf-8")
    code = "".join(path.read_text("utf-8") for path in Path(init).parent.glob("*.py"))
    for block in re.findall(r"{% block (\w+) %}", template):
        name = block.removeprefix("section_").replace("_", "-") if "section_" in block else block
        assert f'"{name}"' in code or f"self.{name}()" in template, name


def test_lines_are_joined_and_paragraphs_are_not() -> None:
    title, intro = of_report.paragraphs("section_confidence")
    assert title == "Confidence at the end of a rollout"
    assert "\n" not in intro
    assert "right answers (calibration), and is it" in intro  # over the end of a line
    (first, *_) = of_report.paragraphs("metrics")
    assert first.startswith("Accuracy (Pass@1): Share of rollouts")


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        of_comparison("phrases")
    with pytest.raises(UndefinedError):
        of_report("no_probability", run={"name": Source.PROBE})


def test_a_text_has_one_paragraph() -> None:
    with pytest.raises(ValueError, match="too many values"):
        of_report("metrics")
