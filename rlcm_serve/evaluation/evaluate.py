"""Runs an evaluation: record, grade, measure, report. Each step writes files.

A second run in the same folder reuses finished rollouts and verdicts. It always measures and
reports again, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from calibration import Certificate
from calibration.errors import CertificateError, TraceError
from calibration.files import write_text
from calibration.testing.methods import find_split
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.traces import Traces
from rlcm_serve.answers.extraction import Extractor
from rlcm_serve.answers.grading.base import Grader
from rlcm_serve.answers.profile_graders import grader_name
from rlcm_serve.core import RiskName
from rlcm_serve.engine.contract import EngineIdentity, Reasoner
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.datasets.loading import LoadedBenchmark
from rlcm_serve.evaluation.graded import answers_after_stops, graded_table
from rlcm_serve.evaluation.grading.cache import Grades, grade_missing
from rlcm_serve.evaluation.measuring.measure import measure_benchmark
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.recording import EvaluationRecorder
from rlcm_serve.evaluation.report import write_report
from rlcm_serve.evaluation.rollouts import EvaluationRollout
from rlcm_serve.evaluation.run_folder import RunFolder, flat, plain_manifest, write_table
from rlcm_serve.evaluation.sources import ABOUT, Source
from rlcm_serve.recording.journal import RecordingJournal
from rlcm_serve.recording.offline import OpenRecorders, recorders_here
from rlcm_serve.recording.recorder import RecordsRollouts, record_missing
from rlcm_serve.recording.trained import require_untrained
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import find_certificates
from rlcm_serve.terminal import shown_progress

_TEXTS = ("forced_suffix", "request")
"""Settings whose blanks and line breaks count."""
_RISKS = [risk.value for risk in RiskName]
"""In the order of the report."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What an evaluation runs.

    Attributes:
        settings: of the engine.
        benchmarks: loaded.
        source: the run's own source of confidence, for votes by budget, tables and certificates.
        sources: to record, `source` included; sources without token cost are always recorded.
        rollouts: per problem; None takes the number of each benchmark.
        answers: K, forced at every reading.
        out: folder of the run.
        request: text that follows every problem.
    """

    settings: EngineSettings
    benchmarks: Sequence[LoadedBenchmark]
    source: Source
    sources: frozenset[Source]
    rollouts: int | None
    answers: int
    out: Path
    request: str = ""

    def rollouts_of(self, benchmark: LoadedBenchmark) -> int:
        """Rollouts per problem of this benchmark."""
        return self.rollouts or benchmark.rollouts

    @property
    def folder(self) -> RunFolder:
        """The files of the run."""
        return RunFolder(self.out)


async def evaluate(
    plan: EvaluationPlan, console: Console, open_recorders: OpenRecorders = recorders_here
) -> Path:
    """Records what is missing, grades, measures and reports; returns the path of the report.

    Raises:
        RequestRefused: the folder holds another run, or a problem does not fit into the context.
        ModelRefused, EngineDead: the engine cannot run the model, or died; the folder keeps
            finished rollouts.
    """
    with ExitStack() as graders:
        for benchmark in plan.benchmarks:
            graders.enter_context(benchmark.grader)
        identity = await record(plan, console, open_recorders)
        for benchmark in plan.benchmarks:
            grade(benchmark, plan, identity, console)
    return measure(plan, console)


async def record(
    plan: EvaluationPlan, console: Console, open_recorders: OpenRecorders
) -> EngineIdentity:
    """Records the rollouts that the folder does not hold yet; returns the engine's identity."""
    plan.folder.require_same(_settings(plan))  # before minutes go into starting the engine
    for benchmark in plan.benchmarks:
        plan.folder.benchmark(benchmark.name).with_all(benchmark.problems)
    extractors = [benchmark.grader.extractor for benchmark in plan.benchmarks]
    build = partial(_recorders, extractors, plan.answers, plan.sources)
    async with open_recorders(plan.settings, build, console) as (identity, recorders):
        for recorder, benchmark in zip(recorders, plan.benchmarks, strict=True):
            await recorder.check_all(benchmark.problems)
        engine = plain_manifest(engine=identity.to_json())
        plan.folder.begin(_settings(plan) | engine)
        for recorder, benchmark in zip(recorders, plan.benchmarks, strict=True):
            await _record(recorder, benchmark, plan, console)
    return identity


