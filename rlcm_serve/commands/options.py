"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlcm_serve.engine.launch import EngineSettings

ModelOption = Annotated[
    str, typer.Option("--model", help="Model: a folder, a Hugging Face id, or 'embedded'.")
]
CertificateOption = Annotated[
    list[Path] | None,
    typer.Option("--certificate", help="Certificate file. Default: those in the model's folder."),
]
NoCertificateOption = Annotated[
    bool, typer.Option("--no-certificate", help="Serve without a guarantee.")
]
IntervalOption = Annotated[
    int | None,
    typer.Option("--interval", min=1, help="Number of tokens between two confidence readings (N)."),
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, help="Thinking budget of one sample, in tokens."),
]
ConfidenceOption = Annotated[
    str,
    typer.Option(
        "--confidence",
        help="Source of confidence: probe, sequence-probability, lowest-group or tail.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LogOption = Annotated[Path | None, typer.Option("--engine-log", help="File for vLLM's output.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show vLLM's output.")]
VllmArguments = Annotated[
    list[str] | None, typer.Argument(help="Engine arguments for vLLM, after `--`.")
]


def engine_settings(
    model: str,
    interval: int | None,
    max_tokens: int | None,
    engine_log: Path | None,
    verbose: bool,
    vllm_arguments: list[str] | None,
    confidence: str = "probe",
) -> EngineSettings:
    """The engine that the options ask for.

    Raises:
        ModelRefused: there is no such confidence.
    """
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.terminal import default_engine_log

    return EngineSettings(
        model=model,
        confidence=confidence,
        interval=interval,
        max_tokens=max_tokens,
        vllm_arguments=tuple(vllm_arguments or ()),
        log=None if verbose else engine_log or default_engine_log(),
    )
