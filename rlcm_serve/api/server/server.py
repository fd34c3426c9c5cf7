"""Builds the engine, the database and the server of `rlcm serve`."""

from __future__ import annotations

import asyncio
import logging
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from rlcm_serve.admission import ALONE_AFTER, Admission, RateLimits
from rlcm_serve.answers.profile_graders import require_answerable
from rlcm_serve.api.app import create_app
from rlcm_serve.api.context import Context
from rlcm_serve.api.monitoring.rehearsals import open_rehearsals
from rlcm_serve.api.monitoring.shadows import open_shadows
from rlcm_serve.api.server.draining import Draining
from rlcm_serve.api.server.http_server import LAST_WORDS, HttpServer, listen, url_of
from rlcm_serve.api.server.open_files import raise_limit
from rlcm_serve.api.server.threaded import MOST_AT_ONCE, MOST_WAITING
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.errors import SettingsRefused
from rlcm_serve.evidence.log import open_log
from rlcm_serve.jobs import CalibrationJobs
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.monitoring.running.live import open_monitoring
from rlcm_serve.own_files import own_log
from rlcm_serve.profiles.profile_file import find_profiles, load_profiles
from rlcm_serve.settings import Settings
from rlcm_serve.settings.reference import shown
from rlcm_serve.signing import TrustedKeys
from rlcm_serve.solving.cache_salts import CacheSalts
from rlcm_serve.solving.first_asks import FirstAsks
from rlcm_serve.solving.guarantees import Guarantees, find_certificates
from rlcm_serve.solving.service import LoadGuarantees, Service
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from rlcm_serve.store.limits.stored import StoredBudgets
from rlcm_serve.store.unanswered.stored import StoredUnanswered
from rlcm_serve.telemetry import logs
from rlcm_serve.telemetry.alarms import evaluation_of
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.tracing import start_tracing
from rlcm_serve.terminal import StageClock, kept_stderr

_log = logging.getLogger("rlcm_serve")


def build_service(
    settings: EngineSettings,
    certificates: Sequence[Path] | None,
    on_stage: Callable[[str], None],
    load: LoadGuarantees = Guarantees.load,
    restart_policy: RestartPolicy | None = None,
    *,
    profiles: Sequence[Path] = (),
    client: Any = None,
) -> Service:
    """Builds a service without starting it.

    Args:
        settings: of the engine.
        certificates: files to serve under; None takes those in the model's folder, an empty
            sequence serves without a guarantee.
        on_stage: called with each stage of the start.
        load: turns these files into guarantees once the engine is known.
        restart_policy: when the engine is restarted; None takes the defaults.
        profiles: files of prompt profiles, beside those in the model's folder.
        client: of a vLLM that runs, to adopt it (`AsyncLLM`); None launches one.

    Raises:
        ModelRefused: the model does not exist.
        ProfileRefused: a profile cannot be used, or two have one name.
    """
    folder = resolve_model(settings.model)
    if certificates is None:
        certificates = find_certificates(folder)
    settings = replace(settings, profiles=load_profiles([*find_profiles(folder), *profiles]))
    for profile in settings.profiles:
        require_answerable(profile)
    engine = VllmEngine(settings, client)
    service = Service(
        engine, certificates, on_stage=on_stage, load=load, restart_policy=restart_policy
    )
    engine.on_stage = service.enter
    return service


def build_context(
    settings: Settings,
    database: Database,
    on_stage: Callable[[str], None],
    *,
    restarts: bool = True,
    client: Any = None,
) -> Context:
    """Builds the objects that the routes use, without starting them.

    Args:
        settings: of the service.
        database: open.
        on_stage: called with each stage of the start, in any thread.
        restarts: whether the service restarts an engine that dies or hangs; otherwise it fails.
        client: of a vLLM that runs, to adopt it (`AsyncLLM`); None launches one.

    Raises:
        ModelRefused: the model does not exist.
        ProfileRefused: a prompt profile cannot be used.
        SettingsRefused: tracing is enabled, but OpenTelemetry is not installed.
        SignatureRefused: a trusted key cannot be read.
    """
    trusted = TrustedKeys.load(settings.trusted_keys or (), settings.require_signature)
    store = CertificateStore(database, trusted)
    files = [] if settings.no_certificate else settings.certificates
    load = Guarantees.load if settings.no_certificate else store.load
    restart_policy = RestartPolicy(hang=settings.hang_s)
    if not restarts:
        restart_policy = replace(restart_policy, attempts=0)
    service = build_service(
        settings.engine(),
        files,
        on_stage,
        load,
        restart_policy,
        profiles=settings.profiles or (),
        client=client,
    )
    admission = Admission(
        settings.max_running,
        settings.max_waiting,
        share=settings.key_share,
        alone_after=ALONE_AFTER,
    )
    jobs = CalibrationJobs(
        database,
        service,
        store,
        settings.job_concurrency,
        settings.delete_jobs_after_s,
        FitLimits.of(settings),
    )
    metrics = Metrics()
    aggregations = Admission(MOST_AT_ONCE, MOST_WAITING, share=settings.key_share)
    monitoring = open_monitoring(settings, database, store)
    metrics.watch(
        admission=admission,
        aggregations=aggregations,
        service=service,
        jobs=jobs.store.count,
        monitoring=None
        if monitoring is None
        else partial(monitoring.betting.figures.read, history=False),
    )
    tracing = start_tracing(settings.otlp_endpoint)
    if monitoring is not None:
        monitoring.betting.on_alarm = lambda event: tracing.evaluated(evaluation_of(event))
    return Context(
        settings=settings,
        service=service,
        database=database,
        keys=Keys(database),
        admission=admission,
        aggregations=aggregations,
        draining=Draining(),
        metrics=metrics,
        certificates=store,
        jobs=jobs,
        first_asks=FirstAsks(StoredUnanswered(database, settings.unanswered_s)),
        tracing=tracing,
        evidence=open_log(settings, metrics.evidence.written),
        monitoring=monitoring,
        shadows=open_shadows(settings, monitoring, admission, service),
        rehearsals=open_rehearsals(monitoring, store, admission, service),
        rates=RateLimits(StoredBudgets(database)),
        cache_salts=CacheSalts(shared=settings.prefix_cache == "shared"),
    )


