"""Builds the service from its settings: engine, database, and the objects that routes use."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calibration.certificate.certificate import Certificate
from rlcm_serve.admission import ALONE_AFTER, Admission, RateLimits
from rlcm_serve.answers.profile_graders import require_answerable
from rlcm_serve.api.context import Context
from rlcm_serve.api.monitoring.rehearsals import open_rehearsals
from rlcm_serve.api.monitoring.shadows import open_shadows
from rlcm_serve.api.server.draining import Draining
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
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, unknown_profile
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
from rlcm_serve.telemetry.alarms import evaluation_of
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.tracing import start_tracing


def build_service(
    settings: EngineSettings,
    certificates: Sequence[Path] | None,
    on_stage: Callable[[str], None],
    load: LoadGuarantees = Guarantees.load,
    restart_policy: RestartPolicy | None = None,
    *,
    profiles: Sequence[Path] = (),
    profile: str | None = None,
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
        profile: name of a profile that questions will ask for.
        client: of a vLLM that runs, to adopt it (`AsyncLLM`); None launches one.

    Raises:
        ModelRefused: the model does not exist.
        ProfileRefused: a profile cannot be used, or two have one name.
        RequestRefused: no profile has that name.
        CertificateError: a file is no certificate. Whether it is for this engine shows once the
            engine runs.
    """
    folder = resolve_model(settings.model)
    if certificates is None:
        certificates = find_certificates(folder)
    settings = replace(settings, profiles=load_profiles([*find_profiles(folder), *profiles]))
    for each in settings.profiles:
        require_answerable(each)
    known = DEFAULT_PROFILE, *settings.profiles
    if profile is not None and profile not in {each.name for each in known}:
        raise unknown_profile(profile, known)
    for file in certificates:
        Certificate.load(file)
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
    store = CertificateStore(database, trusted, serves=not settings.no_certificate)
    files = [] if settings.no_certificate else settings.certificates
    restart_policy = RestartPolicy(hang=settings.hang_s)
    if not restarts:
        restart_policy = replace(restart_policy, attempts=0)
    service = build_service(
        settings.engine(),
        files,
        on_stage,
        store.load,
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


def _no_key(settings: Settings) -> str:
    where: list[str] = []
    if settings.database:
        where = ["--database", shown("database", settings.database)]
    elif "state" in settings.model_fields_set:
        where = ["--state", str(settings.state)]
    command = shlex.join(["rlcm", "keys", "new", "--scope", "solve", "--name", "NAME", *where])
    why = "auth is on" if settings.auth == "on" else f"others can reach the host {settings.host!r}"
    return f"{why}, and there is no API key that could open the service: make one with `{command}`"
