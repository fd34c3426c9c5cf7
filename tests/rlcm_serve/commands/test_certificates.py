"""`rlcm fit`, `verify` and `replay` as their users meet them: files, words, exit statuses."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibration import (
    Certificate,
    ExitReason,
    Fingerprint,
    PValue,
    Reading,
    Rollout,
    certify,
    read_traces,
    write_traces,
)
from calibration.certificate.certificate import _digest
from calibration.certificate.report_data import ReportData
from calibration.report.build_data import build_report_data
from calibration.simulation.groups import Groups
from calibration.traces.probe_readings import READINGS_FILE, write_seen_problems
from rlcm_serve.commands.certificates.fit import NOTHING_CERTIFIED
from rlcm_serve.commands.certificates.verify import DIFFERENT
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.trained import seen_problems
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import BUDGET, IDENTITY, INTERVAL

Record = Callable[..., Path]
RLCM = Path(sys.executable).with_name("rlcm")


def rollouts(
    rng: np.random.Generator,
    n: int,
    *,
    name: str = "p",
    per_problem: int = 1,
    right: float | None = None,
    confidence: float | None = None,
) -> list[Rollout]:
    """Answers right with a chance that is their confidence, unless both are given."""
    tokens = [*range(INTERVAL, BUDGET, INTERVAL), BUDGET]
    made = []
    for problem in range(n):
        for number in range(per_problem):
            shown = rng.random(len(tokens))
            correct = rng.random(len(tokens)) < (shown if right is None else right)
            if confidence is not None:
                shown = np.full(len(tokens), confidence)
            readings = tuple(
                Reading(at, float(c), "7" if ok else "8", int(not ok), 3, bool(ok))
                for at, c, ok in zip(tokens, shown, correct, strict=True)
            )
            made.append(
                Rollout(
                    f"{name}{problem:03d}", number, ExitReason.BUDGET, readings[:-1], readings[-1]
                )
            )
    return made


def unlabelled(rollout: Rollout) -> Rollout:
    readings = [replace(one, correct=None) for one in (*rollout.checkpoints, rollout.final)]
    return replace(rollout, checkpoints=tuple(readings[:-1]), final=readings[-1])


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Writes traces of the scripted engine into the folder `rlcm` runs in."""

    def write(
        file: str,
        n: int = 140,
        *,
        seed: int = 1,
        fingerprint: Fingerprint | None = fingerprint_of(IDENTITY),  # noqa: B008
        **how: Any,
    ) -> Path:
        path = tmp_path / file
        write_traces(path, rollouts(np.random.default_rng(seed), n, **how), fingerprint)
        return path

    return write


FIT = "fit t.parquet --alpha 0.2 --alpha 0.4 --out c.json"


