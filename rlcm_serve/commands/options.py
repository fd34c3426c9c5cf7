"""Options that several commands have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rlcm_serve.core import MAX_TEMPERATURE
from rlcm_serve.errors import RequestRefused
from rlcm_serve.wrong_values import remedy_of

if TYPE_CHECKING:
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.recording.offline import OpenRecorders

ModelOption = Annotated[
    str, typer.Option("--model", help="Model: a folder, a Hugging Face id, or 'embedded'.")
]
ProbeOption = Annotated[
    Path | None,
    typer.Option("--probe", help="Folder of the probe. Default: probe/ in the model's folder."),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option("--profile", help="Prompt profile (TOML file). Default: the question alone."),
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
AnswerMaxTokensOption = Annotated[
    int | None,
    typer.Option(
        "--answer-max-tokens", min=1, help="Maximum length of a forced answer, in tokens."
    ),
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        min=0,
        max=MAX_TEMPERATURE,
        help="Sampling temperature. Default: the model's temperature.",
    ),
]
TopPOption = Annotated[
    float | None,
    typer.Option(
        "--top-p", min=0, max=1, help="Nucleus sampling (top-p). Default: the model's top-p."
    ),
]
ConfidenceOption = Annotated[
    str,
    typer.Option(
        "--confidence",
        help="Source of confidence: probe, sequence-probability, lowest-group or tail.",
    ),
]
ThinkingOption = Annotated[
    str | None,
    typer.Option(
        "--thinking", help="Thinking format, such as openai_gptoss or none. Default: detected."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RayOption = Annotated[
    int | None, typer.Option("--ray", min=1, help="Number of engines on Ray; all of them record.")
]
LogOption = Annotated[Path | None, typer.Option("--engine-log", help="File for vLLM's output.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show vLLM's output.")]
VllmArguments = Annotated[
    list[str] | None, typer.Argument(help="Engine arguments for vLLM, after `--`.")
]


class Commands(TyperGroup):
    """Commands that name the wrong value of an option, and say what to give instead."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command.

        Raises:
            click.UsageError: its options are wrong.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            told = getattr(error.__cause__, "errors", None)  # pydantic's, which names types
            if told is not None:
                found = told()[0]
                error.message = f"it is {found['input']!r}: {remedy_of(found)}"
            raise


class EngineCommand(TyperCommand):
    """A command that says where vLLM's options go, if it takes them and gets one as its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command line.

        Raises:
            click.UsageError: it is wrong.
        """
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            takes_them = any(one.name == "vllm_arguments" for one in self.params)
            unknown = str(getattr(error, "option_name", ""))
            if takes_them and unknown.startswith("--"):
                near = getattr(error, "possibilities", None) or ()
                ours = f" Did you mean {' or '.join(near)}?" if near else ""
                ctx.fail(f"No such option: {unknown}.{ours} Options of vLLM go after `--`.")
            raise


def engine_settings(
    model: str,
    *,
    probe: Path | None = None,
    profile: Path | None = None,
    interval: int | None = None,
    max_tokens: int | None = None,
    answer_max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    confidence: str = "probe",
    thinking: str | None = None,
    engine_log: Path | None = None,
    verbose: bool = False,
    vllm_arguments: list[str] | None = None,
) -> EngineSettings:
    """The engine that the options ask for.

    A value of the profile's file stands for the option; giving both is refused.

    Raises:
        ProfileRefused: the file is no profile.
        RequestRefused: an option and the profile say the same thing.
        ModelRefused: there is no such confidence, or sampling like this is impossible.
    """
    from rlcm_serve.answers.profile_graders import require_answerable
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.profiles.profile_file import load_profile
    from rlcm_serve.terminal import default_engine_log

    profiles = () if profile is None else (load_profile(profile),)
    for one in profiles:
        require_answerable(one)
    options = {
        "max_tokens": max_tokens,
        "answer_max_tokens": answer_max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "thinking": thinking,
    }
    for name, value in options.items():
        if value is not None and any(getattr(one, name) is not None for one in profiles):
            raise RequestRefused(
                name,
                f"{name} is in the profile {profile}, and --{name.replace('_', '-')} is given as "
                "well: remove one of them",
            )
    return EngineSettings(
        model=model,
        probe=probe,
        profiles=profiles,
        confidence=confidence,
        interval=interval,
        max_tokens=max_tokens,
        answer_max_tokens=answer_max_tokens,
        temperature=temperature,
        top_p=top_p,
        thinking=thinking,
        vllm_arguments=tuple(vllm_arguments or ()),
        log=None if verbose else engine_log or default_engine_log(),
    )


def require_other(out: Path, *read: Path | None, name: str = "out") -> None:
    """Returns if a file can be written, and is none of those that are read.

    Args:
        out: to be written.
        read: are read; None for an option that is not given.
        name: of the option that names `out`.

    Raises:
        RequestRefused: it is, or it is a folder, a device or a pipe.
    """
    if out.is_dir():
        raise RequestRefused(name, f"{name} is {out}, which is a folder: give a file")
    if not out.exists():
        return
    if not out.is_file():
        raise RequestRefused(name, f"{name} is {out}, which is not a regular file: give a file")
    there = [path for path in read if path is not None and path.exists()]
    there += [file for folder in there if folder.is_dir() for file in folder.glob("*.parquet")]
    if any(out.samefile(path) for path in there):
        raise RequestRefused(
            name, f"{name} is {out}, which is read here and would be lost: give another file"
        )


def recorders_on(ray: int | None) -> OpenRecorders:
    """What records: an engine here, or as many as asked for on Ray.

    Raises:
        SettingsRefused: Ray is not installed.
    """
    from rlcm_serve.recording.offline import recorders_here

    if ray is None:
        return recorders_here
    from rlcm_serve.ray.cluster import require_ray

    require_ray()
    from rlcm_serve.ray.recording import recorders_on_ray

    return partial(recorders_on_ray, ray)
