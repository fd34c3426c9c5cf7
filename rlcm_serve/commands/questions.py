"""`rlcm solve`: answers questions without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from rlcm_serve.commands.options import (
    CertificateOption,
    ConfidenceOption,
    LogOption,
    ModelOption,
    NoCertificateOption,
    ProbeOption,
    ThinkingOption,
    VerboseOption,
    engine_settings,
)
from rlcm_serve.errors import RequestRefused

if TYPE_CHECKING:
    from rlcm_serve.commands.batch import Batch
    from rlcm_serve.core import Question, Solution
    from rlcm_serve.ray.batch import BuildService
    from rlcm_serve.solving.batch.summary import BatchSummary
    from rlcm_serve.solving.service import Service

Result = TypeVar("Result")

_PLACEHOLDER = "a problem of the file"
_CONCURRENCY = 64
"""Questions of a file that are asked at the same time, unless told."""


def solve(
    problem: Annotated[str | None, typer.Argument(help="The question.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="File of questions, JSONL or Parquet: `problem`, optionally `id`, `kind` and the "
            "correct `answer`."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the answers to --file, JSONL or Parquet. Default: FILE.answers.jsonl, "
            "or FILE.answers.parquet for Parquet."
        ),
    ] = None,
    unordered: Annotated[
        bool,
        typer.Option(
            "--unordered", help="Write answers to --out (JSONL) as they come, in any order."
        ),
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, help="Questions of --file that are asked at the same time. Default: 64."
        ),
    ] = None,
    ray: Annotated[
        int | None,
        typer.Option(
            min=1, help="Answer --file on this number of engines, in Ray's processes. Default: one."
        ),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Accepted risk, between 0 and 1.")] = 0.1,
    n: Annotated[
        int, typer.Option("--n", "-n", help="Number of samples, merged into one answer by voting.")
    ] = 1,
    risk: Annotated[
        str, typer.Option(help="What alpha limits: selective, error or regret.")
    ] = "selective",
    kind: Annotated[
        str | None,
        typer.Option(
            help="Kind of the question, such as its topic, where certificates distinguish kinds."
        ),
    ] = None,
    vote: Annotated[
        str, typer.Option(help="How samples are merged: confidence or majority.")
    ] = "confidence",
    on_infeasible: Annotated[
        str,
        typer.Option(
            help="What to do if no policy is certified at alpha: error, full_budget or abstain."
        ),
    ] = "error",
    on_unfamiliar: Annotated[
        str, typer.Option(help="What to do with an unfamiliar question: answer or abstain.")
    ] = "answer",
    model: ModelOption = "embedded",
    probe: ProbeOption = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Prompt profile: its name in the model's folder, or a TOML file."),
    ] = None,
    certificate: CertificateOption = None,
    no_certificate: NoCertificateOption = False,
    confidence: ConfidenceOption = "probe",
    thinking: ThinkingOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the response of /solve as JSON.")
    ] = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Answer a question or a file of questions without a server.

    An interrupted file continues where it stopped when the command is run again.
    """
    from rlcm_serve.api.composition import build_service
    from rlcm_serve.commands.batch import Batch
    from rlcm_serve.profiles.profile_file import load_profile
    from rlcm_serve.terminal import StageClock

    if (problem is None) == (file is None):
        raise RequestRefused("problem", "give either a question or --file")
    if no_certificate and certificate:
        raise RequestRefused("certificate", "give --certificate or --no-certificate, not both")
    if file is None:
        of_files = {
            "--out": out,
            "--unordered": unordered or None,
            "--concurrency": concurrency,
            "--ray": ray,
        }
        if given := [name for name, value in of_files.items() if value is not None]:
            raise RequestRefused("file", f"{given[0]} is for --file: leave it out, or give a file")
    elif as_json:
        raise RequestRefused(
            "json", "--json is for a single question: leave it out; the answers are in --out"
        )
    batch = None
    if file is not None:
        batch = Batch.of(file, out, unordered=unordered, concurrency=concurrency or _CONCURRENCY)
    chosen = {
        "risk": risk, "vote": vote, "on_infeasible": on_infeasible, "on_unfamiliar": on_unfamiliar,
    }  # fmt: skip
    question = replace(
        _question(_PLACEHOLDER if problem is None else problem, alpha, n, chosen), kind=kind
    )
    files = [Path(profile)] if profile is not None and _is_path(profile) else []
    if profile is not None:
        named = load_profile(files[0]).name if files else profile
        question = replace(question, profile=named)
    console = Console(stderr=True)
    settings = engine_settings(
        model,
        probe=probe,
        confidence=confidence,
        thinking=thinking,
        engine_log=engine_log,
        verbose=verbose,
    )
    certificates = [] if no_certificate else certificate
    build = partial(build_service, settings, certificates, profiles=files, profile=question.profile)
    if batch is None:
        _solve_one(build(StageClock(console)), question, as_json)
    elif ray is None:
        _solve_file(build(StageClock(console)), batch, question, console)
    else:
        _solve_file_on_ray(build, ray, batch, question, console)