class TestFit:
    def test_writes_what_certify_returns(self, rlcm: Rlcm, record: Record) -> None:
        path = record("t.parquet")
        status, out, err = rlcm(f"{FIT} --risk regret --delta 0.05 --promise pointwise")
        assert (status, err) == (0, "")
        loaded = Certificate.load("c.json")
        assert loaded == certify(
            read_traces(path),
            risk="regret",
            alphas=(0.2, 0.4),
            delta=0.05,
            promise="pointwise",
            created=loaded.created,
        )
        first, second, last = out.splitlines()
        assert first.startswith("alpha 0.2: certified. On the calibration problems the regret risk")
        assert second.startswith("alpha 0.4: certified.")
        assert second.endswith("% of the tokens are saved")
        assert last == f"certificate {loaded.id} is in c.json"

    def test_defaults(self, rlcm: Rlcm, record: Record) -> None:
        path = record("t.parquet")
        status, out, _ = rlcm("fit t.parquet --out some/new/folder/c.json")
        assert status == 0
        loaded = Certificate.load("some/new/folder/c.json")
        assert loaded == certify(read_traces(path), created=loaded.created)
        assert [level.alpha for level in loaded.levels] == [0.05, 0.1, 0.2]
        assert "% of the questions are answered, " in out

    def test_each_kind_has_a_file_beside_that_of_all_kinds(
        self, rlcm: Rlcm, record: Record, tmp_path: Path
    ) -> None:
        path = record("t.parquet", 300)
        topics = {"a/b": 140, "algebra": 150, "rare": 10}
        names = [topic for topic, size in topics.items() for _ in range(size)]
        table = pq.read_table(path)
        ids = sorted(set(table["problem_id"].to_pylist()))
        topic_of = dict(zip(ids, names, strict=True))
        column = pa.array([topic_of[id_] for id_ in table["problem_id"].to_pylist()])
        pq.write_table(table.append_column("topic", column), path)
        status, out, err = rlcm(f"{FIT} --by topic")
        assert status == 0
        assert "fitting kinds" in err
        slashed = next(file.name for file in tmp_path.glob("c-a-b-*.json"))
        for file, kind, n in (("c.json", None, 300), (slashed, "a/b", 140)):
            made = Certificate.load(file)
            assert made.about == kind
            assert made.kind is not None
            assert made.kind.pooled == ("rare",)
            assert made.n_problems + made.n_order_problems == n
            assert rlcm(f"verify {file} t.parquet")[0] == 0
            assert rlcm(f"replay {file} t.parquet")[0] == 0
            assert rlcm(f"report-data {file} t.parquet")[0] == 0
        assert "all kinds, on 270 problems; too few labels for certificates of 'rare':" in out
        assert "topic 'algebra', on " in out
        assert rlcm(f"{FIT} --by topic")[0] == 0, "files of these kinds are replaced"
        (other := tmp_path / "d-algebra.json").write_bytes((tmp_path / "c.json").read_bytes())
        status, _, err = rlcm("fit t.parquet --by topic --out d.json")
        assert status == 1
        assert "kind 'algebra' would replace d-algebra.json, which is no certificate of" in err
        assert other.read_bytes() == (tmp_path / "c.json").read_bytes()
        status, _, err = rlcm("fit t.parquet --by tenant --out c.json")
        assert status == 1
        assert "no column 'tenant'" in err

    def test_several_promises_at_once(self, rlcm: Rlcm, record: Record) -> None:
        path = record("t.parquet", 300)
        wanted = "--bound wrong --answered-at-least 0.3 --next 100"
        status, out, err = rlcm(f"{FIT} {wanted}")
        assert (status, err) == (0, "")
        loaded = Certificate.load("c.json")
        assert loaded == certify(
            read_traces(path),
            alphas=(0.2, 0.4),
            bounds={"wrong": None, "declined": 0.7},
            next_questions=100,
            created=loaded.created,
        )
        assert "alpha 0.4, at the same time: wrong at most " in out
        assert "%; declined at most 70%; of the next 100 answered questions at most 5" in out
        assert out.splitlines()[-2].endswith(" go wrong")
        assert rlcm("verify c.json t.parquet")[0] == 0

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ("--bound declined=much", "the bound is 'declined=much'"),
            ("--bound error", "give one of declined, wrong, lost"),
            ("--bound declined=2", "the bound on declined is 2: give a share between 0 and 1"),
            ("--answered-at-least 2", "answered_at_least is 2: give a share between 0 and 1"),
            (
                "--bound declined --answered-at-least 0.7",
                "declined is bounded twice: answered_at_least 0.7 is the bound declined=0.3; leave",
            ),
            ("--next 0", "the next 0 questions"),
        ],
    )
    def test_promises_that_cannot_be_made(
        self, rlcm: Rlcm, record: Record, wanted: str, said: str
    ) -> None:
        record("t.parquet")
        check_refused(rlcm(f"{FIT} {wanted}"), said)

    def test_levels_with_the_same_policy_say_so(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        _, out, _ = rlcm("fit t.parquet --risk regret --alpha 0.4 --alpha 0.401 --out c.json")
        first, second, _ = out.splitlines()
        assert first.endswith("% of the tokens are saved")
        assert second.endswith("% of the tokens are saved; the same policy as at alpha 0.4")

    def test_every_option(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet", 240, per_problem=4)
        record("order.parquet", 60, per_problem=2, name="o", seed=2)
        record("pool.parquet", 50, name="q", seed=3)
        status, _, err = rlcm(
            f"{FIT} --n 2 --vote majority --draws 3 --method split --p-value hoeffding-bentkus "
            "--order order.parquet --pool pool.parquet --smoothing 0 --smoothing 0.5 "
            "--token-price 0.1 --average problems --max-group-size 2 --alpha 0.7"
        )
        assert (status, err) == (0, "")
        loaded = Certificate.load("c.json")
        procedure = loaded.procedure
        assert (procedure.samples, procedure.vote, procedure.draws) == (2, "majority", 3)
        assert loaded.p_value is PValue.HOEFFDING_BENTKUS
        assert (loaded.n_problems, loaded.n_order_problems) == (240, 60)
        assert loaded.groups == Groups(max_size=2)
        assert "60 other problems over quantiles of the confidences of 50 other" in loaded.method
        assert loaded.fingerprint == fingerprint_of(IDENTITY, samples=2, vote="majority")

    def test_a_probe_that_left_its_readings_costs_no_label(
        self, rlcm: Rlcm, record: Record
    ) -> None:
        record("t.parquet", 200)
        probe = Path("own-probe")
        shutil.copytree(EMBEDDED_MODEL / PROBE_FOLDER, probe)
        readings = record(f"{probe}/{READINGS_FILE}", 60, name="v", seed=2)
        status, _, err = rlcm(f"{FIT} --probe {probe}")
        assert (status, err) == (0, "")
        loaded = Certificate.load("c.json")
        assert (loaded.n_problems, loaded.n_order_problems) == (200, 60)
        status, out, _ = rlcm("verify c.json t.parquet")
        assert (status, "or the folder of their probe with --probe" in out) == (0, True)
        status, out, _ = rlcm(f"verify c.json t.parquet --probe {probe}")
        assert (status, out.splitlines()[-1]) == (0, f"certificate {loaded.id}: no differences")
        readings.unlink()
        status, _, err = rlcm(f"{FIT} --probe {probe}")
        assert status == 0
        (line,) = err.splitlines()
        assert line.startswith(f"warning: {probe} has no {READINGS_FILE}, which training leaves")
        loaded = Certificate.load("c.json")
        assert (loaded.n_problems, loaded.n_order_problems) == (180, 20)

    def test_problems_that_trained_the_probe_are_refused_with_an_order_too(
        self, rlcm: Rlcm, record: Record, tmp_path: Path
    ) -> None:
        record("t.parquet", name="0123456789abc")  # with digests as ids
        record("order.parquet", 60, name="o", seed=2)
        probe = tmp_path / "own-probe"
        shutil.copytree(EMBEDDED_MODEL / PROBE_FOLDER, probe)
        write_seen_problems(
            probe / READINGS_FILE, seen_problems([LabelledProblem("0123456789abc000", "x?", "1")])
        )
        for order in ("", "--order order.parquet"):
            check_refused(rlcm(f"{FIT} --probe {probe} {order}"), "problems trained the probe")

    def test_a_pool_needs_no_labels_and_no_calibration_problem(
        self, rlcm: Rlcm, record: Record
    ) -> None:
        drawn, known = rollouts(np.random.default_rng(1), 140), fingerprint_of(IDENTITY)
        write_traces("t.parquet", [replace(one, group=one.problem_id) for one in drawn], known)
        others = rollouts(np.random.default_rng(3), 50, name="q")
        write_traces("pool.parquet", [unlabelled(one) for one in others], known)
        pooled = "--method holm --pool pool.parquet"
        assert rlcm(f"fit t.parquet --out pooled.json {pooled}")[0] in (0, NOTHING_CERTIFIED)
        write_traces("pool.parquet", drawn, known)  # the same ones, without their groups
        said = "140 problems or groups of --pool are calibration problems"
        check_refused(rlcm(f"{FIT} {pooled}"), said)

    def test_a_folder_without_a_probe_is_refused(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        check_refused(rlcm(f"{FIT} --probe nowhere"), "there is no folder nowhere: give the")
        check_refused(
            rlcm(f"{FIT} --probe ."), ". is not a probe's folder: it holds no config.json"
        )

    def test_one_level_of_several_is_enough(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        status, out, _ = rlcm("fit t.parquet --alpha 0.01 --alpha 0.4 --out c.json")
        assert status == 0
        assert out.startswith(
            "alpha 0.01: not certified. too few problems: the policy tested first"
        )
        assert [x.certified for x in Certificate.load("c.json").levels] == [False, True]

    @pytest.mark.parametrize("risk", ["selective", "error"])
    def test_all_wrong_is_a_result_with_a_status_of_its_own(
        self, rlcm: Rlcm, record: Record, risk: str
    ) -> None:
        record("t.parquet", right=0.0)
        status, out, err = rlcm(f"{FIT} --risk {risk}")
        assert (status, err) == (NOTHING_CERTIFIED, "")
        assert NOTHING_CERTIFIED == 3
        made = Certificate.load("c.json")
        assert not any(level.certified for level in made.levels)
        assert "risk too high" in out
        assert f"certificate {made.id} is in c.json" in out

    def test_all_correct_certifies(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet", right=1.0)
        for risk in ("selective", "error", "regret"):
            status, out, _ = rlcm(f"fit t.parquet --risk {risk} --out c.json")
            assert status == 0
            assert f"the {risk} risk is 0.000" in out

    def test_constant_confidence_gives_the_full_budget(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet", right=0.5, confidence=0.6)
        status, out, _ = rlcm("fit t.parquet --risk regret --alpha 0.1 --out c.json")
        assert status == 0
        assert "regret risk is 0.000, 0% of the tokens are saved" in out

    def test_without_a_fingerprint(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet", fingerprint=None)
        status, out, _ = rlcm(FIT)
        assert status == 0
        assert "not servable: the traces have no fingerprint" in out
        assert not Certificate.load("c.json").servable

    def test_a_folder_of_traces(self, rlcm: Rlcm, record: Record, tmp_path: Path) -> None:
        (tmp_path / "t.parquet").mkdir()
        record("t.parquet/a.parquet", 70)
        record("t.parquet/b.parquet", 70, seed=2, name="q")
        assert rlcm(FIT)[0] == 0
        assert Certificate.load("c.json").n_problems == 140

    def test_a_long_path_stays_on_one_line(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        long = "f" * 90 + "/c.json"
        _, out, _ = rlcm(f"fit t.parquet --out {long}")
        assert out.splitlines()[-1].endswith(f" is in {long}")


LOSSES = """
from calibration import Risk

def slow(outcomes):
    return outcomes.tokens_DT / outcomes.tokens_DT.max() / 2

def too_large(outcomes):
    return outcomes.tokens_DT

wrong = Risk.custom("wrong", lambda o: ~o.correct_DT, answers_always=True, binary=True)
five = 5
"""


class TestOwnLoss:
    @pytest.fixture(autouse=True)
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "own_losses.py").write_text(LOSSES)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "own_losses", raising=False)

    def test_from_end_to_end(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        record("new.parquet", seed=2, name="n")
        status, out, _ = rlcm(
            "fit t.parquet --risk time --loss own_losses:slow --alpha 0.7 --out c.json"
        )
        assert status == 0
        assert "the time risk is 0." in out
        assert Certificate.load("c.json").risk == "time"
        with_loss = "--loss own_losses:slow"
        assert rlcm(f"verify c.json t.parquet {with_loss}")[0] == 0
        status, out, _ = rlcm(f"replay c.json new.parquet {with_loss} --json")
        assert status == 0
        assert json.loads(out)["levels"][0]["realised_risk"] < 0.7
        for command in ("verify c.json t.parquet", "replay c.json new.parquet"):
            status, out, err = rlcm(command)
            assert (status, out) == (1, "")
            assert "bounds the custom loss 'time': give that loss" in err

    def test_is_called_by_its_name_if_none_is_given(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        assert rlcm("fit t.parquet --loss own_losses:slow --alpha 0.7 --out c.json")[0] == 0
        assert Certificate.load("c.json").risk == "slow"

    def test_may_be_a_risk(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        assert rlcm("fit t.parquet --loss own_losses:wrong --alpha 0.9 --out c.json")[0] == 0
        made = Certificate.load("c.json")
        assert (made.risk, made.p_value) == ("wrong", PValue.BINOMIAL)
        assert made.levels[0].policy.answer_on_low
        assert rlcm("verify c.json t.parquet --loss own_losses:wrong")[0] == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                "--loss nowhere:slow",
                "--loss is 'nowhere:slow' (No module named 'nowhere'): give mod",
            ),
            ("--loss own_losses:none", "has no attribute 'none'): give module:function"),
            ("--loss own_losses", "--loss is 'own_losses'"),
            ("--loss :slow", "--loss is ':slow' (Empty module name)"),
            ("--loss .own:slow", "--loss is '.own:slow'"),
            ("--loss own_losses:five", "--loss is 'own_losses:five', 5: give a function or a Risk"),
            ("--loss own_losses:too_large", "loss 'too_large' has the value"),
            (
                "--loss own_losses:slow --risk regret",
                "risk 'regret' is built in: give your loss an",
            ),
        ],
    )
    def test_that_cannot_be_used(
        self, rlcm: Rlcm, record: Record, options: str, message: str
    ) -> None:
        record("t.parquet")
        check_refused(rlcm(f"{FIT} {options}"), message)

    def test_where_none_is_needed(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        rlcm(FIT)
        for command in ("verify", "replay"):
            status, _, err = rlcm(f"{command} c.json t.parquet --loss own_losses:slow")
            assert status == 1
            assert "bounds the built-in risk 'selective': leave out --loss" in err


def test_nothing_is_lost_that_out_names(rlcm: Rlcm, record: Record, tmp_path: Path) -> None:
    """A pipe, a file behind a link, and a recording in the folder of the traces."""
    Path("traces").mkdir()
    record("traces/t.parquet")
    before = Path("traces/t.parquet").read_bytes()
    fit = FIT.replace("t.parquet", "traces").replace("c.json", "{}")
    check_refused(rlcm(fit.format("traces/t.parquet")), "is read here and would be lost")
    os.mkfifo("pipe")
    check_refused(rlcm(fit.format("pipe")), "is not a regular file: give a file")
    assert Path("pipe").is_fifo()
    Path("real.json").write_text("{}")
    Path("link.json").symlink_to("real.json")
    assert rlcm(fit.format("link.json"))[0] == 0
    assert Path("link.json").is_symlink()
    assert "rlcm-certificate" in Path("real.json").read_text()
    assert Path("traces/t.parquet").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("verify c.json --public-key k.pem --loss a:b", "--loss is a:b, and there are no traces"),
        ("verify c.json --public-key k.pem --probe p", "--probe is p, and there are no traces"),
        ("verify c.json --public-key k.pem --order o", "--order is o, and there are no traces"),
        ("replay c.json records --live --loss a:b", "and live answers have no labels"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(rlcm: Rlcm, command: str, message: str) -> None:
    check_refused(rlcm(command), message)


def check_refused(done: tuple[int, str, str], message: str) -> None:
    """One line, a status of 1, and nothing written."""
    status, out, err = done
    assert (status, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not Path("c.json").exists()
    assert not list(Path.cwd().glob("*.partial"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--alpha 1.5", "alpha is 1.5: give a rate between 0 and 1"),
        ("--alpha 0.2", "each only once"),
        ("--delta 0", "delta is 0.0: give a rate"),
        ("--token-price -1", "token_price is -1.0: give a share"),
        ("--risk regrets", "risk 'regrets' is unknown: give one of selective, error, regret"),
        ("--promise none", "promise 'none' is unknown: give one of simultaneous, pointwise"),
        ("--method best", "method 'best' is unknown: give one of auto, "),
        ("--p-value t", "p_value 't' is unknown: give one of auto, binomial"),
        ("--vote loud", "vote is 'loud': give one of confidence, majority"),
        ("--n 2", "problem 'p000' has 1 rollouts and the procedure takes 2 samples"),
        ("--draws 2", "draws is 2 with one sample"),
        ("--smoothing 1", "smoothing is 1.0: give 0 (none) up to, not including, 1"),
        ("--order t.parquet", "140 problems or groups are in both splits, 'problem p000' among"),
        ("--order other.parquet", "splits have different fingerprints"),
        ("--pool pool.parquet", "the method 'auto' has its own: give --method split, holm, bonf"),
        ("--pool t.parquet --method split", "140 problems or groups of --pool are calibration pr"),
        ("--order none.parquet", "none.parquet: no such file"),
        ("--average questions", "average 'questions' is unknown: give one of problems, groups"),
        ("--max-group-size 0", "max_group_size is 0: give a whole number of problems"),
    ],
)
def test_what_fit_refuses(rlcm: Rlcm, record: Record, options: str, message: str) -> None:
    record("t.parquet")
    record("pool.parquet", 30, name="q")
    other = replace(fingerprint_of(IDENTITY), model="m1")
    record("other.parquet", 30, name="o", fingerprint=other)
    check_refused(rlcm(f"{FIT} {options}"), message)


def test_too_few_problems(rlcm: Rlcm, record: Record) -> None:
    record("t.parquet", 10)
    check_refused(rlcm("fit t.parquet --out c.json"), "10 problems or groups to test on: alpha")
    check_refused(rlcm("fit t.parquet --out c.json"), "at least 16 even if no answer is wrong")


def test_an_older_certificate_survives_an_error(rlcm: Rlcm, record: Record) -> None:
    record("t.parquet")
    rlcm(FIT)
    before = Path("c.json").read_bytes()
    assert rlcm(f"{FIT} --alpha 7")[0] == 1
    assert Path("c.json").read_bytes() == before


def save_with_digest(plain: dict[str, Any]) -> None:
    content = {name: plain[name] for name in plain if name not in ("id", "digest")}
    digest = _digest(content)
    Path("c.json").write_text(json.dumps({**content, "id": digest[:12], "digest": digest}))


class TestVerify:
    @pytest.fixture
    def fitted(self, rlcm: Rlcm, record: Record) -> dict[str, Any]:
        """The certificate's JSON."""
        record("t.parquet")
        assert rlcm(f"{FIT} --alpha 0.01")[0] == 0
        plain: dict[str, Any] = json.loads(Path("c.json").read_text())
        return plain

    def test_nothing_differs(self, rlcm: Rlcm, fitted: dict[str, Any]) -> None:
        status, out, err = rlcm("verify c.json t.parquet")
        assert (status, err) == (0, "")
        assert out == f"certificate {fitted['id']}: no differences\n"

    def test_it_says_what_the_engine_must_compute_with(
        self, rlcm: Rlcm, fitted: dict[str, Any]
    ) -> None:
        made = Certificate.from_json(fitted)
        assert made.fingerprint is not None
        facts = replace(made.fingerprint, dtype="bfloat16", kv_cache_dtype="fp8", vllm="0.31")
        replace(made, fingerprint=facts).save(Path("c.json"))
        status, out, err = rlcm("verify c.json t.parquet")
        assert "holds for an engine with dtype bfloat16, kv_cache_dtype fp8 (and vllm 0.31" in out
        assert status == 1
        assert "dtype" in err

    def test_an_edit_by_hand(self, rlcm: Rlcm, fitted: dict[str, Any]) -> None:
        fitted["levels"][1]["alpha"] = 0.1
        Path("c.json").write_text(json.dumps(fitted))
        for command in ("verify c.json t.parquet", "replay c.json t.parquet"):
            status, out, err = rlcm(command)
            assert (status, out) == (1, "")
            assert "error: c.json: the content does not match its digest" in err
            assert "restore it, or fit again" in err

    def test_an_edit_with_a_digest_that_fits(self, rlcm: Rlcm, fitted: dict[str, Any]) -> None:
        fitted["levels"][2]["expected_tokens"] = 1.0
        save_with_digest(fitted)
        status, out, err = rlcm("verify c.json t.parquet")
        assert (status, err) == (DIFFERENT, "")
        (line,) = out.splitlines()
        assert line.startswith("differs: alpha 0.4: expected_tokens is 1.0 in the certificate, ")

    def test_an_edit_that_contradicts_the_rest(self, rlcm: Rlcm, fitted: dict[str, Any]) -> None:
        fitted["levels"][2]["p_value"] = 0.9
        save_with_digest(fitted)
        for command in ("verify", "replay"):
            status, out, err = rlcm(f"{command} c.json t.parquet")
            assert (status, out) == (1, "")
            assert "c.json: the certificate contradicts itself: levels[2].p_value is 0.9" in err

    def test_other_traces(self, rlcm: Rlcm, record: Record, fitted: dict[str, Any]) -> None:
        record("other.parquet", seed=2)
        status, out, _ = rlcm("verify c.json other.parquet")
        assert status == DIFFERENT == 1
        assert out.startswith("differs: calibration_digest is ")

    def test_an_unknown_version(self, rlcm: Rlcm, fitted: dict[str, Any]) -> None:
        Path("c.json").write_text(json.dumps({**fitted, "version": 99}))
        status, _, err = rlcm("verify c.json t.parquet")
        assert status == 1
        assert "c.json: certificate version 99 is unknown, this release reads 2" in err

    def test_with_the_traces_of_the_order(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        record("order.parquet", 60, name="o", seed=2)
        assert rlcm(f"{FIT} --order order.parquet --method split")[0] == 0
        status, out, _ = rlcm("verify c.json t.parquet --order order.parquet")
        assert (status, "not checked" in out) == (0, False)
        status, out, _ = rlcm("verify c.json t.parquet")
        assert status == 0
        assert "not checked: that the 60 problems which gave the order of the policies" in out
        assert rlcm("verify c.json t.parquet --order t.parquet")[0] == 1


class TestReplay:
    @pytest.fixture(autouse=True)
    def fitted(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        record("new.parquet", 200, seed=2, name="n")
        assert rlcm(f"{FIT} --alpha 0.01")[0] == 0

    def test_json(self, rlcm: Rlcm) -> None:
        status, out, err = rlcm("replay c.json new.parquet --json")
        assert (status, err) == (0, "")
        printed = json.loads(out)
        assert list(printed) == ["levels"]
        for level, alpha in zip(printed["levels"], (0.01, 0.2, 0.4), strict=True):
            assert level["alpha"] == alpha
            assert set(level) == {
                *("alpha", "certified", "reason", "realised_risk", "risk_interval"),
                *("tokens_share", "answered_share", "right_share", "tokens"),
                *("full_budget_tokens", "exits", "n_units", "n_draws"),
            }
        infeasible, _, certified = printed["levels"]
        assert infeasible["realised_risk"] is None
        assert infeasible["reason"].startswith("too few problems")
        low, high = certified["risk_interval"]
        assert 0 <= low < certified["realised_risk"] < high <= 1
        assert 0 < certified["tokens_share"] < 1
        assert 0 < certified["right_share"] < certified["answered_share"] <= 1
        assert certified["n_units"] == sum(certified["exits"].values()) == 200

    def test_in_words(self, rlcm: Rlcm) -> None:
        status, out, _ = rlcm("replay c.json new.parquet")
        assert status == 0
        first, second, third = out.splitlines()
        assert first.startswith("alpha 0.01: not certified. too few problems")
        for line, alpha in ((second, 0.2), (third, 0.4)):
            assert line.startswith(f"alpha {alpha}: realised risk 0.")
            assert line.endswith(" budget")

    def test_traces_of_another_recording(self, rlcm: Rlcm, record: Record) -> None:
        other = replace(fingerprint_of(IDENTITY), temperature=0.1)
        record("hot.parquet", fingerprint=other)
        record("unknown.parquet", fingerprint=None)
        for file, message in [
            (
                "hot",
                "temperature: 0.8 here, 0.1 there. Record the traces with the calibrated model",
            ),
            ("unknown", "only the certificate has a fingerprint"),
        ]:
            for command in ("replay", "verify"):
                status, out, err = rlcm(f"{command} c.json {file}.parquet")
                assert (status, out) == (1, "")
                assert message in err

    def test_fewer_rollouts_than_samples(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet", 100, per_problem=2)
        assert rlcm(f"{FIT} --n 2")[0] == 0
        status, _, err = rlcm("replay c.json new.parquet")
        assert status == 1
        assert "problem 'n000' has 1 rollouts and the procedure takes 2 samples" in err


class TestPlan:
    def test_a_forecast(self, rlcm: Rlcm, record: Record) -> None:
        record("pilot.parquet", 60)
        status, out, _ = rlcm("plan pilot.parquet --risk regret --alpha 0.3 --promise pointwise")
        assert status == 0
        assert "regret risk, forecast from 60 problems or groups" in out
        (level,) = (line for line in out.splitlines() if "alpha 0.3: about " in line)
        assert "; no test of fewer than 7 can;" in level

    def test_json(self, rlcm: Rlcm, record: Record) -> None:
        record("pilot.parquet", 60)
        status, out, _ = rlcm("plan pilot.parquet --risk regret --alpha 0.3 --json")
        assert status == 0
        printed = json.loads(out)
        assert (printed["risk"], printed["n_pilot"], printed["fewest"]) == (
            "regret",
            60,
            {"0.3": 7},
        )
        certified = [forecast["certified"] for forecast in printed["forecasts"]]
        assert certified[-1] == 1
        assert {forecast["alpha"] for forecast in printed["forecasts"]} == {0.3}

    def test_other_promises_take_more_problems(self, rlcm: Rlcm, record: Record) -> None:
        record("pilot.parquet", 60)
        asked = "plan pilot.parquet --risk regret --alpha 0.3 --promise pointwise"
        status, out, _ = rlcm(f"{asked} --bound declined=0.5 --next 100")
        assert status == 0
        (level,) = (line for line in out.splitlines() if "alpha 0.3: about " in line)
        assert level.endswith("; no test of fewer than 8 can"), "delta is 4/6 of 0.1"

    def test_kinds(self, rlcm: Rlcm, record: Record) -> None:
        record("pilot.parquet", 60)
        table = pq.read_table("pilot.parquet")
        topics = [
            "even" if int(id_[1:]) % 2 == 0 else "odd" for id_ in table["problem_id"].to_pylist()
        ]
        pq.write_table(table.append_column("topic", pa.array(topics)), "pilot.parquet")
        status, out, _ = rlcm("plan pilot.parquet --by topic --risk regret --alpha 0.3")
        assert status == 0
        assert "kind 'odd', forecast from 30 problems or groups:" in out
        assert "a kind has a certificate of its own from 20 labelled problems on" in out
        (level,) = (line for line in out.splitlines() if line.endswith("at once in fewer"))
        assert (
            "problems of all kinds, drawn with the pilot's shares, certify each kind tak" in level
        )
        assert "no forecast" not in out

    def test_kinds_of_few_problems(self, rlcm: Rlcm, record: Record) -> None:
        record("pilot.parquet", 60)
        table = pq.read_table("pilot.parquet")
        ids = table["problem_id"].to_pylist()
        topics = ["rare" if id_ < "p010" else "frequent" for id_ in ids]
        pq.write_table(table.append_column("topic", pa.array(topics)), "pilot.parquet")
        status, out, _ = rlcm("plan pilot.parquet --by topic --risk regret --alpha 0.3")
        assert status == 0
        assert "kind 'frequent', forecast from 50 problems or groups:" in out
        assert "no forecast, because the pilot has too few problems: 'rare'\n" in out
        assert "certify each of the kinds forecast taken alone in 9 of 10 cases" in out

    def test_what_it_refuses(self, rlcm: Rlcm, record: Record) -> None:
        record("pilot.parquet", 20)
        for options, message in [
            ("--by topic", "there is no column 'topic'"),
            ("--by kind", "no problem has a kind in the column 'kind'"),
            ("--by problem_id", "at most 1 problems or groups of one kind in the column 'problem"),
            ("--bound much", "'much' cannot be bounded beside the levels"),
            (
                "--next 9 --design d.json",
                "--next cannot be combined with --design: every addition would",
            ),
            (
                "--by kind --design d.json",
                "--by cannot be combined with --design: the kinds divide delta",
            ),
            ("--alpha 2", "alpha is 2.0: give a rate"),
            ("--delta 1", "delta is 1.0: give a rate"),
            ("--risk none", "risk 'none' is unknown"),
            ("--promise none", "promise 'none' is unknown: give one of simultaneous, pointwise"),
            ("--n 2", "problem 'p000' has 1 rollouts"),
        ]:
            status, out, err = rlcm(f"plan pilot.parquet {options}")
            assert (status, out) == (1, "")
            assert message in err


class TestReport:
    @pytest.mark.slow
    def test_a_page(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        record("new.parquet", 80, seed=2, name="n")
        assert rlcm(FIT)[0] == 0
        status, out, err = rlcm("report c.json t.parquet --test new.parquet --out page")
        assert (status, out, err) == (0, "page/report.html\n", "")
        assert Certificate.load("c.json").id in Path("page/report.html").read_text()

    def test_of_other_traces(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        record("new.parquet", 80, seed=2, name="n")
        rlcm(FIT)
        status, _, err = rlcm("report c.json new.parquet --out page")
        assert status == 1
        assert "are not those that certificate" in err
        assert not Path("page").exists()


@pytest.mark.slow
def test_the_installed_command(record: Record, tmp_path: Path) -> None:
    """With a loss in the folder it is called from."""
    record("t.parquet")
    (tmp_path / "my_losses.py").write_text(LOSSES)
    loss = ["--risk", "time", "--loss", "my_losses:slow"]
    fit = [RLCM, "fit", "t.parquet", *loss, "--alpha", "0.7", "--out", "c.json"]
    run: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120}
    lost = subprocess.run(fit, check=False, **run)
    assert lost.returncode == 1
    assert "No module named 'my_losses'" in lost.stderr
    assert "PYTHONPATH=." in lost.stderr
    done = subprocess.run(fit, check=False, env={**os.environ, "PYTHONPATH": "."}, **run)
    assert done.returncode == 0, done.stderr
    assert Certificate.load(tmp_path / "c.json").risk == "time"


class TestReportData:
    def test_lies_beside_its_certificate_unless_told_otherwise(
        self, rlcm: Rlcm, record: Record
    ) -> None:
        path, test = record("t.parquet"), record("test.parquet", 40, seed=2, name="q")
        assert rlcm(FIT)[0] == 0
        status, out, err = rlcm("report-data c.json t.parquet")
        assert (status, out.strip(), err) == (0, "reports/c.json", "")
        certificate, traces = Certificate.load("c.json"), read_traces(path)
        assert ReportData.load(Path("reports/c.json")) == build_report_data(certificate, traces)
        assert rlcm("exhibit c.json t.parquet")[:2] == (0, "reports/c.json\n")
        for read in ("c.json", "t.parquet"):
            held = Path(read).read_bytes()
            status, _, err = rlcm(f"report-data c.json t.parquet --out {read}")
            assert (status, Path(read).read_bytes()) == (1, held)
            assert "which is read here and would be lost" in err
        status, out, _ = rlcm("report-data c.json t.parquet --test test.parquet --out e/x.json")
        assert (status, out.strip()) == (0, "e/x.json")
        made = ReportData.load(Path("e/x.json"))
        assert made == build_report_data(certificate, traces, read_traces(test))
        assert made.test is not None

    def test_of_other_traces_is_refused(self, rlcm: Rlcm, record: Record) -> None:
        record("t.parquet")
        record("other.parquet", seed=3)
        assert rlcm(FIT)[0] == 0
        status, out, err = rlcm("report-data c.json other.parquet")
        assert (status, out) == (1, "")
        assert "are not those that certificate" in err
        assert not Path("reports").exists()
