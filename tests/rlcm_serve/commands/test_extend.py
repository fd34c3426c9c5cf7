"""`rlcm fit --sequential`, `rlcm extend` and `rlcm plan --design`, as their users meet them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration import Certificate, read_traces, verify, write_traces
from calibration.certificate.design import Design
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
        "--p-value cannot come with --sequential: it has a test of its own",
    )


def test_a_plan_writes_the_design_before_the_first_problem(rlcm: Rlcm, record: Record) -> None:
    record("pilot.parquet", 60, name="q")
    record("t/first.parquet", 150, name="a")
    status, out, _ = rlcm(f"plan pilot.parquet {LEVELS} --design design.json")
    assert status == 0
    assert "start with `rlcm extend design.json TRACES --order pilot.parquet`" in out
    design = Design.from_json(json.loads(Path("design.json").read_text()))
    status, _, _ = rlcm("extend design.json t --order pilot.parquet --out c.json")
    assert status == 0
    made = Certificate.load("c.json")
    assert made.design == design
    _, _, err = rlcm("extend design.json t --out d.json")
    assert "learned from 60 other problems" in err
    record("t/pilot.parquet", 60, name="q")
    _, _, err = rlcm("extend c.json t --order pilot.parquet --out d.json")
    assert "60 problems or groups are in" in err
    assert not Path("d.json").exists()


def test_what_is_neither_a_design_nor_a_certificate_is_refused(rlcm: Rlcm, record: Record) -> None:
    record("t/first.parquet", 60)
    Path("odd.json").write_text("[]")
    check_refused(rlcm("extend odd.json t --out c.json"), "odd.json: not a certificate")
    Path("odd.json").write_text("{")
    check_refused(rlcm("extend odd.json t --out c.json"), "odd.json is not JSON")


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
