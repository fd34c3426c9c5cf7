"""`rlcm fit --sequential`, `rlcm extend` and `rlcm plan --design`, as their users meet them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from calibration import Certificate, read_traces, verify, write_traces
from calibration.certificate.design import Design
from calibration.certificate.report_data import ReportData
from rlcm_serve.commands.certificates.fit import NOTHING_CERTIFIED
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.commands.test_certificates import check_refused, rollouts
from tests.rlcm_serve.scripted_engine import IDENTITY

Record = Callable[..., Path]
LEVELS = "--alpha 0.2 --alpha 0.4"


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Writes traces of the scripted engine into a file of the folder `rlcm` runs in."""

    def write(file: str, n: int, **how: Any) -> Path:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        made = rollouts(np.random.default_rng(len(file)), n, **how)
        write_traces(path, made, fingerprint_of(IDENTITY))
        return path

    return write


def test_problems_are_added_from_a_folder_until_a_level_is_certified(
    rlcm: Rlcm, record: Record
) -> None:
    record("t/first.parquet", 30, name="a")
    status, out, _ = rlcm(f"fit t {LEVELS} --sequential --out c.json")
    assert status == NOTHING_CERTIFIED
    assert "alpha 0.2: not certified." in out
    assert re.search(r"batch 1 under the design [0-9a-f]{64}", out)
    record("t/second.parquet", 200, name="b")
    status, out, _ = rlcm("extend c.json t --out c.json")
    assert status == 0
    assert "alpha 0.4: certified." in out
    assert "batch 2 under" in out
    made = Certificate.load("c.json")
    assert made.n_problems == 230
    assert verify(made, read_traces("t")) == []
    assert rlcm("verify c.json t")[0] == 0


def test_nothing_new_is_refused(rlcm: Rlcm, record: Record) -> None:
    record("t/first.parquet", 60)
    rlcm(f"fit t {LEVELS} --sequential --out c.json")
    status, _, err = rlcm("extend c.json t --out d.json")
    assert (status, Path("d.json").exists()) == (1, False)
    assert "all 60 problems are counted already" in err


def test_another_test_is_refused(rlcm: Rlcm, record: Record) -> None:
    record("t/first.parquet", 60)
    check_refused(
        rlcm("fit t --sequential --p-value betting --out c.json"),
        "--p-value cannot be combined with --sequential: it has a test of its own",
    )


def test_a_plan_writes_the_design_before_the_first_problem(rlcm: Rlcm, record: Record) -> None:
    record("pilot.parquet", 60, name="q")
    record("t/first.parquet", 150, name="a")
    status, out, _ = rlcm(f"plan pilot.parquet {LEVELS} --design new/design.json")
    assert status == 0
    assert "start with `rlcm extend new/design.json TRACES --order pilot.parquet`" in out
    assert "\nevery problem needs a label\n" in out
    design = Design.from_json(json.loads(Path("new/design.json").read_text()))
    status, _, _ = rlcm("extend new/design.json t --order pilot.parquet --out c.json")
    assert status == 0
    made = Certificate.load("c.json")
    assert made.design == design
    _, _, err = rlcm("extend new/design.json t --out d.json")
    assert "learned from 60 other problems" in err
    record("t/pilot.parquet", 60, name="q")
    _, _, err = rlcm("extend c.json t --order pilot.parquet --out d.json")
    assert "60 problems or groups are in" in err
    assert not Path("d.json").exists()


def test_a_design_that_cannot_be_written_is_refused_before_anything_is_read(rlcm: Rlcm) -> None:
    Path("folder").mkdir()
    check_refused(rlcm("plan t --design folder"), "design is folder, which is a folder: give a")


def test_what_is_neither_a_design_nor_a_certificate_is_refused(rlcm: Rlcm, record: Record) -> None:
    record("t/first.parquet", 60)
    Path("odd.json").write_text("[]")
    check_refused(rlcm("extend odd.json t --out c.json"), "odd.json: not a certificate")
    Path("odd.json").write_text("{")
    check_refused(rlcm("extend odd.json t --out c.json"), "odd.json is not JSON")
    record("pilot.parquet", 60, name="q")
    rlcm(f"plan pilot.parquet --risk regret {LEVELS} --design design.json")
    design = json.loads(Path("design.json").read_text())
    for delta in (float("nan"), 10**400):
        Path("odd.json").write_text(json.dumps(design | {"delta": delta}))
        check_refused(rlcm("extend odd.json t --out c.json"), "odd.json")
    for command in ("extend no.json t --out c.json", "labels no.json t"):
        check_refused(
            rlcm(command),
            "there is no certificate or design no.json: correct the path, or write one with `rlcm "
            "fit` or `rlcm plan --design`",
        )


def test_the_problems_that_need_a_label_are_listed(rlcm: Rlcm, record: Record) -> None:
    record("pilot.parquet", 60, name="q")
    record("sure.parquet", 5, name="s", right=1.0)
    record("t.parquet", 20, name="a")
    rlcm(f"plan pilot.parquet --risk regret {LEVELS} --design design.json")
    status, out, err = rlcm("labels design.json sure.parquet")
    assert (status, out, err) == (0, "", "0 of 5 problems need a label\n")
    status, out, err = rlcm("labels design.json t.parquet")
    needed = out.split()
    assert status == 0
    assert 0 < len(needed) <= 20
    assert set(needed) <= {f"a{number:03d}" for number in range(20)}
    assert err == f"{len(needed)} of 20 problems need a label\n"
    status, _, err = rlcm("labels design.json pilot.parquet")
    assert status == 1
    assert "learned from these problems, so they cannot be tested" in " ".join(err.split())


