import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rlcm_serve.aggregation import (
    Aggregation,
    Rule,
    VoteOptions,
    answer_counts,
    rollouts,
    rollouts_of,
    runs,
)
from rlcm_serve.aggregation.graders import Comparison, Graders
from rlcm_serve.aggregation.spill import HASH, SortedRuns, with_hashes
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.aggregation.batches import Row, aggregate, batch, records

GROUPED = VoteOptions(grouped=True)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files; nothing is in it in the end, and nothing has a name before."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


class TestGroupedRows:
    def test_give_a_result_once_the_next_problem_begins(self) -> None:
        rows = [Row("a", "7", 0.5), Row("a", "7", 0.5), Row("b", "8", 0.5), Row("c", "9", 0.5)]
        ready = []
        with Aggregation(GROUPED) as aggregation:
            for at, row in enumerate(rows, 1):
                found = records(aggregation.add(batch([row], at)))
                ready.append([result["problem_id"] for result in found])
            ready.append([result["problem_id"] for result in records(aggregation.finish())])
        assert ready == [[], [], ["a"], ["b"], ["c"]]

    @pytest.mark.parametrize("size", [1, 2, 3, 10])
    @pytest.mark.parametrize(("order", "row"), [("aba", 3), ("aabbca", 6), ("abcdeb", 6)])
    def test_that_are_not_are_refused_by_the_row_that_comes_back(
        self, order: str, row: int, size: int
    ) -> None:
        rows = [Row(problem, "7", 0.5) for problem in order]
        with pytest.raises(
            RequestRefused, match=f"line {row}: problem '{order[-1]}' appears again"
        ):
            aggregate(rows, GROUPED, size=size)
        assert len(aggregate(rows, size=size)[0]) == len({*order})

    def test_a_problem_may_go_on_over_many_batches(self) -> None:
        rows = [Row("a", str(at % 3), 0.5) for at in range(100)] + [Row("b", "1", 0.5)]
        results, _ = aggregate(rows, GROUPED, size=1)
        assert [result["rollouts"] for result in results] == [100, 1]


class TestReferences:
    @pytest.mark.parametrize("memory", [0, 2**26])
    def test_two_for_one_problem_are_refused(self, memory: int) -> None:
        rows = [Row("b", "7", 0.5), Row("a", "7", 0.5, "7"), Row("b", "7", 0.5, "8")]
        rows += [Row("a", "7", 0.5, "8")]
        with pytest.raises(RequestRefused, match="line 4: reference is '8', but another row of"):
            aggregate(rows, size=1, memory=memory)

    def test_one_row_may_stand_for_all(self) -> None:
        rows = [Row("a", "8", 0.5), Row("a", "7", 0.4, "7"), Row("a", "7", 0.5)]
        (result,), _ = aggregate(rows)
        assert result["correct"]
        assert result["pass_at_1"] == pytest.approx(2 / 3)


def test_more_rollouts_of_a_problem_than_sums_are_exact_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (rollouts, runs, answer_counts):
        monkeypatch.setattr(module, "MOST_ROLLOUTS", 10)
    rows = [Row("a", "7", 0.5)] * 11
    for options in (VoteOptions(), GROUPED):
        with pytest.raises(RequestRefused, match="problem 'a' has 11 rollouts or more: give at mo"):
            aggregate(rows, options, size=4)
        assert aggregate(rows[:10], options, size=4)[0][0]["kept"] == 10


def test_no_message_quotes_a_long_value(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rollouts, runs, answer_counts):
        monkeypatch.setattr(module, "MOST_ROLLOUTS", 2)
    name, reference = "a" * 1000, "7" * 1000
    grouped = [Row(name, "7", 0.5), Row("b", "7", 0.5), Row(name, "7", 0.5)]
    references = [Row(name, "7", 0.5, reference), Row(name, "7", 0.5, f"{reference}8")]
    many = [Row(name, "7", 0.5)] * 3
    for rows, options in (
        (grouped, GROUPED),
        (references, VoteOptions()),
        (many, VoteOptions()),
        (many, GROUPED),
    ):
        with pytest.raises(RequestRefused, match="aaa") as refused:
            aggregate(rows, options)
        assert len(str(refused.value)) < 350


