"""The settings and keys of our routes inside `vllm serve`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from rlcm_serve.api.beside_vllm.plugin import ServerKeys, settings_beside
from rlcm_serve.errors import AccessDenied, SettingsRefused
from rlcm_serve.store.answers.table import AnswerRow
from rlcm_serve.store.caller import Scope
from rlcm_serve.store.database import Database
from tests.rlcm_serve.command_line import Rlcm


def arguments(**given: object) -> Namespace:
    """vLLM's command line."""
    unset = {"host": None, "uds": None, "served_model_name": None, "model": "org/model"}
    return Namespace(**unset | given)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RLCM_AUTH", "RLCM_MODEL"):
        monkeypatch.delenv(name, raising=False)


def test_model_and_names_are_vllms_and_the_rest_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RLCM_MODEL", "another")
    monkeypatch.setenv("RLCM_MAX_RUNNING", "7")
    monkeypatch.setenv("RLCM_VLLM_ARGUMENTS", "--max-num-seqs 8")
    given = arguments(host="127.0.0.1")
    settings = settings_beside(given, "/models/a", ())
    assert (settings.model, settings.max_running) == ("/models/a", 7)
    assert settings.served_model_names == ["org/model"]
    assert settings.engine().vllm_arguments == (), "they are in vLLM's command line"
    named = settings_beside(arguments(host="::1", served_model_name=["a", "b"]), "/models/a", ())
    assert named.served_model_names == ["a", "b"]


def test_with_vllms_key_ours_is_demanded_even_on_loopback() -> None:
    assert settings_beside(arguments(host="127.0.0.1"), "m", ["key"]).keys_needed
    assert settings_beside(arguments(), "m", ["key"]).keys_needed
    assert not settings_beside(arguments(host="127.0.0.1"), "m", ()).keys_needed
    assert not settings_beside(arguments(uds="/run/vllm.sock"), "m", ()).keys_needed


def test_without_a_key_only_this_machine_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in (None, "0.0.0.0", "10.0.0.1"):
        with pytest.raises(SettingsRefused, match="--api-key KEY"):
            settings_beside(arguments(host=host), "m", ())
    monkeypatch.setenv("RLCM_AUTH", "on")
    with pytest.raises(SettingsRefused, match="auth is on"):
        settings_beside(arguments(host="127.0.0.1"), "m", ())


async def test_vllms_keys_may_ask_and_ours_keep_their_scopes(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/rlcm.db")
    keys = ServerKeys(database, ["first", "sécond"])
    text, record = keys.create("admin", [Scope.ADMIN])
    first, second = await keys.caller_of("first"), await keys.caller_of("sécond")
    assert first.key_id != second.key_id
    assert first.may(Scope.SOLVE)
    assert not first.may(Scope.ADMIN)
    admin = await keys.caller_of(text)
    assert (admin.key_id, admin.may(Scope.ADMIN)) == (record.id, True)
    for wrong in ("", "third", "firs", text[:-1]):
        with pytest.raises(AccessDenied):
            await keys.caller_of(wrong)
    await keys.close()
    database.close()


async def test_a_key_keeps_its_records_wherever_it_stands_among_the_others(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/rlcm.db")
    before, after = ServerKeys(database, ["alice", "bob"]), ServerKeys(database, ["bob", "carol"])
    alice, bob = await before.caller_of("alice"), await before.caller_of("bob")
    assert await after.caller_of("bob") == bob
    assert not (await after.caller_of("carol")).sees(bob.key_id)
    assert not bob.sees(alice.key_id)
    assert bob.key_id == "vllm-81b637d8fcd", "the begin of its SHA-256"
    assert len(bob.key_id) <= AnswerRow.key_id.type.length
    database.close()


def test_the_shipped_models_name_is_unknown_to_vllm(rlcm: Rlcm) -> None:
    status, _, said = rlcm("vllm-args embedded")
    assert status != 0
    assert "vLLM does not know the model 'embedded'" in said
