"""The study's page says what its results say."""

from __future__ import annotations

import re

import pytest

from studies.paper.primary.design import PAGE, RESULTS, SEEDS
from studies.paper.primary.result import read_primary
from studies.paper.primary.tables import report_text

pytestmark = pytest.mark.slow

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def test_the_verdicts_on_the_page_are_those_of_the_results() -> None:
    """Another processor may round the last digit of a resampled figure otherwise."""
    results = PAGE.read_text(encoding="utf-8").split("<!-- begin results -->")[1]
    published = results.split("\n\n### ")[0].strip()
    made = report_text(read_primary(RESULTS), SEEDS)
    assert _NUMBER.sub("#", published) == _NUMBER.sub("#", made)
    numbers = [float(number) for number in _NUMBER.findall(made)]
    assert len(numbers) > 40
    assert [float(number) for number in _NUMBER.findall(published)] == pytest.approx(
        numbers, rel=0.02, abs=1e-3
    )