def test_sums_are_exact_up_to_the_most_rollouts() -> None:
    most = rollouts.MOST_ROLLOUTS
    confidence = np.full(most, 1.0)
    confidence[0] -= 2.0**-40
    with Aggregation(VoteOptions()) as aggregation:
        names = pa.repeat(pa.scalar("a", pa.large_string()), most)
        answers = pa.concat_arrays(
            [names.slice(0, most // 2), pa.repeat(pa.scalar("b", pa.large_string()), most // 2)]
        )
        assert not list(aggregation.add(rollouts_of(names, answers, confidence)))
        (result,) = records(aggregation.finish())
    assert result["answer"] == "b"
    assert not result["tied"]


class TestMemory:
    PROBLEMS, ROLLOUTS, SIZE = 20_000, 20, 8_000

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Scattered rows, made as they are asked for."""
        rng = np.random.default_rng(0)
        order = rng.permutation(self.PROBLEMS * self.ROLLOUTS)
        for start in range(0, len(order), self.SIZE):
            problem = order[start : start + self.SIZE] // self.ROLLOUTS
            yield rollouts_of(
                [f"a problem with a rather long name, number {each}" for each in problem],
                [str(each % 7) for each in order[start : start + self.SIZE]],
                rng.random(len(problem)),
                rows=np.arange(start + 1, start + 1 + len(problem)),
            )

    @pytest.mark.slow
    def test_scattered_rows_beyond_it_go_to_disk(self, temporary: Path) -> None:
        limit = 2 * 2**20
        whole = sum(rows.nbytes for rows in self.batches())
        assert whole > 15 * limit
        found, seen = 0, []
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        with Aggregation(VoteOptions(), memory=limit) as aggregation:
            for rows in self.batches():
                assert not list(aggregation.add(rows))
                seen.append(pa.total_allocated_bytes() - before)
            for results in aggregation.finish():
                found += len(results)
                seen.append(pa.total_allocated_bytes() - before)
                assert not list(temporary.iterdir()), "the files have no names"
            summary = aggregation.summary
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found == summary.problems == self.PROBLEMS
        assert summary.rollouts == self.PROBLEMS * self.ROLLOUTS
        assert max(seen) < 4 * limit
        # numpy's and Python's own; the permutation of the test takes 3 MB.
        assert most < whole / 2

    def test_what_comes_back_from_disk_are_whole_problems(self) -> None:
        rows = batch([Row(f"p{at % 5000}", "7", 0.5) for at in range(20_000)])
        parts = from_disk(rows, size=1000)
        assert len(parts) > 20
        names = [{*part["problem_id"].to_pylist()} for part in parts]
        assert sum(map(len, names)) == len(set().union(*names)) == 5000
        assert sorted(row for part in parts for row in part["row"].to_pylist()) == [
            *range(1, 20_001)
        ]
        assert all(part["row"].to_pylist() == sorted(part["row"].to_pylist()) for part in parts)
        hashes = [part[HASH].to_numpy() for part in parts]
        assert all(one.max() < other.min() for one, other in pairwise(hashes))

    def test_a_problem_that_is_too_large_stays_whole(self) -> None:
        rows = batch([Row("large" if at % 2 else f"p{at}", "7", 0.5) for at in range(4000)])
        parts = from_disk(rows, size=500)
        holding = [part for part in parts if "large" in part["problem_id"].to_pylist()]
        assert len(holding) == 1
        assert holding[0]["problem_id"].to_pylist().count("large") == 2000


def from_disk(rows: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    """The rows, written in runs of this size, and read back in batches of about 1000 bytes."""
    with SortedRuns(HASH) as runs:
        for start in range(0, len(rows), size):
            runs.add(with_hashes(rows.slice(start, size)))
        return list(runs.merged(limit=1000))


KILLED = """
import os, signal, sys, tempfile
from rlcm_serve.aggregation import Aggregation, VoteOptions, rollouts_of
aggregation = Aggregation(VoteOptions(), memory=0)
names = [f"p{at}" for at in range(1000)]
list(aggregation.add(rollouts_of(names, names, [0.5] * 1000)))
print(os.fstat(aggregation._spilled._file.fileno()).st_size, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_file_behind(temporary: Path) -> None:
    environment = os.environ | {"TMPDIR": str(temporary)}
    ran = subprocess.run(
        [sys.executable, "-c", KILLED], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert int(ran.stdout) > 1000


def test_abandoned_graders_end_a_comparison_at_once() -> None:
    graders = Graders(workers=1, time_limit=60)
    rows = [Row("a", r"9^{9^{9^9}}", 0.9), Row("a", r"\sqrt2", 0.5)]
    with Aggregation(VoteOptions(), graders=graders) as aggregation:
        assert not list(aggregation.add(batch(rows)))
        timer = threading.Timer(1.5, graders.abandon)
        timer.start()
        began = time.monotonic()
        with pytest.raises(RuntimeError, match=r"abandoned|before it was ready"):
            list(aggregation.finish())
        assert time.monotonic() - began < 10
        timer.join()


def test_several_graders_give_the_findings_in_order() -> None:
    graders = Graders(workers=2)
    try:
        halves = [f"{at}/2" for at in range(1, 9)]
        asked = [Comparison([half, f"2*{half}/2", "x"], [f"{half}+0"], half) for half in halves]
        for finding in graders.compare(asked):
            assert finding.classes == [0, 0, 1]
            assert finding.correct == [True]
    finally:
        graders.close()
        graders.close()


def test_the_filter_is_of_all_rows_of_a_problem_wherever_they_are() -> None:
    rows = [Row("a", str(at), at / 100) for at in range(100)]
    options = VoteOptions(Rule.FILTERED, top_p=0.1)
    for memory in (0, 2**26):
        (result,), _ = aggregate(rows, options, size=7, memory=memory)
        assert sorted(map(int, result["tally"])) == list(range(90, 100))
