"""Recordings of labelled problems, for `rlcm fit`: recorded, graded again, read again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rlcm_serve.commands.options import (
    AnswerMaxTokensOption,
    ConfidenceOption,
    IntervalOption,
    JsonOption,
    LogOption,
    MaxTokensOption,
    ModelOption,
    ProbeOption,
    ProfileOption,
    RayOption,
    TemperatureOption,
    ThinkingOption,
    TopPOption,
    VerboseOption,
    VllmArguments,
    engine_settings,
    recorders_on,
    require_other,
)
from rlcm_serve.errors import RequestRefused
from rlcm_serve.terminal import print_result

if TYPE_CHECKING:
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.recording.problems import LabelledProblem
    from rlcm_serve.recording.rollouts import RecordedRollout


def collect(
    data: Annotated[
        Path,
        typer.Option(
            help="JSONL of labelled problems: `problem` and `answer`, and optionally `id`, `group` "
            "and `kind`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Parquet file for the traces.")],
    model: ModelOption = "embedded",
    probe: ProbeOption = None,
    profile: ProfileOption = None,
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts per problem.")] = 1,
    confidence: ConfidenceOption = "probe",
    interval: IntervalOption = None,
    max_tokens: MaxTokensOption = None,
    answer_max_tokens: AnswerMaxTokensOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    thinking: ThinkingOption = None,
    keep_inputs: Annotated[
        bool, typer.Option(help="Also write what a probe can read, for `rlcm reread`.")
    ] = False,
    ray: RayOption = None,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Record labelled problems at full budget, for `rlcm fit`.

    A problem with the answer "?" has no label; `rlcm labels` says which ones need one. Problems
    that trained the probe are refused, as a certificate must not be fitted on them. An interrupted
    run continues where it stopped.
    """
    from calibration import write_traces
    from rlcm_serve.answers.grader import AnswerGrader
    from rlcm_serve.answers.profile_graders import verdicts_of
    from rlcm_serve.core import VoteRule
    from rlcm_serve.recording.inputs import inputs_beside
    from rlcm_serve.recording.kept_inputs import kept_beside, write_kept_inputs
    from rlcm_serve.recording.offline import record_inputs, record_problems
    from rlcm_serve.recording.problems import read_problems
    from rlcm_serve.recording.rollouts import to_rollouts
    from rlcm_serve.solving.fingerprints import fingerprint_of

    if keep_inputs and ray is not None:
        raise RequestRefused(
            "ray", "--keep-inputs records on one engine alone: leave out --ray or --keep-inputs"
        )
    settings = engine_settings(
        model,
        probe=probe,
        profile=profile,
        interval=interval,
        max_tokens=max_tokens,
        answer_max_tokens=answer_max_tokens,
        thinking=thinking,
        temperature=temperature,
        top_p=top_p,
        confidence=confidence,
        engine_log=engine_log,
        verbose=verbose,
        vllm_arguments=vllm_arguments,
    )
    require_other(out, data)
    journal = out.with_name(f"{out.name.removesuffix('.parquet')}.journal.jsonl")
    console = Console(stderr=True)
    problems = read_problems(data)
    warnings = (_require_untrained(settings, problems), _repeats(problems))
    for warning in filter(None, warnings):
        console.print(f"warning: {warning}", style="yellow", highlight=False, soft_wrap=True)
    recordings: Sequence[RecordedRollout]
    if keep_inputs:
        identity, kept = asyncio.run(record_inputs(settings, data, journal, rollouts, 1, console))
        write_kept_inputs(kept_beside(out), kept, inputs_beside(journal))
        recordings = kept
    else:
        identity, recordings = asyncio.run(
            record_problems(settings, data, journal, rollouts, 1, console, recorders_on(ray))
        )
    unlabelled = {one.id for one in problems if not one.is_labelled}
    with AnswerGrader() as grader:
        recorded = to_rollouts(recordings, verdicts_of(identity.profile, grader), unlabelled)
    write_traces(out, recorded, fingerprint_of(identity, samples=1, vote=VoteRule.CONFIDENCE))
    journal.unlink()
    inputs_beside(journal).unlink(missing_ok=True)
    print_result(
        {"traces": out, "rollouts": len(recordings)},
        f"{len(recordings)} rollouts in {out}",
        as_json=as_json,
    )


def _require_untrained(settings: EngineSettings, problems: Sequence[LabelledProblem]) -> str | None:
    """`require_untrained` of the model, and of the probe if exits act on one."""
    from rlcm_serve.core import Signal
    from rlcm_serve.engine.model_files import resolve_model
    from rlcm_serve.engine.worker.probe import PROBE_FOLDER
    from rlcm_serve.recording.trained import require_untrained

    model = resolve_model(settings.model)
    reads_probe = settings.confidence == Signal.PROBE
    probe = (settings.probe or model / PROBE_FOLDER) if reads_probe else None
    return require_untrained(problems, model, probe)


def _repeats(problems: Sequence[LabelledProblem]) -> str | None:
    """A warning if problems have the text of another one and do not share its group."""
    from rlcm_serve.recording.problems import repeated

    if not (again := repeated(problems)):
        return None
    return (
        f"{len(again)} problems have the text of another one and do not share its group, "
        f"{again[0]!r} among them: a certificate would count them as independent; leave them out, "
        "or give equal ones the same group"
    )


