"""Every setting of the service: its type, default and meaning."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ByteSize, Field, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from rlcm_serve.core import MAX_SAMPLES, MAX_TEMPERATURE, Signal
from rlcm_serve.home import at_home
from rlcm_serve.settings.actions import ActionName, AlarmActions
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.terminal import default_engine_log, state_folder

if TYPE_CHECKING:
    from rlcm_serve.engine.launch import EngineSettings

PREFIX = "RLCM_"
"""Of the environment's variables."""
_OF_EVIDENCE = ("evidence_folder", "evidence_texts", "evidence_key", "evidence_days")
"""Settings that do nothing without `evidence`."""
_OF_MONITOR = ("audit_shares", "audit_texts", "alarm_actions", "alarm_webhook")
"""Settings that do nothing without `monitor`."""


def split_list(value: Any) -> Any:
    """A text is a list with commas; in a variable of the environment nothing else is possible."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def split_words(value: Any) -> Any:
    """A text is words, as a shell reads them."""
    return shlex.split(value) if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _or(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


Listed = BeforeValidator(split_list)
Location = Annotated[Path, BeforeValidator(at_home)]
Tokens = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1)]
Size = Annotated[ByteSize, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


def _setting(default: Any, group: str, says: str, **others: Any) -> Any:
    """A field: its default, where it is listed, what it means.

    `example` stands in listings where there is no default, `flag` where the flag is not the name;
    an `alias` works as well.
    """
    extra: dict[str, Any] = {"group": group}
    own = ("example", "flag", "alias")
    extra |= {name: others.pop(name) for name in own if name in others}
    return Field(default, description=says, json_schema_extra=extra, **others)


class Settings(BaseSettings):
    """The settings of the service. Times are in seconds, sizes in bytes.

    The constructor reads neither the environment nor a file; `load_settings` does.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, allow_inf_nan=False
    )

    model: Annotated[str, BeforeValidator(at_home)] = _setting(
        "embedded", "Model", "Model: a folder, a Hugging Face id, or 'embedded'."
    )
    served_model_names: Annotated[list[str], NoDecode, Listed] = _setting(
        [],
        "Model",
        "Names of the model in the API, instead of `model`; all are accepted, the first is shown.",
        flag="--served-model-name",
    )
    probe: Location | None = _setting(
        None,
        "Model",
        "Folder of the probe. Default: probe/ in the model's folder.",
        example="my-probe",
    )
    certificates: Annotated[list[Location] | None, NoDecode, Listed] = _setting(
        None,
        "Model",
        "Certificate files. Default: those in the model's folder.",
        flag="--certificate",
        example=["certificate.json"],
    )
    profiles: Annotated[list[Location] | None, NoDecode, Listed] = _setting(
        None,
        "Model",
        "Prompt profiles (TOML files), beside those in the model's folder. Default: none.",
        flag="--profile",
        example=["support.toml"],
    )
    trusted_keys: Annotated[list[Location] | None, NoDecode, Listed] = _setting(
        None,
        "Model",
        "Public keys (PEM files) whose signatures on certificates are trusted. Default: none.",
        flag="--trusted-key",
        example=["signing.pub.pem"],
    )
    require_signature: bool = _setting(
        False, "Model", "Serve only certificates that a trusted key has signed."
    )
    no_certificate: bool = _setting(False, "Model", "Serve without a guarantee.")
    confidence: Annotated[Signal, BeforeValidator(_lower)] = _setting(
        Signal.PROBE,
        "Model",
        f"Source of confidence: {_or(Signal)}.",
    )
    thinking: str | None = _setting(
        None,
        "Model",
        "Thinking format, such as 'openai_gptoss' or 'none'. Default: detected.",
        example="none",
    )
    interval: Tokens | None = _setting(
        None,
        "Model",
        "Tokens between two confidence readings (N). Default: the probe's interval, or 500 without "
        "one.",
        example=32,
    )
    max_tokens: Tokens | None = _setting(
        None,
        "Model",
        "Thinking budget of one sample, in tokens. Default: `max_new_tokens` of the model's "
        "`generation_config.json`, otherwise 8,192.",
        example=2048,
    )
    answer_max_tokens: Tokens | None = _setting(
        None,
        "Model",
        "Maximum length of a forced answer, in tokens; the model's own may also use what is left "
        "of the thinking budget. Default: `answer_max_tokens` of the model's "
        "`generation_config.json`, otherwise 256.",
        example=64,
    )
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)] | None = _setting(
        None,
        "Model",
        "Sampling temperature. Default: the model's temperature.",
        example=0.6,
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = _setting(
        None,
        "Model",
        "Nucleus sampling (top-p). Default: the model's top-p.",
        example=0.95,
    )
    self_test: bool = _setting(
        True,
        "Model",
        "At the start, compare a run of ten tokens with a forward pass; small models only.",
    )
    default_alpha: Annotated[float, Field(gt=0, lt=1)] = _setting(
        0.1, "Model", "Accepted risk (alpha) of requests from OpenAI's clients that give none."
    )
    vllm_arguments: Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_words)] = _setting(
        (), "Model", "Engine arguments for vLLM.", flag="--"
    )
    engine_log: Location | None = _setting(
        None,
        "Model",
        "File for vLLM's output. Default: a file in the user's cache folder.",
        example="engine.log",
    )
    verbose: bool = _setting(
        False, "Model", "Show vLLM's output on stderr instead of writing it to a file."
    )

    host: Annotated[str, Field(min_length=1)] = _setting(
        "127.0.0.1", "Network", "Address to listen on."
    )
    port: Annotated[int, Field(ge=0, le=65535)] = _setting(
        8000, "Network", "Port to listen on; 0 selects a free port."
    )
    auth: Annotated[Literal["auto", "on", "off"], BeforeValidator(_lower)] = _setting(
        "auto",
        "Network",
        "Require API keys: on, off (only on loopback), or auto (off on loopback).",
    )
    allowed_hosts: Annotated[list[str], NoDecode, Listed] = _setting(
        [],
        "Network",
        "Names under which clients call the service (Host header), beside loopback and `host`. "
        "With keys, any name is accepted unless this is set.",
        flag="--allowed-host",
    )
    cors_origins: Annotated[list[str], NoDecode, Listed] = _setting(
        [],
        "Network",
        "Origins of web pages that may call the service (CORS).",
        flag="--cors-origin",
    )
    prefix_cache: Annotated[Literal["key", "shared"], BeforeValidator(_lower)] = _setting(
        "key",
        "Network",
        "Who shares cached prefixes of prompts: each key (or its --cache-group) alone, or all "
        "(shared). Whoever shares them can find out what others asked.",
    )
    metrics_open: bool = _setting(False, "Network", "Serve /metrics without a key.")
    vllm_metrics: bool = _setting(
        True, "Network", "Let vLLM record its own metrics, and show them at /metrics."
    )

    max_running: Count = _setting(
        64, "Limits", "Maximum number of questions answered at the same time."
    )
    max_waiting: Annotated[int, Field(ge=0)] = _setting(
        256, "Limits", "Maximum number of waiting questions; further ones get a 429."
    )
    key_share: Annotated[float, Field(gt=0, le=1)] = _setting(
        0.75,
        "Limits",
        "Largest share of max_running, and of the places at /aggregate, that one key may hold. A "
        "key may hold all of max_running once no other key has asked for ten minutes.",
    )
    requests_per_minute: Count | None = _setting(
        None,
        "Limits",
        "Questions and batches that each API key may begin per minute; callers without a key have "
        "no limit. Default: no limit.",
        example=600,
    )
    tokens_per_minute: Count | None = _setting(
        None,
        "Limits",
        "Tokens of questions per minute for each API key; callers without a key have no limit. "
        "Default: no limit.",
        example=1_000_000,
    )
    max_n: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] = _setting(
        MAX_SAMPLES, "Limits", "Maximum number of samples per question."
    )
    max_thinking_tokens: Tokens | None = _setting(
        None,
        "Limits",
        "Maximum max_tokens of a question. Default: no limit.",
        example=8192,
    )
    max_messages: Count = _setting(1024, "Limits", "Maximum number of messages in a conversation.")
    max_prompt_chars: Count | None = _setting(
        None,
        "Limits",
        "Maximum characters of a conversation. Default: what the model's context can hold.",
        example=100000,
    )
    max_body_bytes: Size = _setting(ByteSize(2**20), "Limits", "Maximum size of a request body.")
    max_upload_bytes: Size = _setting(
        ByteSize(2**30),
        "Limits",
        "Maximum size of a body sent to /aggregate, /calibrations and /certificates.",
    )
    max_trace_rows: Count = _setting(
        6_000_000, "Limits", "Maximum number of readings in traces sent to /certificates."
    )
    fit_memory_bytes: Size = _setting(
        ByteSize(8 * 2**30),
        "Limits",
        "Maximum memory of the process that fits or recomputes a certificate.",
    )
    fit_timeout_s: Seconds = _setting(
        3600.0, "Limits", "Maximum time to fit or recompute a certificate."
    )
    timeout_s: Seconds = _setting(300.0, "Limits", "Default and maximum time limit of a question.")
    hang_s: Seconds = _setting(
        120.0, "Limits", "Time without any output after which the engine is killed and restarted."
    )
    aggregate_timeout_s: Seconds = _setting(
        300.0, "Limits", "Time limit of a request to /aggregate, until its results are ready."
    )
    aggregate_compare_s: Seconds = _setting(
        120.0,
        "Limits",
        "Time for comparing the answers of one request to /aggregate; then only identical texts "
        "are equal.",
    )
    heartbeat_s: Seconds = _setting(15.0, "Limits", "Interval of keep-alive comments in streams.")
    drain_s: Annotated[float, Field(ge=0)] = _setting(
        30.0, "Limits", "Time for running requests to finish after the service is told to stop."
    )
    idempotency_s: Seconds = _setting(
        3600.0,
        "Limits",
        "Time for which a request with an Idempotency-Key may be repeated for the same answer.",
    )
    idempotency_bytes: Size = _setting(
        ByteSize(2**26),
        "Limits",
        "Memory for the answers to requests with an Idempotency-Key; one API key may have a "
        "quarter of it.",
    )
    unanswered_s: Seconds = _setting(
        86400.0,
        "Limits",
        "Time for which an unanswered question is remembered. Asked again by the same API key, it "
        "gets no guarantee.",
    )
    cancel_decided: bool = _setting(
        True, "Limits", "Cancel samples that can no longer change the result."
    )

    state: Location = Field(
        default_factory=state_folder,
        description="Folder for persistent data. Default: rlcm-serve in the user's state folder.",
        json_schema_extra={"group": "State", "example": "/var/lib/rlcm-serve"},
    )
    database: str | None = _setting(
        None,
        "State",
        "Database URL: sqlite:///FILE or postgresql://... Default: rlcm.db in `state`.",
        repr=False,
        example="postgresql://rlcm@localhost/rlcm",
    )
    database_wait_s: Seconds = _setting(
        5.0,
        "State",
        "Longest wait of a write for other writers of the database; then it gets a 503.",
    )
    delete_jobs_after_s: Seconds | None = _setting(
        None,
        "State",
        "Time after which an ended calibration job is deleted with its problems and recordings. "
        "Default: never.",
        example=2592000.0,
    )
    evidence: bool = _setting(
        False,
        "State",
        "Keep a record of every answer. If a record cannot be written, the answer is withheld.",
    )
    evidence_folder: Location | None = _setting(
        None,
        "State",
        "Folder of the records of `evidence`. Default: evidence in `state`.",
        example="/var/lib/rlcm-serve/evidence",
    )
    evidence_texts: bool = _setting(
        False,
        "State",
        "Also keep the texts of questions and answers in the records of `evidence`; otherwise only "
        "their hashes.",
    )
    evidence_key: Location | None = _setting(
        None,
        "State",
        "Private key (PEM file) that signs the records of `evidence`, from `rlcm keys "
        "new-signing-key`. Default: none, and nothing is signed.",
        example="signing.pem",
    )
    evidence_days: Annotated[float, Field(gt=0)] | None = _setting(
        None,
        "State",
        "Days for which the records of `evidence` are kept. Default: for ever.",
        example=365,
    )
    job_concurrency: Count = _setting(
        8, "State", "Problems that a calibration job records at the same time."
    )

    monitor: bool = _setting(
        True,
        "Monitoring",
        "Store what is known of each answer, without its text, and test the certificates on labels "
        "and readings.",
    )
    audit_share: Annotated[float, Field(ge=0, le=1)] = _setting(
        0.05, "Monitoring", "Share of the answers that is drawn for audit: these need a label."
    )
    audit_shares: Annotated[list[str], NoDecode, Listed] = _setting(
        [],
        "Monitoring",
        "Audit shares of single keys and kinds of questions, in place of `audit_share`: "
        "key:ID=SHARE or kind:NAME=SHARE. A key's goes before a kind's.",
        flag="--audit-share-of",
    )
    audit_deadline_s: Seconds = _setting(
        604800.0,
        "Monitoring",
        "Time for the label of an audited answer. Without one, the test counts it as right.",
    )
    audit_texts: bool = _setting(
        False,
        "Monitoring",
        "Also store the texts of questions and answers, for whoever labels them.",
    )
    shadow_share: Annotated[float, Field(ge=0, le=1)] = _setting(
        0.0,
        "Monitoring",
        "Share of the answers after which the model thinks on in the background, to the full "
        "budget, to see whether the answer would change. It costs the tokens that the early exit "
        "saved.",
    )
    shadow_runs: Annotated[int, Field(ge=1)] = _setting(
        2, "Monitoring", "Number of runs of `shadow_share` at the same time, in each process."
    )
    rehearse: Annotated[str, BeforeValidator(at_home)] | None = _setting(
        None,
        "Monitoring",
        "Certificate to judge on live answers while others serve: a file, or the id of a stored "
        "one. Default: none.",
        alias="--shadow",
        example="571b667eda0c",
    )
    tested_labels: Annotated[Literal["trusted", "all"], BeforeValidator(_lower)] = _setting(
        "trusted",
        "Monitoring",
        "Whose labels of audited answers enter the test: those of keys with the scope label or "
        "admin (trusted), or also of the key that asked (all).",
    )
    risk_alarm: Annotated[ActionName, BeforeValidator(_lower)] = _setting(
        "withdraw",
        "Monitoring",
        "If labels show a risk above alpha: withdraw the certificate's guarantee, and answer at "
        "the full budget (withdraw) or with the policy of a smaller level (smaller-level); say so "
        "(warn), or only show it (none).",
    )
    drift_alarm: Annotated[ActionName, BeforeValidator(_lower)] = _setting(
        "warn",
        "Monitoring",
        "If questions or readings are shown to have changed since calibration: withdraw, "
        "smaller-level, warn or none, as for `risk_alarm`.",
    )
    alarm_actions: Annotated[list[str], NoDecode, Listed] = _setting(
        [],
        "Monitoring",
        "Actions of single certificates, in place of `risk_alarm` and `drift_alarm`: "
        "ID:risk=ACTION or ID:drift=ACTION.",
        flag="--alarm-action",
    )
    alarm_webhook: str | None = _setting(
        None,
        "Monitoring",
        "URL to which alarms are posted as JSON. Default: none.",
        repr=False,
        example="https://hooks.example.com/rlcm",
    )
    runbook_url: str | None = _setting(
        None,
        "Monitoring",
        "URL of the page of runbooks, to which events and alarms link: this documentation's, or a "
        "copy with the same sections. Default: none.",
        example="https://docs.example.com/guides/runbooks.html",
    )
    answers_days: Annotated[float, Field(gt=0)] = _setting(
        90.0, "Monitoring", "Days for which answers and their labels are stored."
    )

    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = (
        _setting("info", "Logs", "Minimum level of logged messages.")
    )
    log_format: Annotated[Literal["auto", "json", "console"], BeforeValidator(_lower)] = _setting(
        "auto", "Logs", "Log format: json, console, or auto (console on a terminal, else json)."
    )
    log_prompts: bool = _setting(False, "Logs", "Also log questions and answers.")
    otlp_endpoint: str | None = _setting(
        None,
        "Logs",
        "URL of an OTLP/HTTP receiver for traces. Default: no traces.",
        example="http://localhost:4318",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed: `load_settings` merges the others, and remembers which was which."""
        return (init_settings,)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.no_certificate and self.certificates:
            _refuse("no_certificate is on, but certificates are given: remove one of the two")
        if self.auth == "off" and not self.is_loopback:
            _refuse(
                f"auth is off, but host is {self.host!r}, which others can reach: listen on "
                "127.0.0.1, or set auth to on and make keys with `rlcm keys new`"
            )
        if "" in self.served_model_names:
            _refuse("served_model_names has an empty name: remove it")
        for name in self.allowed_hosts:
            _check_host(name)
        for origin in self.cors_origins:
            _check_origin(origin)
        if self.otlp_endpoint and not _is_url(self.otlp_endpoint):
            _refuse(
                f"otlp_endpoint is {self.otlp_endpoint!r}: give a URL such as http://localhost:4318"
            )
        if self.alarm_webhook and not _is_url(self.alarm_webhook):
            _refuse("alarm_webhook is no URL: give one such as https://hooks.example.com/rlcm")
        if self.runbook_url and not _is_url(self.runbook_url):
            _refuse(
                f"runbook_url is {self.runbook_url!r}: give a URL such as "
                "https://docs.example.com/guides/runbooks.html"
            )
        try:
            AuditShares.parse(self.audit_share, self.audit_shares)
            AlarmActions.parse(self.risk_alarm, self.drift_alarm, self.alarm_actions)
        except ValueError as error:
            _refuse(str(error))
        if self.answers_days * 86_400 < self.audit_deadline_s:
            _refuse(
                f"answers_days is {self.answers_days:g}, and audit_deadline_s is "
                f"{self.audit_deadline_s:g}: keep answers until their deadline, or longer"
            )
        if not self.evidence:
            self._refuse_idle("evidence", *_OF_EVIDENCE)
        self._require_monitor()
        return self

    def _refuse_idle(self, switch: str, *names: str) -> None:
        for name in names:
            if getattr(self, name):
                _refuse(
                    f"{name} is given, but {switch} is off, so it would do nothing: set {switch} "
                    f"to true, or leave {name} out"
                )

    def _require_monitor(self) -> None:
        if self.monitor:
            return
        if self.shadow_share:
            _refuse(
                f"shadow_share is {self.shadow_share:g}, but monitor is off, so no shadow run "
                "would be stored: set monitor to true, or shadow_share to 0"
            )
        if self.rehearse is not None:
            _refuse(
                f"rehearse is {self.rehearse!r}, but monitor is off, so nothing would "
                "be rehearsed: set monitor to true, or leave rehearse out"
            )
        self._refuse_idle("monitor", *_OF_MONITOR)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name: it may stand for any address
            return False

    @property
    def keys_needed(self) -> bool:
        """Whether a request must carry an API key."""
        return self.auth == "on" or (self.auth == "auto" and not self.is_loopback)

    @property
    def shares(self) -> AuditShares:
        """The shares of answers that are drawn for audit."""
        return AuditShares.parse(self.audit_share, self.audit_shares)

    @property
    def actions(self) -> AlarmActions:
        """What is done about alarms."""
        return AlarmActions.parse(self.risk_alarm, self.drift_alarm, self.alarm_actions)

    @property
    def evidence_path(self) -> Path:
        """Where the records of answers are."""
        return self.evidence_folder or self.state.absolute() / "evidence"

    @property
    def database_url(self) -> str:
        """Where the database is."""
        return self.database or f"sqlite:///{self.state.absolute() / 'rlcm.db'}"

    def engine(self) -> EngineSettings:
        """The part that is the engine's."""
        from rlcm_serve.engine.launch import EngineSettings

        return EngineSettings(
            model=self.model,
            probe=self.probe,
            confidence=self.confidence,
            interval=self.interval,
            thinking=self.thinking,
            max_tokens=self.max_tokens,
            answer_max_tokens=self.answer_max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            self_test=self.self_test,
            log_stats=self.vllm_metrics,
            served_name=next(iter(self.served_model_names), None),
            log=None if self.verbose else self.engine_log or default_engine_log(),
            vllm_arguments=self.vllm_arguments,
        )


def _is_url(value: str) -> bool:
    """Whether HTTP can reach it."""
    try:
        url = urlsplit(value)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # no number as port, or a broken IPv6 address
        return False


def _check_host(name: str) -> None:
    if re.fullmatch(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f:.]+\]?", name) is None:
        _refuse(
            f"allowed_hosts has {name!r}: give a name or an address alone, without scheme and "
            "port, such as rlcm.example.com (international names as xn--...)"
        )


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    is_origin = parts.scheme in ("http", "https") and parts.netloc
    if origin != "*" and (not is_origin or parts.path or parts.query or parts.fragment):
        _refuse(
            f"cors_origins has {origin!r}: give scheme, host and port alone, such as "
            "https://app.example.com, or * for any"
        )


def _refuse(why: str) -> NoReturn:
    raise PydanticCustomError("settings", "{why}", {"why": why})