def run_server(settings: Settings) -> None:
    """Serves until a signal; `/health` returns 200 at once, `/readyz` once the engine is up.

    Raises:
        SettingsRefused: the address is taken, or keys are required and none exists.
        DatabaseRefused: the database cannot be used.
        RlcmError: the engine did not start.
    """
    raise_limit()
    with (
        _listening(settings) as sockets,
        kept_stderr() as stderr,
        open_database(settings) as database,
    ):
        form = log_form(settings, stderr)
        logs.configure(settings.log_level, form, stderr)
        if settings.log_level != "debug":
            logging.getLogger("uvicorn").setLevel(logging.WARNING)  # our logs report its steps
            logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        try:
            failure = _serve(settings, sockets, database, _stages(form, stderr))
        finally:
            logs.configure(settings.log_level, form)
    if failure is not None:
        raise failure


def _serve(
    settings: Settings,
    sockets: list[socket.socket],
    database: Database,
    on_stage: Callable[[str], None],
) -> BaseException | None:
    """Returns the error that ended the server; None if a signal did."""
    context = build_context(settings, database, on_stage)
    _log.info("listening on %s", url_of(sockets))
    if (log := settings.engine().log) is not None:
        _log.info("vLLM writes to %s", own_log(log).path)
    server = HttpServer(
        lambda fail: create_app(context, fail), lambda: drain(context), context.tracing.close
    )
    server.run(sockets)
    return server.failure


async def drain(context: Context) -> None:
    """Refuses new requests, gives running ones `drain_s` seconds to finish, then ends them."""
    context.admission.close()
    context.aggregations.close()
    context.grading.drain()
    context.draining.close()
    try:
        async with asyncio.timeout(context.settings.drain_s):
            await context.admission.idle()
            await context.draining.idle()
    except TimeoutError:
        _log.warning("ending %d requests that are not finished", context.draining.running)
        context.draining.cut()
        try:
            async with asyncio.timeout(LAST_WORDS):
                await context.draining.idle()
        except TimeoutError:
            _log.warning("%d requests do not end", context.draining.running)
    await context.first_asks.close()
    await context.keys.close()
    await context.rates.close()


@contextmanager
def _listening(settings: Settings) -> Iterator[list[socket.socket]]:
    """Opens the sockets first, so that a taken port fails before the model is loaded."""
    sockets = listen(settings.host, settings.port)
    try:
        yield sockets
    finally:
        for opened in sockets:
            opened.close()


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """The database, until the block ends.

    Raises:
        DatabaseRefused: it cannot be used.
        SettingsRefused: keys are required and none exists.
    """
    database = Database(settings.database_url, settings.database_wait_s)
    try:
        if settings.keys_needed and not Keys(database).any_active():
            raise SettingsRefused(_no_key(settings))
        yield database
    finally:
        database.close()


def log_form(settings: Settings, stderr: TextIO) -> str:
    """The form of this process's log lines: `json` or `console`."""
    if settings.log_format == "auto":
        return "console" if stderr.isatty() else "json"
    return settings.log_format


def _stages(form: str, stderr: TextIO) -> Callable[[str], None]:
    return StageClock(Console(file=stderr)) if form == "console" else _log.info


def _no_key(settings: Settings) -> str:
    where: list[str] = []
    if settings.database:
        where = ["--database", shown("database", settings.database)]
    elif "state" in settings.model_fields_set:
        where = ["--state", str(settings.state)]
    command = shlex.join(["rlcm", "keys", "new", "--scope", "solve", "--name", "NAME", *where])
    why = "auth is on" if settings.auth == "on" else f"others can reach the host {settings.host!r}"
    return f"{why}, and there is no API key that could open the service: make one with `{command}`"