def regrade(
    traces: Annotated[Path, typer.Argument(help="Traces: a Parquet file.")],
    data: Annotated[Path, typer.Option(help="JSONL of the problems that were recorded.")],
    out: Annotated[Path, typer.Option(help="Parquet file for the traces with new verdicts.")],
    grader: Annotated[
        str | None,
        typer.Option(
            help="math, choice, code, exact, or module:object. Default: the grader of the traces."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Grade recorded traces again, after a change of grader. Needs no model.

    Takes the answers' texts as recorded, and writes new verdicts, classes and the grader's name.
    Problems with the answer "?" have no label, and get no verdicts.
    """
    from calibration.traces.traces import write_table
    from rlcm_serve.evaluation.regrading import read_table, regrade, regrader
    from rlcm_serve.recording.problems import read_problems
    from rlcm_serve.terminal import shown_progress

    require_other(out, data)
    table, problems = read_table(traces), read_problems(data)
    with (
        regrader(table, grader) as graded_by,
        shown_progress(Console(stderr=True), "grading") as progress,
    ):
        found = regrade(table, problems, graded_by, progress)
    write_table(out, found.table, str(traces))
    print_result(
        {
            "traces": out,
            "readings": len(table),
            "grader": graded_by.name,
            "was": found.was,
            "became_right": found.became_right,
            "became_wrong": found.became_wrong,
            "regrouped": found.regrouped,
            "unlabelled": found.unlabelled,
        },
        f"{len(table)} readings in {out}, graded by {graded_by.name} (was {found.was}): "
        f"{found.became_right} became right, {found.became_wrong} became wrong, the classes of "
        f"{found.regrouped} problems changed"
        + (f"; {found.unlabelled} problems have no label" if found.unlabelled else ""),
        as_json=as_json,
    )


def reread(
    traces: Annotated[Path, typer.Argument(help="Traces: a Parquet file.")],
    probe: Annotated[Path, typer.Option(help="Folder of the probe.")],
    out: Annotated[Path, typer.Option(help="Parquet file for the traces with new confidences.")],
    inputs: Annotated[
        Path | None,
        typer.Option(help="What a probe can read. Default: TRACES with .inputs.parquet."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read recorded traces again with another probe. Needs no model.

    The traces must have been recorded with `rlcm collect --keep-inputs`.
    """
    from calibration.traces.traces import write_table
    from rlcm_serve.evaluation.regrading import read_table
    from rlcm_serve.evaluation.rereading import reread
    from rlcm_serve.recording.kept_inputs import kept_beside, read_kept_inputs
    from rlcm_serve.recording.trained import require_untrained_ids

    kept = inputs or kept_beside(traces)
    require_other(out, kept)
    table = read_table(traces)
    require_untrained_ids(table["problem_id"].unique().to_pylist(), probe)
    table = reread(table, read_kept_inputs(kept), probe)
    write_table(out, table, str(traces))
    print_result(
        {"traces": out, "readings": len(table)},
        f"{len(table)} readings in {out}",
        as_json=as_json,
    )


def add_familiarity(
    traces: Annotated[Path, typer.Argument(help="Traces: a Parquet file.")],
    data: Annotated[Path, typer.Option(help="JSONL of the problems that were recorded.")],
    out: Annotated[Path, typer.Option(help="Parquet file for the traces with familiarity.")],
    model: ModelOption = "embedded",
    probe: ProbeOption = None,
    confidence: ConfidenceOption = "probe",
    interval: IntervalOption = None,
    max_tokens: MaxTokensOption = None,
    answer_max_tokens: AnswerMaxTokensOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    thinking: ThinkingOption = None,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Add the problems' familiarity to traces that were recorded before the model had that reading.

    Reads the prompts with the engine, at one token each. Give the options that `rlcm collect` had.
    """
    from calibration.traces.traces import write_table
    from rlcm_serve.engine.model_files import resolve_model
    from rlcm_serve.evaluation.add_familiarity import with_familiarity
    from rlcm_serve.evaluation.regrading import problems_of, read_table
    from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity
    from rlcm_serve.recording.problems import read_problems
    from rlcm_serve.recording.prompt_states import read_prompt_states
    from rlcm_serve.solving.fingerprints import fingerprint_of

    require_other(out, data)
    settings = engine_settings(
        model,
        probe=probe,
        interval=interval,
        max_tokens=max_tokens,
        answer_max_tokens=answer_max_tokens,
        thinking=thinking,
        temperature=temperature,
        top_p=top_p,
        confidence=confidence,
        engine_log=engine_log,
        verbose=verbose,
        vllm_arguments=vllm_arguments,
    )
    familiarity = Familiarity.load(resolve_model(model) / FAMILIARITY_FOLDER)
    table = read_table(traces)
    problems = problems_of(table, read_problems(data))
    questions = [problem.problem for problem in problems]
    identity, states = asyncio.run(read_prompt_states(settings, questions, Console(stderr=True)))
    found = familiarity.p_values(states).tolist()
    by_id = {problem.id: p_value for problem, p_value in zip(problems, found, strict=True)}
    write_table(out, with_familiarity(table, by_id, fingerprint_of(identity)), str(traces))
    flagged = sum(p_value <= familiarity.config.cutoff for p_value in found)
    print_result(
        {"traces": out, "problems": len(problems), "unfamiliar": flagged},
        f"{len(problems)} problems in {out}, {flagged} of them unfamiliar: `rlcm fit` leaves these "
        "out",
        as_json=as_json,
    )
