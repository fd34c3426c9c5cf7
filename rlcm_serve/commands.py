"""The service's own commands. Heavy imports are made inside, so that `rlcm --help` is quick."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rlcm_serve.core import Solution
    from rlcm_serve.engine.launch import EngineSettings

ModelOption = Annotated[str, typer.Option("--model", help="Model folder, hub id, or 'embedded'.")]
CertificateOption = Annotated[
    list[Path] | None,
    typer.Option("--certificate", help="Certificate file; by default those in the model's folder."),
]
NoCertificateOption = Annotated[
    bool, typer.Option("--no-certificate", help="Serve without a guarantee.")
]
IntervalOption = Annotated[
    int | None,
    typer.Option("--interval", min=1, help="N, tokens between two readings of confidence."),
]
MaxTokensOption = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="Thinking budget of one sample, tokens.")
]
LogOption = Annotated[Path | None, typer.Option("--engine-log", help="File for what vLLM prints.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show what vLLM prints.")]
VllmArguments = Annotated[
    list[str] | None, typer.Argument(help="After `--`: vLLM's engine arguments, passed through.")
]


def serve(
    model: ModelOption = "embedded",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    certificate: CertificateOption = None,
    no_certificate: NoCertificateOption = False,
    interval: IntervalOption = None,
    max_tokens: MaxTokensOption = None,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Start the service. vLLM's engine arguments go after `--`."""
    from rlcm_serve.server import run_server

    settings = _settings(model, interval, max_tokens, engine_log, verbose, vllm_arguments)
    raise typer.Exit(run_server(settings, [] if no_certificate else certificate, host, port))


def solve(
    problem: Annotated[str, typer.Argument(help="The question.")],
    alpha: Annotated[float, typer.Option(help="Accepted share of wrong answers.")] = 0.1,
    n: Annotated[int, typer.Option(help="Samples, merged by voting.")] = 1,
    model: ModelOption = "embedded",
    certificate: CertificateOption = None,
    no_certificate: NoCertificateOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what /solve would return.")
    ] = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Answer one question, without a server."""
    from rlcm_serve.core import Question
    from rlcm_serve.server import build_service

    question = Question(problem=problem, alpha=alpha, samples=n)
    settings = _settings(model, None, None, engine_log, verbose, None)
    files = [] if no_certificate else certificate
    service = build_service(settings, files, Console(stderr=True))

    async def answer() -> Solution:
        try:
            await service.start()
            return await service.solver.solve(question)
        finally:
            service.stop()

    solution = asyncio.run(answer())
    if as_json:
        from rlcm_serve.api.wire import SolveResponse

        typer.echo(SolveResponse.from_solution(solution).model_dump_json(indent=2))
        return
    console = Console()
    said = solution.answer if solution.answer is not None else "no answer (abstained)"
    console.print(said, markup=False, highlight=False)
    promise = solution.guarantee.statement if solution.guarantee else solution.no_guarantee_reason
    exit_ = f"{solution.exit} exit, {solution.tokens} tokens"
    console.print(f"{exit_}. {promise}", markup=False, highlight=False)


def collect(
    data: Annotated[Path, typer.Option(help="JSONL of labelled problems.")],
    out: Annotated[Path, typer.Option(help="Parquet file for the traces.")],
    model: ModelOption = "embedded",
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts per problem.")] = 1,
    interval: IntervalOption = None,
    max_tokens: MaxTokensOption = None,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Record labelled problems at full budget, for `rlcm fit`. An interrupted run goes on."""
    from calibration import write_traces
    from rlcm_serve.answers import AnswerGrader
    from rlcm_serve.core import VoteRule
    from rlcm_serve.guarantees import fingerprint_of
    from rlcm_serve.recording import to_rollouts
    from rlcm_serve.session import record_problems

    settings = _settings(model, interval, max_tokens, engine_log, verbose, vllm_arguments)
    journal = out.with_suffix(".journal.jsonl")
    identity, recordings = asyncio.run(
        record_problems(settings, data, journal, rollouts, 1, Console(stderr=True))
    )
    with AnswerGrader() as grader:
        recorded = to_rollouts(recordings, grader)
    write_traces(out, recorded, fingerprint_of(identity, samples=1, vote=VoteRule.CONFIDENCE))
    journal.unlink()
    Console().print(f"{len(recordings)} rollouts in {out}", highlight=False)


def _settings(
    model: str,
    interval: int | None,
    max_tokens: int | None,
    engine_log: Path | None,
    verbose: bool,
    vllm_arguments: list[str] | None,
) -> EngineSettings:
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.terminal import default_engine_log

    return EngineSettings(
        model=model,
        interval=interval,
        max_tokens=max_tokens,
        vllm_arguments=tuple(vllm_arguments or ()),
        log=None if verbose else engine_log or default_engine_log(),
    )