def test_a_share_of_the_problems_is_labelled(rlcm: Rlcm, record: Record) -> None:
    """A design, the list of problems to label, a certificate, a second batch, verification."""
    record("pilot.parquet", 60, name="q")
    record("t/first.parquet", 120, name="a")
    plan = f"plan pilot.parquet {LEVELS} --design design.json"
    status, out, _ = rlcm(f"{plan} --label-share 0.4 --least-share 0.3")
    assert status == 0
    assert "with labels of 40% of the problems, drawn evenly, it" in out
    assert "need a label" not in out
    status, out, _ = rlcm("labels design.json t")
    assert status == 0
    assert 20 < len(out.split()) < 80
    rlcm("extend design.json t --order pilot.parquet --out c.json")
    record("t/second.parquet", 400, name="b")
    _, out, _ = rlcm("labels c.json t")
    assert 120 < len(out.split()) < 290
    _, out, _ = rlcm("extend c.json t --order pilot.parquet --out c.json")
    assert "about 40% of the problems have a label" in out
    assert rlcm("verify c.json t --order pilot.parquet")[0] == 0
    assert rlcm("report-data c.json t --out data.json")[0] == 0
    data = ReportData.load(Path("data.json"))
    assert 0 < data.calibration.n_problems < 300


def test_a_share_of_labels_needs_a_design(rlcm: Rlcm, record: Record) -> None:
    record("pilot.parquet", 60, name="q")
    check_refused(
        rlcm("plan pilot.parquet --label-share 0.4"), "--label-share is 0.4 without --design"
    )


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ("--label-share 1.3", "label_share is 1.3: give a share in (0, 1]"),
        ("--label-share 0.3 --least-share 0.4", "least_share is 0.4: give a probability in (0, 0."),
        ("--least-share 0.4", "least_share is 0.4, and has no effect without label_share"),
    ],
)
def test_shares_that_none_can_be_are_refused_at_once(
    rlcm: Rlcm, record: Record, shares: str, said: str
) -> None:
    record("pilot.parquet", 60, name="q")
    check_refused(rlcm(f"plan pilot.parquet --design design.json {shares}"), said)
    assert not Path("design.json").exists()


def regraded(rlcm: Rlcm, path: Path, out: str, labelled: set[str]) -> None:
    """Grades traces again; only these problems have a label, and its answer is always 7."""
    ids = sorted(set(pq.read_table(path)["problem_id"].to_pylist()))
    rows = [
        {"id": name, "problem": name, "answer": "7" if name in labelled else "?"} for name in ids
    ]
    data = path.with_suffix(".jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, said, _ = rlcm(f"regrade {path} --data {data} --out {out}")
    assert status == 0
    assert f"{len(set(ids) - labelled)} problems have no label" in said


@pytest.mark.parametrize(
    "how", ["--label-share 0.4", "--risk regret", "--risk regret --label-share 0.6"]
)
def test_a_label_that_is_needed_and_left_out_is_refused(
    rlcm: Rlcm, record: Record, how: str
) -> None:
    record("pilot.parquet", 60, name="q")
    path = record("all.parquet", 150, name="a")
    rlcm(f"plan pilot.parquet {LEVELS} {how} --design design.json")
    _, out, _ = rlcm("labels design.json all.parquet")
    needed = set(out.split())
    assert 20 < len(needed) < 150
    regraded(rlcm, path, "t.parquet", needed)
    assert rlcm("labels design.json t.parquet")[1] == out
    order = "--order pilot.parquet"
    assert rlcm(f"extend design.json t.parquet {order} --out c.json")[0] in (0, NOTHING_CERTIFIED)
    assert rlcm(f"verify c.json t.parquet {order}")[0] == 0
    kept = sorted(needed)[2:]
    regraded(rlcm, path, "less.parquet", set(kept))
    status, _, err = rlcm("report-data c.json t.parquet --out data.json")
    assert (status, "to measure have no label" in err) == (
        (1, True) if "regret" in how else (0, False)
    )
    Path("c.json").unlink()
    first, second = sorted(needed)[:2]
    check_refused(
        rlcm(f"extend design.json less.parquet {order} --out c.json"),
        f"2 problems that need a label have none: '{first}', '{second}'. Label all that",
    )


def test_problems_without_a_label_are_for_such_designs_alone(rlcm: Rlcm, record: Record) -> None:
    path = record("all.parquet", 60, name="a")
    regraded(rlcm, path, "t.parquet", {"a000"})
    for command in ("fit t.parquet --out c.json", "plan t.parquet"):
        check_refused(rlcm(command), "correct is null: grade the answer")
    assert not read_traces(path).unlabelled_P
    assert read_traces("t.parquet", keep_unlabelled=True).digest != read_traces(path).digest
