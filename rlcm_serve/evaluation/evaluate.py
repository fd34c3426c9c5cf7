"""An evaluation, start to finish: load, run, grade, measure, report; each step leaves files.

What an earlier start has finished is not done again: rollouts are kept as they end, verdicts as
they are given. Measuring and reporting always begin anew, for they take seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from calibration import Certificate
from calibration.errors import CertificateError
from calibration.files import write_text
from calibration.testing.methods import find_split
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.traces import Traces
from rlcm_serve.answers.grader import GRADER
from rlcm_serve.core import RiskName
from rlcm_serve.engine.contract import EngineIdentity, ReasoningEngine
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.evaluation.datasets.loading import LoadedBenchmark
from rlcm_serve.evaluation.graded import answers_given, graded_table
from rlcm_serve.evaluation.grading.base import Grader
from rlcm_serve.evaluation.grading.cache import Grades, grade_missing
from rlcm_serve.evaluation.measuring.measure import measure_benchmark
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.recording import EvaluationRecorder
from rlcm_serve.evaluation.report import write_report
from rlcm_serve.evaluation.rollouts import EvaluationRollout
from rlcm_serve.evaluation.run_folder import (
    BenchmarkFolder,
    RunFolder,
    flat,
    plain_manifest,
    write_table,
)
from rlcm_serve.evaluation.sources import ABOUT, Source
from rlcm_serve.recording.journal import RecordingJournal
from rlcm_serve.recording.offline import running_engine
from rlcm_serve.recording.recorder import record_missing
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import find_certificates
from rlcm_serve.terminal import progress_bar

_RISKS = [risk.value for risk in RiskName]
"""In the order of a report."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be evaluated.

    Attributes:
        settings: of the engine.
        benchmarks: loaded.
        source: the run's own: what votes by budget, tables and shipped certificates go by.
        sources: to record, `source` among them; those that cost nothing are recorded anyway.
        rollouts: per problem; None takes each benchmark's own number.
        answers: K, forced at every reading.
        out: folder of the run.
    """

    settings: EngineSettings
    benchmarks: Sequence[LoadedBenchmark]
    source: Source
    sources: frozenset[Source]
    rollouts: int | None
    answers: int
    out: Path

    def rollouts_of(self, benchmark: LoadedBenchmark) -> int:
        """Rollouts of each of its problems."""
        return self.rollouts or benchmark.rollouts


async def evaluate(asked: Asked, console: Console) -> Path:
    """Runs what is missing, grades, measures and reports; returns the path of the report.

    Raises:
        RequestRefused: the folder holds another run, or a problem does not fit into the context.
        ModelRefused, EngineDead: the engine cannot run the model, or died; what was finished is
            kept.
    """
    folder = RunFolder(asked.out)
    with ExitStack() as graders:
        for benchmark in asked.benchmarks:
            graders.enter_context(benchmark.grader)
        async with running_engine(asked.settings, console) as engine:
            await record(engine, asked, folder, console)
            identity = engine.identity
        for benchmark in asked.benchmarks:
            grade(benchmark, asked, identity, folder, console)
    return measure(asked, folder, console)


async def record(
    engine: ReasoningEngine, asked: Asked, folder: RunFolder, console: Console
) -> None:
    """Runs the rollouts that the folder does not hold yet."""
    recorders = [
        EvaluationRecorder(engine, benchmark.grader, asked.answers, asked.sources)
        for benchmark in asked.benchmarks
    ]
    for recorder, benchmark in zip(recorders, asked.benchmarks, strict=True):
        for problem in benchmark.problems:  # all of them, before hours are spent on the first
            recorder.check(problem)
    folder.begin(_manifest(asked, engine.identity))
    for recorder, benchmark in zip(recorders, asked.benchmarks, strict=True):
        await _record(recorder, benchmark, asked, folder.benchmark(benchmark.name), console)


def _manifest(asked: Asked, identity: EngineIdentity) -> dict[str, Any]:
    """What two runs have to share to be parts of one; rollouts and benchmarks may be added."""
    return plain_manifest(
        format="rlcm-evaluation",
        version=1,
        model=asked.settings.model,
        engine=identity,
        source=asked.source,
        sources=sorted(asked.sources),
        answers=asked.answers,
    )


async def _record(
    recorder: EvaluationRecorder,
    benchmark: LoadedBenchmark,
    asked: Asked,
    folder: BenchmarkFolder,
    console: Console,
) -> None:
    rollouts = asked.rollouts_of(benchmark)
    made_with = {"grader": benchmark.grader.name}
    folder.begin(benchmark.problems)
    wanted = {(problem.id, number) for problem in benchmark.problems for number in range(rollouts)}
    with RecordingJournal(
        EvaluationRollout, folder.journal, made_with, folder.finished()
    ) as journal:
        if wanted - journal.keys():
            with progress_bar(console) as progress:
                bar = progress.add_task(benchmark.title, total=None)
                await record_missing(
                    recorder,
                    benchmark.problems,
                    rollouts,
                    journal,
                    lambda done, total: progress.update(bar, completed=done, total=total),
                )
        made = list(journal.recordings())
    if made:
        folder.write([*folder.read(), *made])
    folder.journal.unlink()


def grade(
    benchmark: LoadedBenchmark,
    asked: Asked,
    identity: EngineIdentity,
    folder: RunFolder,
    console: Console,
) -> None:
    """Grades the rollouts that were asked for, of all that are there; writes their traces."""
    part, grader = folder.benchmark(benchmark.name), benchmark.grader
    references = {problem.id: problem.answer for problem in benchmark.problems}
    rollouts = range(asked.rollouts_of(benchmark))
    records = [
        record
        for record in part.read()
        if record.problem_id in references and record.rollout in rollouts
    ]
    pairs = sorted(
        {(answer, references[problem_id]) for problem_id, answer in answers_given(records)}
    )
    with progress_bar(console) as progress:
        bar = progress.add_task(f"grading {benchmark.title}", total=len(pairs))
        verdicts = grade_missing(
            grader,
            pairs,
            Grades(folder.grades_file),
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
        bar = progress.add_task("which answers are the same", total=None)
        table = graded_table(
            records,
            references,
            {problem.id: problem.group for problem in benchmark.problems},
            verdicts,
            lambda lists: grader.classes_of_all(
                lists, lambda done, total: progress.update(bar, completed=done, total=total)
            ),
            asked.source,
            _fingerprint(identity, asked.source, grader),
        )
    write_table(part.traces, table)


def _fingerprint(identity: EngineIdentity, source: Source, grader: Grader) -> Fingerprint | None:
    """Of what a certificate fitted on the table would hold for.

    None if it could hold for no service: one that exits by this source and grades like this.
    """
    servable = ABOUT[source].online and grader.name == GRADER
    return fingerprint_of(identity) if servable else None


def measure(asked: Asked, folder: RunFolder, console: Console) -> Path:
    """Measures what is in the folder and writes figures and report."""
    model = resolve_model(asked.settings.model)
    loaded = map(Certificate.load, find_certificates(model))
    certificates = [one for one in loaded if one.risk in _RISKS]  # another loss is its maker's
    certificates.sort(key=lambda one: (_RISKS.index(one.risk), one.procedure.samples))
    measured = []
    for benchmark in asked.benchmarks:
        with console.status(f"measuring {benchmark.title}"):
            measured.append(_measure(benchmark, asked.source, certificates, folder, console))
    run = RunMeasures(
        name=asked.settings.model,
        source=asked.source,
        made_by={
            name: repr(value) if name.endswith("forced_suffix") else str(value)
            for name, value in flat(folder.manifest()).items()
        },
        rollouts={one.name: asked.rollouts_of(one) for one in asked.benchmarks},
        created=date.today().isoformat(),
        version=version("rlcm-serve"),
        benchmarks=tuple(measured),
    )
    with console.status("drawing"):
        write_text(folder.metrics_file, msgspec.json.format(msgspec.json.encode(run)).decode())
        return write_report(run, folder.path)


def _measure(
    benchmark: LoadedBenchmark,
    source: Source,
    certificates: Sequence[Certificate],
    folder: RunFolder,
    console: Console,
) -> BenchmarkMeasures:
    part = folder.benchmark(benchmark.name)
    recorded = Recorded.read(part.traces, source)
    traces, texts = recorded.own, part.texts()
    ids = (traces.problem_ids[problem] for problem in traces.problem_R)
    return measure_benchmark(
        name=benchmark.name,
        title=benchmark.title,
        grader=benchmark.grader.name,
        problems=benchmark.digest,
        recorded=recorded,
        texts=[texts[key] for key in zip(ids, traces.rollout_R.tolist(), strict=True)],
        parts=benchmark.parts,
        certificates=list(fitting(certificates, traces, console)),
    )


def fitting(
    certificates: Sequence[Certificate], traces: Traces, console: Console
) -> Iterator[Certificate]:
    """Those of what was run, fitted on other problems; of the others the first says why not."""
    told = False
    for certificate in certificates:
        if (why := _unfit(certificate, traces)) is None:
            yield certificate
        elif not told:
            said = f"certificate {certificate.id} is left out, and maybe others: {why}"
            console.print(said, markup=False, highlight=False, soft_wrap=True)
            told = True


def _unfit(certificate: Certificate, traces: Traces) -> str | None:
    if traces.fingerprint is None:
        return "no engine exits by this source of confidence and grader"
    try:
        certificate.require_traces(traces.fingerprint)
    except CertificateError as error:
        return f"it is of another engine ({error})"
    if find_split(traces, certificate.calibration_digest) is not None:
        return "it was fitted on these very rollouts"
    return None
