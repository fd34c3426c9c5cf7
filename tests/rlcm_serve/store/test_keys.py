import asyncio
import hashlib
import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rlcm_serve.errors import AccessDenied, NotFound, NotReady, RequestRefused
from rlcm_serve.store.caller import ANYONE, STRANGER, Caller, Limits, Scope, scopes_of
from rlcm_serve.store.database import Database
from rlcm_serve.store.key_table import KeyRecord
from rlcm_serve.store.keys import FRESH, PAUSE, Keys
from tests.rlcm_serve.command_line import Rlcm

SOLVE = frozenset({Scope.SOLVE})
LIMITS = Limits(
    max_n=4,
    max_tokens=512,
    max_body_bytes=2**40,
    timeout_s=1.5,
    max_running=2,
    requests_per_minute=60,
    tokens_per_minute=2**40,
    weight=0.5,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path}/rlcm.db")
    yield opened
    opened.close()


class Clock:
    """Runs a microsecond whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


class CountingKeys(Keys):
    """Counts how often everything is read, and can be kept waiting for it."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        super().__init__(database, clock)
        self.readings = 0
        self.may_read = threading.Event()
        self.may_read.set()
        self.is_broken = False

    def all(self) -> list[KeyRecord]:
        self.readings += 1
        assert self.may_read.wait(10)
        if self.is_broken:
            raise OSError("the disk is gone")
        return super().all()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(database: Database, clock: Clock) -> CountingKeys:
    return CountingKeys(database, clock)


async def test_a_key_is_its_owners(keys: Keys) -> None:
    text, record = keys.create("  a team ", [Scope.SOLVE], LIMITS, "teams")
    assert re.fullmatch(r"rlcm_[0-9a-f]{8}_[0-9a-f]{64}", text)
    assert record.name == "a team"
    assert await keys.caller_of(text) == Caller(record.id, SOLVE, LIMITS, "teams")
    assert keys.all() == [replace(record, last_used=keys.all()[0].last_used)]


def test_the_database_holds_no_key(tmp_path: Path, keys: Keys) -> None:
    text, record = keys.create("team", [Scope.ADMIN])
    secret = text.rpartition("_")[2]
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert record.id.encode() in held
    assert record.digest == hashlib.sha256(secret.encode()).hexdigest()
    for part in (secret, bytes.fromhex(secret), secret[:16], secret[-16:]):
        assert (part if isinstance(part, bytes) else part.encode()) not in held


def test_no_two_keys_are_alike(keys: Keys) -> None:
    texts = {keys.create("team", [Scope.SOLVE])[0] for _ in range(20)}
    assert len({text.split("_")[2] for text in texts}) == 20


async def test_an_unknown_key_is_denied(keys: CountingKeys) -> None:
    text, record = keys.create("team", [Scope.SOLVE])
    other, _ = keys.create("other", [Scope.SOLVE])
    wrong = [
        "",
        "rlcm",
        text[:-1],
        text + "0",
        text.upper(),
        f" {text}",
        f"{text}\n",
        f"rlcm_{record.id}_{other.split('_')[2]}",
        f"rlcm_00000000_{text.split('_')[2]}",
        f"rlcm_{record.id}_{record.digest}",
        record.digest,
    ]
    for shown in wrong:
        with pytest.raises(AccessDenied, match="not valid: it may be mistyped or revoked") as error:
            await keys.caller_of(shown)
        assert not error.value.known
        assert "`rlcm keys new`" in str(error.value)
        assert len(shown) < 10 or shown not in str(error.value)


