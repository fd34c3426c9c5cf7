import json
import re
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.errors import SettingsRefused
from rlcm_serve.settings import Settings, load_settings
from rlcm_serve.settings.reference import (
    described,
    flag_of,
    markdown,
    template,
    to_json,
    variable_of,
)
from tests.rlcm_serve.command_line import Rlcm

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
FIELDS = list(Settings.model_fields)
PLACES = ("file", "environment", "flag")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting comes from the machine that the tests run on."""
    for name in [*map(variable_of, FIELDS), "RLCM_CONFIG"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def refusal(flags: dict[str, Any], config: Path | None = None) -> str:
    with pytest.raises(SettingsRefused) as refused:
        load_settings(flags, config)
    return str(refused.value)


def test_without_anything_all_settings_are_defaults(tmp_path: Path) -> None:
    loaded = load_settings({})
    assert set(loaded.sources) == set(FIELDS)
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.settings == Settings()
    assert loaded.settings.state == tmp_path / "state" / "rlcm-serve"
    assert loaded.settings.database_url == f"sqlite:///{tmp_path}/state/rlcm-serve/rlcm.db"


def needed_by(name: str) -> dict[str, Any]:
    """Without it, a setting is refused, because it would do nothing."""
    return {"evidence": True} if name.startswith("evidence_") else {}


# What each kind of setting may be. Texts have no surrounding blanks: a variable of the environment
# loses none, but a list in one does.
WORDS = st.text(string.ascii_letters + string.digits + "-_./", min_size=1, max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "model": WORDS.map(lambda word: f"m{word}"),
    "served_model_names": st.lists(WORDS, min_size=1, max_size=3),
    "probe": WORDS.map(lambda word: f"/p{word}"),
    "certificates": st.lists(WORDS.map(lambda word: f"/c{word}"), min_size=1, max_size=3),
    "profiles": st.lists(WORDS.map(lambda word: f"/c{word}"), min_size=1, max_size=3),
    "trusted_keys": st.lists(WORDS.map(lambda word: f"/k{word}"), min_size=1, max_size=3),
    "temperature": st.floats(0, 2),
    "rehearse": WORDS.map(lambda word: f"/r{word}"),
    "thinking": WORDS.map(lambda word: f"m{word}"),
    "top_p": st.floats(0.01, 1),
    "default_alpha": st.floats(0.01, 0.99),
    "vllm_arguments": st.lists(WORDS, min_size=1, max_size=3),
    "engine_log": WORDS.map(lambda word: f"/l{word}"),
    "evidence_folder": WORDS.map(lambda word: f"/e{word}"),
    "evidence_key": WORDS.map(lambda word: f"/k{word}"),
    "audit_share": st.floats(0, 1),
    "shadow_share": st.floats(0, 1),
    "audit_shares": st.lists(
        WORDS.filter(str.isalnum).map(lambda word: f"kind:{word}=0.5"), min_size=1, max_size=3
    ),
    "tested_labels": st.sampled_from(["trusted", "all"]),
    "risk_alarm": st.sampled_from(["withdraw", "smaller-level", "warn", "none"]),
    "drift_alarm": st.sampled_from(["withdraw", "smaller-level", "warn", "none"]),
    "alarm_actions": st.lists(
        st.integers(0, 16**12 - 1).map(lambda id_: f"{id_:012x}:risk=warn"), min_size=1, max_size=3
    ),
    "runbook_url": WORDS.filter(str.isalnum).map(lambda word: f"https://{word}/runbooks.html"),
    "alarm_webhook": WORDS.filter(str.isalnum).map(lambda word: f"http://{word}"),
    "audit_deadline_s": st.floats(0.001, 86_400),
    "answers_days": st.integers(7, 10**6),
    "host": st.sampled_from(["127.0.0.1", "::1", "localhost", "127.9.9.9"]),
    "port": st.integers(0, 65535),
    "confidence": st.sampled_from(["probe", "sequence-probability", "lowest-group", "tail"]),
    "auth": st.sampled_from(["auto", "on", "off"]),
    "key_share": st.floats(0.01, 1),
    "prefix_cache": st.sampled_from(["key", "shared"]),
    "allowed_hosts": st.lists(WORDS.filter(str.isalnum), min_size=1, max_size=3),
    "cors_origins": st.lists(
        WORDS.filter(str.isalnum).map(lambda word: f"https://{word}"), min_size=1, max_size=3
    ),
    "max_waiting": st.integers(0, 10**6),
    "max_n": st.integers(1, 64),
    "timeout_s": st.floats(0.001, 10**6),
    "aggregate_timeout_s": st.floats(0.001, 10**6),
    "aggregate_compare_s": st.floats(0.001, 10**6),
    "heartbeat_s": st.floats(0.001, 10**6),
    "drain_s": st.floats(0, 10**6),
    "state": WORDS.map(lambda word: f"/s{word}"),
    "database": WORDS.map(lambda word: f"sqlite:///{word}"),
    "log_level": st.sampled_from(["debug", "info", "warning", "error"]),
    "log_format": st.sampled_from(["auto", "json", "console"]),
    "otlp_endpoint": WORDS.filter(str.isalnum).map(lambda word: f"http://{word}"),
}


def value_of(name: str) -> st.SearchStrategy[Any]:
    if isinstance(Settings.model_fields[name].default, bool):
        return st.booleans()
    return VALUES.get(name, st.integers(1, 10**9))


def in_environment(name: str, value: Any) -> str:
    if isinstance(value, list):
        return (" " if name == "vllm_arguments" else ",").join(value)
    return json.dumps(value) if isinstance(value, bool) else str(value)


@contextmanager
def given_in(
    tmp_path: Path, values: dict[str, dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], Path]]:
    """Writes what the file and the environment say; gives the flags and the file."""
    file = tmp_path / "some.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in values["file"].items()]
    file.write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values["environment"].items():
            patch.setenv(variable_of(name), in_environment(name, value))
        yield values["flag"], file


@pytest.mark.parametrize("name", FIELDS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_flag_goes_before_the_environment_and_that_before_the_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    placed = data.draw(st.sets(st.sampled_from(PLACES)))
    values = {
        place: {name: data.draw(value_of(name))} | needed_by(name) if place in placed else {}
        for place in PLACES
    }
    tmp_path = tmp_path_factory.getbasetemp()
    with given_in(tmp_path, values) as (flags, file):
        loaded = load_settings(flags, file)
    winning = next((values[place] for place in reversed(PLACES) if values[place]), {})
    assert getattr(loaded.settings, name) == getattr(Settings(**winning), name)
    sources = dict.fromkeys(FIELDS, "default")
    for place in PLACES:
        for each in values[place]:
            said = {"file": str(file), "environment": variable_of(each), "flag": "flag"}
            sources[each] = said[place]
    assert loaded.sources == sources


def test_every_setting_has_a_place_a_flag_a_variable_and_a_description() -> None:
    listed = list(described())
    assert [setting.name for setting in listed] == FIELDS
    for setting in listed:
        assert setting.group in ("Model", "Network", "Limits", "State", "Monitoring", "Logs")
        assert setting.variable == f"RLCM_{setting.name.upper()}"
        assert setting.description.endswith(".")
        assert (setting.default is None) == (setting.example is not None), setting.name
        assert setting.help.count("Default: ") == 1
    flags = [setting.flag for setting in listed]
    assert len(set(flags)) == len(flags)


def test_help_shows_defaults_with_their_units() -> None:
    said = {setting.name: setting.help.partition("Default: ")[2] for setting in described()}
    assert said["timeout_s"] == "300 s."
    assert said["answers_days"] == "90."
    assert said["max_upload_bytes"] == "1.0 GiB."
    assert said["evidence"] == "off."
    assert said["cors_origins"] == "none."
    assert said["audit_share"] == "0.05."
    assert said["interval"] == "the probe's interval, or 500 without one."


def test_the_file_is_the_one_given_or_named_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, port in (("rlcm.toml", 1), ("named.toml", 2), ("given.toml", 3)):
        Path(name).write_text(f"port = {port}")
    here = load_settings({})
    assert (here.settings.port, here.sources["port"]) == (1, "rlcm.toml")
    monkeypatch.setenv("RLCM_CONFIG", "named.toml")
    named = load_settings({})
    assert (named.settings.port, named.sources["port"]) == (2, "named.toml")
    given = load_settings({}, tmp_path / "given.toml")
    assert (given.settings.port, given.sources["port"]) == (3, str(tmp_path / "given.toml"))
    monkeypatch.setenv("RLCM_CONFIG", "")
    assert load_settings({}).settings.port == 1, "an empty variable is none"


def test_a_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal({}, Path("no.toml")) == (
        "no settings file 'no.toml' (--config): give one that exists"
    )
    monkeypatch.setenv("RLCM_CONFIG", "none.toml")
    assert "'none.toml' (RLCM_CONFIG)" in refusal({})


def test_a_file_that_is_not_toml_is_refused_with_the_place() -> None:
    Path("rlcm.toml").write_text("port = 1\nport 2")
    assert re.match(r"rlcm.toml is not TOML: .*line 2", refusal({}))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("prot = 1", "rlcm.toml has 'prot', which is not a setting: did you mean port?"),
        ("max-n = 1", "rlcm.toml has 'max-n', which is not a setting: did you mean max_n?"),
        (
            "[zzz]\nport = 1",
            "rlcm.toml has 'zzz', which is not a setting: `rlcm config --toml`",
        ),
    ],
)
def test_an_unknown_name_in_the_file_is_refused(written: str, said: str) -> None:
    Path("rlcm.toml").write_text(written)
    assert refusal({}).startswith(said)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("RLCM_PROT", "RLCM_PROT, which is not a setting: did you mean RLCM_PORT?"),
        ("rlcm_port", "rlcm_port, which is not a setting: did you mean RLCM_PORT?"),
        ("RLCM_CONFG", "RLCM_CONFG, which is not a setting: did you mean RLCM_CONFIG?"),
        ("RLCM_ZZZZZZZZZ", "RLCM_ZZZZZZZZZ, which is not a setting: `rlcm config --toml` lists"),
    ],
)
def test_an_unknown_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, said: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert refusal({}).startswith(f"the environment has {said}")


def test_an_unknown_flag_is_refused() -> None:
    assert refusal({"prot": 1}) == "'prot' is not a setting: did you mean port?"


def test_the_folder_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "there is no user ~nobodyhere: give a path that begins with /"
    assert refusal({"state": "~nobodyhere/x"}) == f"state is '~nobodyhere/x' (--state): {why}"
    Path("rlcm.toml").write_text('state = "~nobodyhere/x"')
    assert refusal({}) == f"state is '~nobodyhere/x' (rlcm.toml): {why}"
    monkeypatch.setenv("RLCM_CONFIG", "~nobodyhere/x")
    assert refusal({}).endswith(f"'~nobodyhere/x' (RLCM_CONFIG): {why}")


def test_a_wrong_value_is_named_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rlcm.toml").write_text('max_running = "many"')
    monkeypatch.setenv("RLCM_MAX_N", "65")
    said = refusal({"port": 70000})
    assert said.split("; ") == [
        "port is 70000 (--port): give 65535 or less",
        "max_running is 'many' (rlcm.toml): give a whole number",
        "max_n is '65' (RLCM_MAX_N): give 64 or less",
    ]


def test_a_wrong_member_of_a_list_is_named() -> None:
    Path("rlcm.toml").write_text("vllm_arguments = [1]")
    assert refusal({}) == "vllm_arguments is 1 (rlcm.toml): give a text"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"drain_s": float("inf")}, "drain_s is inf"),
        ({"timeout_s": 0}, "timeout_s is 0 (--timeout-s): give more than 0"),
        ({"max_body_bytes": "0"}, "max_body_bytes is '0'"),
        ({"max_body_bytes": "big"}, "give a number of bytes, or a size such as 2 MiB"),
        ({"max_body_bytes": "2 GiBs"}, "give a number of bytes, or a size such as 2 MiB"),
        ({"audit_shares": ["geometry=2"]}, "audit_shares has 'geometry=2'"),
        ({"audit_shares": ["geometry=2"]}, " (--audit-share-of)"),
        ({"host": "0.0.0.0", "auth": "off"}, " (--auth, --host)"),
        ({"host": ""}, "host is ''"),
        (
            {"confidence": "tea leaves"},
            "confidence is 'tea leaves' (--confidence): give 'probe', "
            "'sequence-probability', 'lowest-group' or 'tail'",
        ),
        ({"auth": "maybe"}, "auth is 'maybe' (--auth): give 'auto', 'on' or 'off'"),
        (
            {"no_certificate": True, "certificates": ["a.json"]},
            "no_certificate is on, but certificates are given: remove one of the two",
        ),
        (
            {"auth": "off", "host": "0.0.0.0"},
            "auth is off, but host is '0.0.0.0', which others can reach: listen on 127.0.0.1, or "
            "set auth to on and make keys with `rlcm keys new`",
        ),
        (
            {"allowed_hosts": ["a.example:80"]},
            "allowed_hosts has 'a.example:80': give a name or an",
        ),
        ({"cors_origins": ["https://a.example/"]}, "cors_origins has 'https://a.example/': give"),
        ({"cors_origins": ["a.example"]}, "cors_origins has 'a.example': give scheme, host and"),
        ({"otlp_endpoint": "localhost:4317"}, "otlp_endpoint is 'localhost:4317': give a URL such"),
        ({"otlp_endpoint": "http://"}, "otlp_endpoint is 'http://': give a URL such"),
        ({"alarm_webhook": "http://host:abc/"}, "alarm_webhook is no URL: give one such as"),
        ({"runbook_url": "https://[::1/"}, "runbook_url is 'https://[::1/': give a URL such as"),
        (
            {"alarm_actions": ["571B667EDA0C:risk=warn"]},
            "alarm_actions has '571B667EDA0C:risk=warn': give ID:risk=ACTION or ID:drift=ACTION, "
            "with the id of a certificate, such as 571b667eda0c, and",
        ),
        (
            {"monitor": False, "shadow_share": 0.05},
            "shadow_share is 0.05, but monitor is off, so no shadow run would be stored: set "
            "monitor to true, or shadow_share to 0",
        ),
        (
            {"monitor": False, "rehearse": "571b667eda0c"},
            "rehearse is '571b667eda0c', but monitor is off, so nothing would be "
            "rehearsed: set monitor to true, or leave rehearse out",
        ),
        (
            {"monitor": False, "alarm_webhook": "https://hooks.example.com/secret"},
            "alarm_webhook is given, but monitor is off, so it would do nothing: set monitor to "
            "true, or leave alarm_webhook out",
        ),
        ({"monitor": False, "audit_texts": True}, "audit_texts is given, but monitor is off"),
        (
            {"evidence_key": "signing.pem"},
            "evidence_key is given, but evidence is off, so it would do nothing: set evidence to "
            "true, or leave evidence_key out",
        ),
        ({"evidence_texts": True}, "evidence_texts is given, but evidence is off"),
        ({"evidence_days": 30}, "evidence_days is given, but evidence is off"),
    ],
)
def test_impossible_values_are_refused(flags: dict[str, Any], said: str) -> None:
    assert said in refusal(flags)


def test_values_with_brackets_are_shown_as_they_are(
    rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLCM_SERVED_MODEL_NAMES", "m[/x],[a]")
    status, out, err = rlcm("config")
    assert (status, err) == (0, "")
    assert "m[/x]" in out
    assert "[a]" in out


def test_a_password_never_shows(rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:s3cr/3t@db:5432/rlcm?sslmode=require&password=s3cr3t&x=1"
    monkeypatch.setenv("RLCM_DATABASE", url)
    assert "s3cr" not in repr(load_settings({}).settings)
    for command in ("config", "config --json", "config --toml"):
        status, out, err = rlcm(command)
        assert (status, err) == (0, "")
        assert "s3cr" not in out
    masked = json.loads(rlcm("config --json")[1])["database"]
    shown = "postgresql://me:***@db:5432/rlcm?sslmode=require&password=***&x=1"
    assert masked == {"value": shown, "source": "RLCM_DATABASE"}


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.0.3", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.0.0.1.example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_keys_are_needed_where_others_can_reach_the_service(host: str, is_loopback: bool) -> None:
    settings = Settings(host=host)
    assert settings.is_loopback == is_loopback
    assert settings.keys_needed == (not is_loopback)
    assert Settings(host=host, auth="on").keys_needed


def test_values_of_the_environment_are_read_as_people_write_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "CERTIFICATES": "a.json, ~/b.json",
        "VLLM_ARGUMENTS": "--max-model-len 4096 --hf-token 'a b'",
        "MAX_UPLOAD_BYTES": "2 GiB",
        "LOG_LEVEL": "DEBUG",
        "METRICS_OPEN": "yes",
        "CORS_ORIGINS": "",
    }.items():
        monkeypatch.setenv(f"RLCM_{name}", value)
    loaded = load_settings({})
    settings = loaded.settings
    assert settings.certificates == [Path("a.json"), Path.home() / "b.json"]
    assert settings.vllm_arguments == ("--max-model-len", "4096", "--hf-token", "a b")
    assert settings.max_upload_bytes == 2 * 2**30
    assert (settings.log_level, settings.metrics_open) == ("debug", True)
    assert (settings.cors_origins, loaded.sources["cors_origins"]) == ([], "default")


def test_paths_in_a_file_are_seen_from_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "rlcm.toml").write_text(
        'certificates = ["one.json", "/two.json", "~/three.json"]\nstate = "../state"\n'
        'profiles = ["brief.toml"]\n'
        'engine_log = "engine.log"\nmodel = "./model"\n'
    )
    settings = load_settings({}, folder / "rlcm.toml").settings
    home = Path.home()
    assert settings.certificates == [folder / "one.json", Path("/two.json"), home / "three.json"]
    assert settings.profiles == [folder / "brief.toml"]
    assert settings.state == folder / "../state"
    assert settings.engine_log == folder / "engine.log"
    assert settings.model == f"{folder}/model"
    (folder / "rlcm.toml").write_text('model = "Qwen/Qwen3-4B"')
    assert load_settings({}, folder / "rlcm.toml").settings.model == "Qwen/Qwen3-4B"


def test_every_setting_that_is_a_path_is_seen_from_the_files_folder(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    single = [setting.name for setting in described() if setting.type is Path]
    lists = [setting.name for setting in described() if setting.type == list[Path]]
    assert {"probe", "evidence_folder", "evidence_key"} <= {*single}
    assert "trusted_keys" in lists
    written = [f'{name} = "it"' for name in single] + [f'{name} = ["it"]' for name in lists]
    written.append("evidence = true")
    (folder / "rlcm.toml").write_text("\n".join(written))
    settings = load_settings({}, folder / "rlcm.toml").settings
    found = {name: getattr(settings, name) for name in (*single, *lists)}
    it = folder / "it"
    assert found == dict.fromkeys(single, it) | {name: [it] for name in lists}


def test_what_may_be_a_file_or_an_id_is_a_file_if_there_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "next.json").touch()
    (folder / "rlcm.toml").write_text('rehearse = "next.json"')
    rehearsed = load_settings({}, folder / "rlcm.toml").settings.rehearse
    assert rehearsed == str(folder / "next.json")
    (folder / "rlcm.toml").write_text('rehearse = "~/next.json"')
    at_home = str(Path.home() / "next.json")
    assert load_settings({}, folder / "rlcm.toml").settings.rehearse == at_home
    (folder / "rlcm.toml").write_text('rehearse = "571b667eda0c"')
    assert load_settings({}, folder / "rlcm.toml").settings.rehearse == "571b667eda0c"


def test_the_engine_gets_its_part(tmp_path: Path) -> None:
    given = {"model": "m", "max_tokens": 7, "top_p": 0.5, "thinking": "mistral"}
    engine = Settings(**given, vllm_arguments=("--a",)).engine()
    assert engine.thinking == "mistral"
    assert (engine.model, engine.max_tokens, engine.top_p) == ("m", 7, 0.5)
    assert engine.vllm_arguments == ("--a",)
    assert engine.log == tmp_path / "cache" / "rlcm-serve" / "engine.log"
    assert Settings(engine_log=Path("x.log")).engine().log == Path("x.log")
    assert Settings(engine_log=Path("x.log"), verbose=True).engine().log is None


def test_settings_made_directly_read_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCM_PORT", "9")
    Path("rlcm.toml").write_text("max_n = 3")
    assert (Settings().port, Settings().max_n) == (8000, 64)


def test_config_shows_values_and_sources(rlcm: Rlcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCM_MAX_N", "8")
    Path("rlcm.toml").write_text("drain_s = 5")
    command = "--port 9000 --certificate a.json --certificate b.json -- --max-model-len 99"
    status, out, err = rlcm(f"config {command}")
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["port"] == ["9000", "flag"]
    assert rows["max_n"] == ["8", "RLCM_MAX_N"]
    assert rows["drain_s"] == ["5.0", "rlcm.toml"]
    assert rows["host"] == ["127.0.0.1", "default"]
    shown = json.loads(rlcm(f"config --json {command}")[1])
    assert list(shown) == FIELDS
    assert shown["certificates"] == {"value": ["a.json", "b.json"], "source": "flag"}
    assert shown["vllm_arguments"] == {"value": ["--max-model-len", "99"], "source": "flag"}
    assert shown["interval"] == {"value": None, "source": "default"}


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_an_option_that_works(rlcm: Rlcm, name: str) -> None:
    (setting,) = (one for one in described() if one.name == name)
    value = {"verbose": True, "auth": "on", "vllm_arguments": ["--a", "1"]}.get(name)
    if value is None:
        default = json.loads(setting.default or "null")
        value = json.loads(setting.example or "null") if default in (None, []) else default
    if name == "cors_origins":
        value = ["https://a.example", "http://localhost:3000"]
    if name == "allowed_hosts":
        value = ["a.example", "fd00::7"]
    if name == "served_model_names":
        value = ["puzzles", "puzzles-2"]
    if name == "audit_shares":
        value = ["kind:geometry=0.5", "key:9f2c01ab=1"]
    if name == "alarm_actions":
        value = ["571b667eda0c:risk=warn"]
    words = [flag_of(name)]
    if isinstance(value, bool):
        value = name != "cancel_decided"
        words = [flag_of(name) if value else f"--no-{flag_of(name)[2:]}"]
    elif name == "vllm_arguments":
        words += value
    elif isinstance(value, list):
        words = [word for part in value for word in (flag_of(name), part)]
    else:
        words.append(str(value))
    words += map(flag_of, needed_by(name))
    status, out, err = rlcm(f"config --json {' '.join(words)}")
    assert (status, err) == (0, "")
    assert json.loads(out)[name] == {"value": value, "source": "flag"}


def test_the_template_is_the_defaults_and_every_line_of_it_works(rlcm: Rlcm) -> None:
    status, written, err = rlcm("config --toml")
    assert (status, err, written) == (0, "", template())
    Path("rlcm.toml").write_text(written)
    assert set(load_settings({}).sources.values()) == {"default"}
    lines = re.findall(r"^# (\w+ = .*)$", written, re.MULTILINE)
    assert [line.split(" = ")[0] for line in lines] == FIELDS
    lines[FIELDS.index("evidence")] = "evidence = true"
    Path("rlcm.toml").write_text("\n".join(lines))
    loaded = load_settings({})
    assert set(loaded.sources.values()) == {"rlcm.toml"}
    for setting in described():
        if setting.default is not None and setting.name != "evidence":
            value = getattr(loaded.settings, setting.name)
            assert to_json(setting.name, value) == json.loads(setting.default), setting.name


def test_the_documentation_lists_every_setting() -> None:
    assert markdown() in PAGE.read_text(), "put reference.markdown() in its place"


def test_a_refusal_is_one_line_and_status_1(rlcm: Rlcm) -> None:
    for command in ("serve", "config"):
        status, out, err = rlcm(f"{command} --port 70000")
        assert (status, out) == (1, "")
        assert err == "error: port is 70000 (--port): give 65535 or less\n"


def test_an_option_has_its_other_name_too(rlcm: Rlcm) -> None:
    status, out, err = rlcm("config --json --shadow 571b667eda0c")
    assert (status, err) == (0, "")
    assert json.loads(out)["rehearse"] == {"value": "571b667eda0c", "source": "flag"}
