"""What commands print: tables on a narrow terminal, JSON on request, errors on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from rich.console import Console
from typer.main import get_command

from calibration import write_traces
from calibration.certificate.plan import Forecast, Plan
from rlcm_serve.api.wire.monitoring.feedback import AuditItem
from rlcm_serve.cli import build_app
from rlcm_serve.commands.calling.feedback import waiting_table
from rlcm_serve.commands.certificates.plan import print_plan
from rlcm_serve.commands.doctor import print_findings
from rlcm_serve.engine.diagnosis.findings import Findings
from rlcm_serve.evaluation.compare import compare, to_text
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.commands.test_certificates import rollouts
from tests.rlcm_serve.evaluation.measured import measured_run
from tests.rlcm_serve.scripted_engine import IDENTITY

WITHOUT_JSON = {
    "serve": "it runs until it is stopped",
    "ray serve": "it runs until it is stopped",
    "vllm-args": "it prints words for another command line",
    "examples": "it has --jsonl",
    "report certificate": "it prints the path of its page",
    "report-data": "it prints the path of the JSON that it writes",
    "exhibit": "the old name of report-data",
    "push": "it prints an address",
    "train sft": "its output is a folder",
    "train rl": "its output is a folder",
    "train export": "its output is a folder",
    "train verl run": "its output is a folder",
    "train verl export": "its output is a folder",
}
TABLES: dict[str, Callable[[Path], str]] = {
    "keys": lambda state: f"keys list --state {state}",
    "config": lambda state: f"config --state {state}",
    "store": lambda state: f"store check --state {state}",
}


FACTS = fingerprint_of(IDENTITY)


def pilot(state: Path) -> Path:
    """Traces of a pilot in a folder."""
    path = state / "pilot.parquet"
    write_traces(path, rollouts(np.random.default_rng(1), 60), FACTS)
    return path


def commands(
    group: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command of the command line, by its words."""
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))
    if not hasattr(group, "commands"):
        yield " ".join(words), group


def test_every_command_that_prints_results_prints_them_as_json_on_request() -> None:
    found = dict(commands(get_command(build_app())))
    assert len(found) > 40
    has_json = {
        name
        for name, command in found.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    assert set(found) - has_json == set(WITHOUT_JSON)


@pytest.fixture
def state(tmp_path: Path, rlcm: Rlcm) -> Path:
    """A folder with keys of long names and all limits."""
    for name in ("a-client-with-quite-a-long-name-for-a-terminal", "other"):
        status, _, _ = rlcm(
            f"keys new --name {name} --scope solve --scope metrics --state {tmp_path} "
            "--requests-per-minute 100000 --tokens-per-minute 5000000 --max-running 32"
        )
        assert status == 0
    return tmp_path


@pytest.mark.parametrize("command", TABLES)
def test_tables_fit_eighty_columns(
    command: str, state: Path, rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = rlcm(TABLES[command](state))
    lines = [line for line in out.splitlines() if str(state) not in line]  # paths are never folded
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
    assert "…" not in out  # nothing is cut off


def test_ids_and_days_of_keys_are_not_broken(
    state: Path, rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = rlcm(f"keys list --state {state}")
    _, told, _ = rlcm(f"keys list --state {state} --json")
    for key in json.loads(told):
        assert key["id"] in out
        assert key["created"][:10] in out


def test_a_forecast_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    forecasts = tuple(Forecast(n, 0.0125, 1, 0, 1, 1) for n in (100, 20_000, 1_000_000))
    enough: dict[float, int | None] = {0.0125: None}
    print_plan(Plan("a-loss-of-one's-own", 12_345, forecasts, enough, {0.0125: 1842}, {}, 0.5))
    table, sentences, _ = capsys.readouterr().out.partition("\nalpha 0.0125: ")
    assert sentences
    assert table.count("0.0125") == 3
    assert "answered and right" in table
    assert max(map(len, table.splitlines())) <= 80


def test_findings_of_a_model_fit_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    findings = Findings()
    findings.fine("model", f"Qwen3ForCausalLM in /{'a-folder/' * 20}")
    findings.note("speculative decoding", "not possible: " + "why " * 30, "needs " * 30)
    print_findings(findings)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "speculative decoding" in out
    assert "".join(out.split()).count("a-folder/") == 20


@pytest.mark.parametrize("full", ["12", None])
def test_answers_that_wait_for_a_label_fit_eighty_columns_with_whole_ids(full: str | None) -> None:
    question = "A shelf [b]has[/b] 14 books. " * 9
    differs = None if full is None else True
    given = AuditItem.example(
        question=question, full_budget_answer=full, full_budget_differs=differs
    )
    other = AuditItem.example(
        question=None, answer=None, alpha=None, full_budget_answer=None, full_budget_differs=None
    )
    console = Console(width=80)
    with console.capture() as captured:
        console.print(waiting_table([given, other]))
    out = captured.get()
    assert out.count(given["id"]) == 2
    assert out.count("14 books.") == 9
    assert "[b]has[/b]" in out
    assert ("full budget" in out) is (full is not None)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("differs", "said"),
    [(True, "another answer; under regret also send full_budget_right"), (False, "the same")],
)
def test_without_texts_a_waiting_answer_says_whether_the_full_budget_differs(
    differs: bool, said: str
) -> None:
    given = AuditItem.example(
        question=None, answer=None, full_budget_answer=None, full_budget_differs=differs
    )
    console = Console(width=80)
    with console.capture() as captured:
        console.print(waiting_table([given]))
    (line,) = (line for line in captured.get().splitlines() if line.startswith("full budget"))
    assert line.removeprefix("full budget").strip() == said


def test_a_comparison_fits_eighty_columns() -> None:
    runs = [
        measured_run(name, seed, ("math500", "aime24"), n_problems=40, n_rollouts=2)
        for seed, name in enumerate(("warm", "cool", "a-run-with-a-long-name"))
    ]
    console = Console(width=80, record=True)
    with console.capture() as captured:
        console.print(to_text(compare(runs)))  # type: ignore[arg-type]
    text = captured.get()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert " to " in text


JSON = {
    "keys list --state {state}": list,
    "config --state {state}": dict,
    "store check --state {state}": dict,
    "aggregate {rollouts} --out {state}/votes.jsonl": dict,
    "keys new --name one --scope solve --state {state}": dict,
    "keys new-signing-key --out {state}/signing.pem": dict,
    "store backup {state}/copy.db --state {state}": dict,
    "fit {pilot} --risk regret --alpha 0.9 --out {state}/c.json": dict,
}


@pytest.mark.parametrize("command", JSON)
def test_json_on_request_is_all_there_is_on_stdout(command: str, state: Path, rlcm: Rlcm) -> None:
    file = state / "rollouts.jsonl"
    row = {"problem_id": "p", "answer": "7", "confidence": 0.5, "reference": "7"}
    file.write_text(json.dumps(row) + "\n")
    files = {"state": state, "rollouts": file, "pilot": pilot(state)}
    status, out, err = rlcm(command.format(**files) + " --json")
    assert status == 0, err
    assert isinstance(json.loads(out), JSON[command])


@pytest.mark.parametrize(
    "command", ["compare one", "verify none.json", "report none.json traces --out o", "plan none"]
)
def test_errors_are_on_stderr(command: str, rlcm: Rlcm) -> None:
    status, out, err = rlcm(command)
    assert status != 0
    assert out == ""
    assert err.strip()