@contextmanager
def _recorders(
    extractors: Sequence[Extractor], answers: int, sources: Collection[Source], engine: Reasoner
) -> Iterator[Sequence[EvaluationRecorder]]:
    """A recorder for each benchmark's extractor."""
    yield [EvaluationRecorder(engine, extractor, answers, sources) for extractor in extractors]


def _settings(plan: EvaluationPlan) -> dict[str, Any]:
    """The settings that all rollouts in a folder share; rollouts and benchmarks may be added."""
    return plain_manifest(
        format="rlcm-evaluation",
        version=1,
        model=plan.settings.model,
        source=plan.source,
        sources=sorted(plan.sources),
        answers=plan.answers,
        request=plan.request,
    )


async def _record(
    recorder: RecordsRollouts[EvaluationRollout],
    benchmark: LoadedBenchmark,
    plan: EvaluationPlan,
    console: Console,
) -> None:
    folder, rollouts = plan.folder.benchmark(benchmark.name), plan.rollouts_of(benchmark)
    settings = {"grader": benchmark.grader.name}
    folder.begin(benchmark.problems)
    wanted = {(problem.id, number) for problem in benchmark.problems for number in range(rollouts)}
    finished = folder.finished()
    with RecordingJournal(EvaluationRollout, folder.journal, settings, finished) as journal:
        if wanted - journal.keys():
            with shown_progress(console, benchmark.title) as progress:
                await record_missing(recorder, benchmark.problems, rollouts, journal, progress)
        recordings = list(journal.recordings())
        if recordings:
            folder.write([*folder.read(), *recordings])
        folder.journal.unlink()  # while the lock still keeps other runs out


def grade(
    benchmark: LoadedBenchmark, plan: EvaluationPlan, identity: EngineIdentity, console: Console
) -> None:
    """Grades the planned rollouts and writes their traces; the folder may hold more rollouts.

    Traces of problems that trained the model or its probe have no fingerprint: a certificate must
    not be fitted on them.
    """
    part, grader = plan.folder.benchmark(benchmark.name), benchmark.grader
    fingerprint = _fingerprint(identity, plan.source, grader)
    if seen := seen_in_training(benchmark, plan):
        fingerprint = None
        said = f"warning: {benchmark.title}: {seen}. No service takes a certificate from its traces"
        console.print(said, style="yellow", markup=False, highlight=False, soft_wrap=True)
    references = {problem.id: problem.answer for problem in benchmark.problems}
    rollouts = range(plan.rollouts_of(benchmark))
    recordings = [
        recording
        for recording in part.read()
        if recording.problem_id in references and recording.rollout in rollouts
    ]
    pairs = sorted(
        {(answer, references[problem_id]) for problem_id, answer in answers_after_stops(recordings)}
    )
    with shown_progress(console, f"grading {benchmark.title}") as progress:
        verdicts = grade_missing(grader, pairs, Grades(plan.folder.grades_file), progress)
    with shown_progress(console, "comparing answers") as progress:
        table = graded_table(
            recordings,
            references,
            {problem.id: problem.group for problem in benchmark.problems},
            verdicts,
            lambda lists: grader.classes_of_all(lists, progress),
            plan.source,
            fingerprint,
        )
    write_table(part.traces, table)


def seen_in_training(benchmark: LoadedBenchmark, plan: EvaluationPlan) -> str | None:
    """Says how many of the problems trained the model or its probe; None if none did."""
    model = resolve_model(plan.settings.model)
    bare = [
        replace(one, problem=one.problem.removesuffix(plan.request)) for one in benchmark.problems
    ]
    try:
        require_untrained(bare, model, plan.settings.probe or model / PROBE_FOLDER)
    except RequestRefused as error:
        return str(error)
    return None


