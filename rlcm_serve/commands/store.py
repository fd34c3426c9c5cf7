"""`rlcm store`: checks, backs up and restores the service's database."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rlcm_serve.commands.keys import DatabaseOption, StateOption
from rlcm_serve.commands.options import JsonOption
from rlcm_serve.commands.settings_options import ConfigOption
from rlcm_serve.settings import load_settings
from rlcm_serve.terminal import print_result

store = typer.Typer(
    name="store",
    help="Check, back up and restore the database.\n\nExample: rlcm store backup rlcm-backup.db",
    no_args_is_help=True,
)


@store.command()
def check(
    as_json: JsonOption = False,
    config: ConfigOption = None,
    state: StateOption = None,
    database: DatabaseOption = None,
) -> None:
    """Check the database: damage, version, references, and the number of rows.

    The service may run. The exit status is 1 if something is wrong.
    """
    from rlcm_serve.store.upkeep.check import check_file

    file = _file(config, state, database, "pg_amcheck")
    found = check_file(file)
    if as_json:
        typer.echo(json.dumps({"file": str(file)} | asdict(found), indent=2))
    else:
        table = Table("table", "rows", box=None)
        for name, rows in found.rows.items():
            table.add_row(name, str(rows))
        Console().print(table)
        for fault in found.faults:
            typer.echo(fault)
        typer.echo(f"{file}: {'no faults' if not found.faults else f'{len(found.faults)} faults'}")
    raise typer.Exit(1 if found.faults else 0)


@store.command()
def backup(
    to: Annotated[Path, typer.Argument(help="File to write; it must not exist.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
    state: StateOption = None,
    database: DatabaseOption = None,
) -> None:
    """Write a copy of the database. The service may run.

    The copy has digests of keys, labelled problems and recordings: keep it as safe as the original.
    """
    from rlcm_serve.store.upkeep.copies import back_up

    file = _file(config, state, database, "pg_dump")
    back_up(file, to)
    print_result({"file": file, "backup": to}, f"wrote {to}", as_json=as_json)


@store.command()
def restore(
    backup: Annotated[Path, typer.Argument(help="Copy that `rlcm store backup` wrote.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
    state: StateOption = None,
    database: DatabaseOption = None,
) -> None:
    """Put a backup in the database's place. Stop the service first.

    The backup is checked before anything changes. The old file is kept beside the new one.
    """
    from rlcm_serve.store.upkeep.copies import restore

    file = _file(config, state, database, "pg_restore")
    kept = restore(backup, file)
    words = f"{file} is restored from {backup}"
    if kept is not None:
        words += f"\nthe database that was there is kept as {kept}"
    print_result({"file": file, "backup": backup, "kept": kept}, words, as_json=as_json)


def _file(config: Path | None, state: Path | None, database: str | None, of_postgres: str) -> Path:
    from rlcm_serve.errors import DatabaseRefused
    from rlcm_serve.store.connection.engines import parse_url

    settings = load_settings({"state": state, "database": database}, config).settings
    url = parse_url(settings.database_url)
    if url.get_backend_name() != "sqlite":
        raise DatabaseRefused(
            f"the database is PostgreSQL, which has its own tools: use {of_postgres}"
        )
    return Path(str(url.database))