def _is_path(profile: str) -> bool:
    """Whether a profile is given by its file; otherwise by its name in the model's folder."""
    return profile.endswith(".toml") or Path(profile).name != profile


def _question(problem: str, alpha: float, n: int, given: dict[str, str]) -> Question:
    from rlcm_serve.core import OnInfeasible, OnUnfamiliar, Question, RiskName, VoteRule

    kinds: dict[str, type[StrEnum]] = {
        "risk": RiskName,
        "vote": VoteRule,
        "on_infeasible": OnInfeasible,
        "on_unfamiliar": OnUnfamiliar,
    }
    for name, kind in kinds.items():
        if given[name] not in list(kind):
            known = ", ".join(kind)
            raise RequestRefused(name, f"{name} is {given[name]!r}: give one of {known}")
    return Question(
        text=problem,
        alpha=alpha,
        samples=n,
        risk=RiskName(given["risk"]),
        vote=VoteRule(given["vote"]),
        on_infeasible=OnInfeasible(given["on_infeasible"]),
        on_unfamiliar=OnUnfamiliar(given["on_unfamiliar"]),
    )


def _run(service: Service, work: Callable[[Service], Awaitable[Result]]) -> Result:
    """Starts the service, runs `work` with it, and stops it."""

    async def run() -> Result:
        try:
            await service.start()
            return await work(service)
        finally:
            service.stop()

    return asyncio.run(run())


def _solve_one(service: Service, question: Question, as_json: bool) -> None:
    async def work(service: Service) -> Solution:
        return await service.solver.solve(question)

    solution = _run(service, work)
    if as_json:
        typer.echo(json.dumps(_described(solution), indent=2))
        return
    console = Console()
    said = solution.answer if solution.answer is not None else "no answer (abstained)"
    console.print(said, markup=False, highlight=False)
    promise = solution.guarantee.statement if solution.guarantee else solution.no_guarantee_reason
    exit_ = f"{solution.exit or 'no'} exit, {solution.tokens} tokens"
    console.print(f"{exit_}. {promise}", markup=False, highlight=False)


def _solve_file(service: Service, batch: Batch, question: Question, console: Console) -> None:
    from rlcm_serve.commands.batch import facts_of
    from rlcm_serve.solving.batch.answers import Answering

    answering = Answering(service.when_ready, question, _described)
    _report(
        batch,
        _run(
            service,
            lambda service: batch.run(answering, facts_of(service, question), question, console),
        ),
    )


def _solve_file_on_ray(
    build: BuildService, engines: int, batch: Batch, question: Question, console: Console
) -> None:
    from rlcm_serve.commands.batch import facts_of
    from rlcm_serve.ray.cluster import require_ray

    require_ray()
    from rlcm_serve.ray.batch import engines_on_ray

    batch = replace(batch, concurrency=engines * batch.concurrency)

    async def run() -> BatchSummary:
        async with engines_on_ray(engines, build, question, _described, facts_of) as found:
            return await batch.run(found, found.facts, question, console)

    _report(batch, asyncio.run(run()))


def _report(batch: Batch, said: BatchSummary) -> None:
    batch.kept.unlink()
    for line in (f"{said.counts()}: {batch.out}", *said.statements()):
        Console().print(line, markup=False, highlight=False, soft_wrap=True)


def _described(solution: Solution) -> dict[str, Any]:
    """The response of `/solve` as plain values."""
    from rlcm_serve.api.wire.solution import SolveResponse

    described: dict[str, Any] = json.loads(SolveResponse.from_solution(solution).model_dump_json())
    del described["id"]  # only answers of a service have one
    return described