async def test_digests_are_compared_in_constant_time(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    text, record = keys.create("team", [Scope.SOLVE])
    await keys.caller_of(text)
    assert compared == [(record.digest, record.digest)]
    for shown in ("nothing", f"rlcm_00000000_{'0' * 64}"):
        with pytest.raises(AccessDenied):
            await keys.caller_of(shown)
    assert len(compared) == 3, "also where there is nothing to compare with"
    assert all(len(one) == len(other) == 64 for one, other in compared)


async def test_a_revoked_key_is_denied_once_what_is_known_is_old(
    keys: CountingKeys, clock: Clock
) -> None:
    text, record = keys.create("team", [Scope.SOLVE])
    await keys.caller_of(text)
    revoked = keys.revoke(record.id)
    assert revoked.revoked is not None
    clock.now += FRESH + 0.1
    with pytest.raises(AccessDenied, match="revoked"):
        await keys.caller_of(text)
    assert keys.revoke(record.id).revoked == revoked.revoked, "the first time counts"


async def test_a_new_key_opens_at_once(keys: CountingKeys) -> None:
    first, _ = keys.create("first", [Scope.SOLVE])
    await keys.caller_of(first)
    second, record = keys.create("second", [Scope.SOLVE])
    assert (await keys.caller_of(second)).key_id == record.id


async def test_a_known_key_is_looked_up_once_in_a_while(keys: CountingKeys, clock: Clock) -> None:
    text, _ = keys.create("team", [Scope.SOLVE])
    for _ in range(10):
        await keys.caller_of(text)
        clock.now += FRESH / 10
    assert keys.readings == 1
    clock.now += FRESH
    await asyncio.gather(*(keys.caller_of(text) for _ in range(50)))
    assert keys.readings == 2, "those who come while it is read share what is read"


async def test_guessing_does_not_read_the_database_over_and_over(database: Database) -> None:
    keys = CountingKeys(database, time.monotonic)
    guesses = [f"rlcm_{number:08x}_{'0' * 64}" for number in range(200)]
    began = asyncio.get_running_loop().time()
    found = await asyncio.gather(*map(keys.caller_of, guesses), return_exceptions=True)
    assert all(isinstance(one, AccessDenied) for one in found)
    lasted = asyncio.get_running_loop().time() - began
    assert keys.readings <= 2 + lasted / PAUSE


async def test_nobody_is_held_up_while_keys_are_read(keys: CountingKeys) -> None:
    text, _ = keys.create("team", [Scope.SOLVE])
    keys.may_read.clear()
    asking = asyncio.create_task(keys.caller_of(text))
    for _ in range(1000):  # the loop turns on
        await asyncio.sleep(0)
    assert not asking.done()
    keys.may_read.set()
    assert (await asking).scopes == SOLVE


async def test_a_request_that_gives_up_waiting_takes_nobody_with_it(keys: CountingKeys) -> None:
    text, _ = keys.create("team", [Scope.SOLVE])
    keys.may_read.clear()
    first, second = (asyncio.create_task(keys.caller_of(text)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    keys.may_read.set()
    assert (await second).scopes == SOLVE


async def test_a_database_out_of_reach_is_no_wrong_key(
    keys: CountingKeys, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    text, _ = keys.create("team", [Scope.SOLVE])
    await keys.caller_of(text)
    keys.is_broken = True
    await keys.caller_of(text)
    clock.now += FRESH + 0.1
    with pytest.raises(NotReady, match="database of keys cannot be read"):
        await keys.caller_of(text)
    assert "the disk is gone" in caplog.text
    keys.is_broken = False
    assert (await keys.caller_of(text)).scopes == SOLVE


async def test_a_database_that_does_not_answer_holds_a_request_up_only_so_long(
    keys: CountingKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do the requests that waited for the same read try again one after the other."""
    monkeypatch.setattr("rlcm_serve.store.keys.READ_WITHIN", 0.3)
    text, _ = keys.create("team", [Scope.SOLVE])
    keys.may_read.clear()
    began = asyncio.get_running_loop().time()
    found = await asyncio.gather(*(keys.caller_of(text) for _ in range(20)), return_exceptions=True)
    assert {type(one) for one in found} == {NotReady}
    assert asyncio.get_running_loop().time() - began < 5
    keys.may_read.set()
    assert (await keys.caller_of(text)).scopes == SOLVE


async def test_the_day_of_use_is_written_once(
    database: Database, keys: CountingKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, record = keys.create("team", [Scope.SOLVE])
    written: list[object] = []
    write = Keys._write_use
    monkeypatch.setattr(Keys, "_write_use", lambda *what: (written.append(what[1:]), write(*what)))
    today = datetime.now(UTC).date()
    for _ in range(5):
        await keys.caller_of(text)
    await keys.close()
    assert keys.all()[0].last_used == today
    again = Keys(database)  # another process, the same day
    await again.caller_of(text)
    await again.close()
    assert written == [(record.id, today)]


async def test_a_use_that_cannot_be_written_stops_nobody(
    keys: Keys, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*what: object) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(Keys, "_write_use", fail)
    text, _ = keys.create("team", [Scope.SOLVE])
    assert (await keys.caller_of(text)).scopes == SOLVE
    await keys.close()
    assert "could not be recorded" in caplog.text
    assert text not in caplog.text


def test_scopes() -> None:
    assert Caller("k", frozenset({Scope.SOLVE})).may(Scope.SOLVE)
    assert not Caller("k", frozenset({Scope.SOLVE})).may(Scope.ADMIN)
    assert Caller("k", frozenset({Scope.ADMIN})).may(Scope.SOLVE)
    assert all(ANYONE.may(scope) for scope in Scope)
    assert not any(STRANGER.may(scope) for scope in Scope)
    assert scopes_of(["solve", "admin", "metrics", "label", "solve"]) == frozenset(Scope)
    with pytest.raises(
        RequestRefused, match="the scope is 'root': give solve, label, metrics, admin"
    ):
        scopes_of(["solve", "root"])


@pytest.mark.parametrize("name", ["max_n", "max_tokens", "max_body_bytes", "timeout_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_of_nothing_is_refused(name: str, value: float) -> None:
    with pytest.raises(RequestRefused, match=f"{name} is {value}: give more than 0") as refused:
        Limits(**{name: value})
    assert refused.value.field == name


@pytest.mark.parametrize(
    ("name", "most"), [("max_n", 2**31 - 1), ("max_tokens", 2**63 - 1), ("max_running", 2**31 - 1)]
)
def test_a_limit_that_no_column_holds_is_refused(name: str, most: int) -> None:
    Limits(**{name: most})
    with pytest.raises(RequestRefused, match=f"{name} is {most + 1}: give at most {most}"):
        Limits(**{name: most + 1})


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_a_key_needs_a_name(keys: Keys, name: str) -> None:
    with pytest.raises(RequestRefused, match="say whose key it is in 1 to 200 letters"):
        keys.create(name, [Scope.SOLVE])
    with pytest.raises(RequestRefused, match="no scope is given: solve, label, metrics, admin"):
        keys.create("team", [])
    assert keys.all() == []


def test_only_a_valid_key_opens_the_service(keys: Keys) -> None:
    assert not keys.any_active()
    _, record = keys.create("team", [Scope.SOLVE])
    assert keys.any_active()
    keys.revoke(record.id)
    assert not keys.any_active()


def test_revoking_an_unknown_key(keys: Keys) -> None:
    with pytest.raises(NotFound, match="no key has the id 'abc': `rlcm keys list` shows them"):
        keys.revoke("abc")


class TestCommands:
    def test_a_key_is_shown_once(self, rlcm: Rlcm, tmp_path: Path) -> None:
        where = f"--state {tmp_path}/state"
        command = "--name team --scope solve --max-n 4 --timeout-s 1.5"
        status, text, said = rlcm(f"keys new {command} {where}")
        assert status == 0
        assert re.fullmatch(r"rlcm_[0-9a-f]{8}_[0-9a-f]{64}\n", text)
        assert "cannot be shown again" in said
        assert text.strip() not in said
        status, listed, _ = rlcm(f"keys list --json {where}")
        assert status == 0
        assert text.split("_")[2].strip() not in listed
        (shown,) = json.loads(listed)
        created = datetime.fromisoformat(shown.pop("created"))
        assert -1 <= (datetime.now(UTC) - created).total_seconds() < 100
        key_id = text.split("_")[1]
        assert shown == {
            "id": key_id,
            "name": "team",
            "scopes": ["solve"],
            "limits": {"max_n": 4, "timeout_s": 1.5},
            "last_used": None,
            "revoked": None,
        }
        with closing(sqlite3.connect(tmp_path / "state" / "rlcm.db")) as connection:
            (digest,) = connection.execute("SELECT digest FROM rlcm_keys").fetchone()
        assert digest == hashlib.sha256(text.split("_")[2].strip().encode()).hexdigest()

    def test_the_table_shows_what_matters(self, rlcm: Rlcm, tmp_path: Path) -> None:
        where = f"--database sqlite:///{tmp_path}/keys.db"
        for name in ("one", "two", "team[/ops]"):
            rlcm(f"keys new --name {name} --scope admin --max-body-bytes 1000000 {where}")
        key_id = json.loads(rlcm(f"keys list --json {where}")[1])[0]["id"]
        assert rlcm(f"keys revoke {key_id} {where}")[:2] == (
            0,
            f"key {key_id} of 'one' is revoked\n",
        )
        listed = rlcm(f"keys list {where}")[1]
        assert "two" in listed
        assert "team[/ops]" in listed
        assert "admin" in listed
        shown = {
            one["name"]: one["revoked"] for one in json.loads(rlcm(f"keys list --json {where}")[1])
        }
        assert shown["two"] is None
        assert shown["one"] is not None

    @pytest.mark.parametrize(
        ("command", "said"),
        [
            ("new --name x --scope root", "the scope is 'root': give solve, label, metrics, admin"),
            ("new --name x --scope solve --max-n 0", "max_n is 0: give more than 0"),
            ("revoke abc", "no key has the id 'abc'"),
            ("list --database mysql://x/y", "mysql"),
        ],
    )
    def test_an_error_is_one_line(
        self, rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, said: str
    ) -> None:
        monkeypatch.setenv("RLCM_STATE", str(tmp_path / "state"))
        rlcm("keys new --name first --scope solve")
        status, out, err = rlcm(f"keys {command}")
        assert (status, out) == (1, "")
        (line,) = err.splitlines()
        assert line.startswith("error: ")
        assert said in line

    @pytest.mark.parametrize("command", ["list", "revoke abc"])
    def test_a_mistyped_folder_is_no_empty_one(
        self, rlcm: Rlcm, tmp_path: Path, command: str
    ) -> None:
        status, out, err = rlcm(f"keys {command} --state {tmp_path / 'typo'}")
        assert (status, out) == (1, "")
        assert "there is no database file" in err
        assert not (tmp_path / "typo").exists()

    def test_name_and_scope_are_required(self, rlcm: Rlcm) -> None:
        for command in ("keys new --name x", "keys new --scope solve"):
            assert rlcm(command)[0] == 2
