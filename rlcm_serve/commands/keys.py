"""`rlcm keys`: who may use a service, and who vouches for certificates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from rlcm_serve.commands import signing
from rlcm_serve.commands.options import JsonOption
from rlcm_serve.commands.settings_options import ConfigOption
from rlcm_serve.settings import load_settings
from rlcm_serve.terminal import print_result

if TYPE_CHECKING:
    from rlcm_serve.store.keys import KeyRecord, Keys

keys = typer.Typer(
    name="keys",
    help="Create, list and revoke API keys. Create signing keys, and sign certificates.\n\n"
    "Example: rlcm keys new --name alice --scope solve",
    no_args_is_help=True,
)
keys.command(rich_help_panel=signing.PANEL)(signing.new_signing_key)
keys.command(rich_help_panel=signing.PANEL)(signing.sign)
API_KEYS = "API keys (for callers of the service)"
StateOption = Annotated[
    Path | None, typer.Option("--state", help="The service's state folder, if it has its own.")
]
DatabaseOption = Annotated[
    str | None, typer.Option("--database", help="The service's database URL, if it has its own.")
]


@keys.command(rich_help_panel=API_KEYS)
def new(
    name: Annotated[str, typer.Option(help="Name of the key's owner.")],
    scope: Annotated[
        list[str],
        typer.Option(help="solve, label, metrics, or admin (which includes all); may be repeated."),
    ],
    max_n: Annotated[
        int | None, typer.Option(help="Maximum number of samples per question.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Maximum thinking budget of one sample, in tokens.")
    ] = None,
    max_body_bytes: Annotated[
        int | None, typer.Option(help="Maximum size of a request body, in bytes.")
    ] = None,
    timeout_s: Annotated[
        float | None, typer.Option(help="Maximum time for one question, in seconds.")
    ] = None,
    max_running: Annotated[
        int | None, typer.Option(help="Maximum number of questions at the same time.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(help="Maximum number of requests that begin in a minute.")
    ] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(help="Maximum number of tokens in a minute, prompts included.")
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="Weight of the key when the service is busy. Default: 1.")
    ] = None,
    cache_group: Annotated[
        str | None, typer.Option(help="Name of the group of keys that share cached prefixes.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    state: StateOption = None,
    database: DatabaseOption = None,
) -> None:
    """Create a key and print it once. Only its digest is stored."""
    from rlcm_serve.store.caller import Limits, scopes_of

    limits = Limits(
        max_n,
        max_tokens,
        max_body_bytes,
        timeout_s,
        max_running,
        requests_per_minute,
        tokens_per_minute,
        weight,
    )
    with _opened(config, state, database, may_be_new=True) as opened:
        text, record = opened.create(name, scopes_of(scope), limits, cache_group)
    print_result({"key": text, **_as_json(record)}, text, as_json=as_json)
    Console(stderr=True).print(
        f"Key {record.id} of {record.name!r}. It cannot be shown again: keep it now. Requests "
        "carry it as `Authorization: Bearer KEY`.",
        markup=False,
        highlight=False,
    )


@keys.command(name="list", rich_help_panel=API_KEYS)
def list_keys(
    as_json: JsonOption = False,
    config: ConfigOption = None,
    state: StateOption = None,
    database: DatabaseOption = None,
) -> None:
    """List all keys, without their secrets."""
    with _opened(config, state, database) as opened:
        records = [_as_json(record) for record in opened.all()]
    if as_json:
        typer.echo(json.dumps(records, indent=2))
        return
    moments = [Column(name, no_wrap=True) for name in ("created", "last used", "revoked")]
    texts = [Column(name, overflow="fold") for name in ("name", "scopes", "limits")]
    table = Table(Column("id", no_wrap=True), *texts, *moments, box=None, pad_edge=False)
    for record in records:
        limits = ", ".join(f"{name} {value:.12g}" for name, value in record["limits"].items())
        table.add_row(
            record["id"],
            record["name"],
            " ".join(record["scopes"]),
            limits,
            *((record[moment] or "")[:10] for moment in ("created", "last_used", "revoked")),
        )
    Console(markup=False, highlight=False).print(table)


@keys.command(rich_help_panel=API_KEYS)
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, from `rlcm keys list`.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
    state: StateOption = None,
    database: DatabaseOption = None,
) -> None:
    """Revoke a key. A running service applies this within a second."""
    with _opened(config, state, database) as opened:
        record = opened.revoke(key_id)
    words = f"key {record.id} of {record.name!r} is revoked"
    print_result(_as_json(record), words, as_json=as_json)


@contextmanager
def _opened(
    config: Path | None, state: Path | None, database: str | None, *, may_be_new: bool = False
) -> Iterator[Keys]:
    from rlcm_serve.store.connection.engines import parse_url
    from rlcm_serve.store.database import Database
    from rlcm_serve.store.keys import Keys
    from rlcm_serve.store.upkeep.check import require_file

    settings = load_settings({"state": state, "database": database}, config).settings
    url = parse_url(settings.database_url)
    if not may_be_new and url.get_backend_name() == "sqlite":
        require_file(Path(str(url.database)))
    with closing(Database(settings.database_url, settings.database_wait_s)) as opened:
        yield Keys(opened)


def _as_json(record: KeyRecord) -> dict[str, Any]:
    limits = {name: value for name, value in asdict(record.limits).items() if value is not None}
    return {
        "id": record.id,
        "name": record.name,
        "scopes": sorted(record.scopes),
        "limits": limits,
        "created": record.created.isoformat(timespec="seconds"),
        "last_used": record.last_used.isoformat() if record.last_used else None,
        "revoked": record.revoked.isoformat(timespec="seconds") if record.revoked else None,
    }