def _fingerprint(identity: EngineIdentity, source: Source, grader: Grader) -> Fingerprint | None:
    """The fingerprint for a certificate fitted on these traces.

    None if no service could use it: a service exits by online sources and has one grader.
    """
    servable = ABOUT[source].online and grader.name == grader_name(identity.profile)
    return fingerprint_of(identity) if servable else None


def measure(plan: EvaluationPlan, console: Console) -> Path:
    """Measures the graded rollouts and writes figures and report."""
    model = resolve_model(plan.settings.model)
    loaded = map(Certificate.load, find_certificates(model))
    certificates = [one for one in loaded if one.risk in _RISKS]  # not those of custom losses
    certificates.sort(key=lambda one: (_RISKS.index(one.risk), one.procedure.samples))
    measured = []
    for benchmark in plan.benchmarks:
        with console.status(f"measuring {benchmark.title}"):
            measured.append(_measure(benchmark, plan, certificates, console))
    run = RunMeasures(
        name=plan.settings.model,
        source=plan.source,
        made_by={
            name: repr(value) if name.endswith(_TEXTS) else str(value)
            for name, value in flat(plan.folder.manifest()).items()
        }
        | {
            f"{one.title}, seen in training": seen
            for one in plan.benchmarks
            if (seen := seen_in_training(one, plan))
        },
        rollouts={one.name: plan.rollouts_of(one) for one in plan.benchmarks},
        created=date.today().isoformat(),
        version=version("rlcm-serve"),
        benchmarks=tuple(measured),
    )
    with console.status("plotting"):
        text = msgspec.json.format(msgspec.json.encode(run)).decode()
        write_text(plan.folder.metrics_file, text)
        return write_report(run, plan.out)


def _measure(
    benchmark: LoadedBenchmark,
    plan: EvaluationPlan,
    certificates: Sequence[Certificate],
    console: Console,
) -> BenchmarkMeasures:
    part = plan.folder.benchmark(benchmark.name)
    recorded = Recorded.read(part.traces, plan.source)
    traces, texts = recorded.own, part.texts()
    ids = (traces.problem_ids[problem] for problem in traces.problem_R)
    return measure_benchmark(
        benchmark,
        recorded,
        [texts[key] for key in zip(ids, traces.rollout_R.tolist(), strict=True)],
        with_other_problems(certificates, traces, console),
    )


def with_other_problems(
    certificates: Sequence[Certificate], traces: Traces, console: Console
) -> list[Certificate]:
    """The certificates that these traces can test; prints why the first other one cannot be."""
    reasons = {certificate.id: _mismatch(certificate, traces) for certificate in certificates}
    left_out = [(id_, reason) for id_, reason in reasons.items() if reason is not None]
    if left_out:
        id_, reason = left_out[0]
        more = f"; {len(left_out) - 1} more are left out too" if len(left_out) > 1 else ""
        message = f"certificate {id_} is left out: {reason}{more}"
        console.print(message, markup=False, highlight=False, soft_wrap=True)
    return [certificate for certificate in certificates if reasons[certificate.id] is None]


def _mismatch(certificate: Certificate, traces: Traces) -> str | None:
    if certificate.about is not None:
        return f"it is for one kind of question alone ({certificate.about})"
    if traces.fingerprint is None:
        return (
            "no engine exits by this source of confidence with this grader, or these problems "
            "trained the model"
        )
    try:
        certificate.require_traces(traces.fingerprint)
    except CertificateError as error:
        return f"it was fitted for another engine ({error})"
    try:
        passing = traces.passing()
    except TraceError:
        return "none of these problems passes the familiarity check"
    if find_split(passing, certificate.calibration_digest) is not None:
        return "it was fitted on these rollouts"
    return None
