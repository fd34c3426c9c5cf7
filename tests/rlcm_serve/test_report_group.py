"""`rlcm report`, to which an entry point `report.NAME` adds a page."""

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from calibration import CertificateError
from rlcm_serve import cli
from training.commands import examples

OTHER = EntryPoint("report.other", "training.commands:examples", "rlcm.commands")


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command line where a package with this entry point is installed."""
    plain = EntryPoint("examples", "training.commands:examples", "rlcm.commands")
    monkeypatch.setattr(cli, "entry_points", lambda group: [plain, OTHER])
    return cli.build_app()


def test_the_command_of_an_entry_point_runs(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["report", "other", "--count", "1", "--jsonl"])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("\n") == 1


def test_help_names_both_reports(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["report", "--help"])
    assert done.exit_code == 0
    assert "rlcm report certificate.json traces.parquet --out report" in done.stdout
    assert " certificate " in done.stdout
    assert " other " in done.stdout


@pytest.mark.parametrize(
    "told",
    [
        ["c.json", "t.parquet", "--out", "page"],
        ["--out", "page", "c.json", "t.parquet"],
        ["certificate", "c.json", "t.parquet", "--out", "page"],
    ],
)
def test_other_words_are_a_certificate_as_ever(app: typer.Typer, told: list[str]) -> None:
    done = CliRunner().invoke(app, ["report", *told])
    assert isinstance(done.exception, CertificateError)
    assert str(done.exception).startswith("there is no certificate c.json: ")


def test_without_words_the_certificate_is_missed(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["report"])
    assert done.exit_code == 2
    assert "Missing argument" in done.output


def test_other_commands_stay_where_they_were(app: typer.Typer) -> None:
    assert examples in [command.callback for command in app.registered_commands]
    assert [command.name for command in app.registered_commands].count("other") == 0
    assert len(cli.build_app().registered_groups) == len(app.registered_groups)
