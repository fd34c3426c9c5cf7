from collections import Counter

from training.benchmarks import BENCHMARKS, COUNT, held_out_rows
from training.tasks.problems import FAMILIES, LEVELS, Split, split_of


def test_the_problems_were_used_for_nothing_else() -> None:
    rows = [*held_out_rows()]
    assert len({row["id"] for row in rows}) == len(rows) == COUNT
    assert {split_of(row["problem"]) for row in rows} == {Split.TEST}
    assert rows == [*held_out_rows()]


def test_every_family_and_level_has_a_part() -> None:
    parts = Counter(row["part"] for row in held_out_rows())
    assert {*parts} == {f"{family}, level {level}" for family in FAMILIES for level in LEVELS}
    dial = Counter(row["part"] for row in held_out_rows(("dial",)))
    assert {*dial} == {f"dial, level {level}" for level in LEVELS}


def test_all_families_together_and_each_alone_are_benchmarks() -> None:
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert names == ["embedded", *(f"embedded-{family}" for family in FAMILIES)]
