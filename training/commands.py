"""The training package's commands: `rlcm train ...`, `rlcm push` and `rlcm examples`.

Heavy imports are made inside the commands: this module is imported at every start of `rlcm`.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rlcm_serve.commands.options import (
    AnswerMaxTokensOption,
    IntervalOption,
    JsonOption,
    LogOption,
    MaxTokensOption,
    ProfileOption,
    TemperatureOption,
    ThinkingOption,
    TopPOption,
    VerboseOption,
    VllmArguments,
    engine_settings,
)
from rlcm_serve.terminal import print_result
from training.json_values import finite_or_null
from training.verl.commands import app as verl

if TYPE_CHECKING:
    from rlcm_serve.engine.worker.probe import ProbeInputs

app = typer.Typer(
    help="Train a model for the service: a warm start, a confidence probe, or RL.",
    no_args_is_help=True,
)
app.add_typer(verl, name="verl")


@app.command()
def sft(
    out: Annotated[Path, typer.Option(help="Folder for the model and its checkpoints.")],
    config: Annotated[
        Path | None, typer.Option(help="TOML file with shape and steps of another model.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimizer steps.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights and data.")] = None,
) -> None:
    """Train the embedded model, or one of another shape, from scratch.

    An interrupted run continues from its last checkpoint."""
    from training.rl.tables import read_file, read_table
    from training.sft import SftConfig, train

    settings = read_table(SftConfig, read_file(config), str(config)) if config else SftConfig()
    settings = replace(
        settings,
        steps=settings.steps if steps is None else steps,
        seed=settings.seed if seed is None else seed,
        threads=settings.threads if threads is None else threads,
    )
    seconds = train(settings, out)
    Console().print(f"trained in {seconds / 60:.0f} min; the model is in {out}")


@app.command()
def probe(
    model: Annotated[str, typer.Option(help="Model folder, hub id, or 'embedded'.")],
    data: Annotated[Path, typer.Option(help="JSONL of labelled training problems.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the probe. Default: probe/ in the model's folder."),
    ] = None,
    interval: Annotated[int, typer.Option(min=1, help="Tokens between two readings (N).")] = 500,
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts per problem.")] = 8,
    samples: Annotated[int, typer.Option(min=1, help="Forced answers per reading (K).")] = 4,
    heads: Annotated[
        int, typer.Option(min=1, help="Number of networks; the probe averages their log-odds.")
    ] = 3,
    width: Annotated[int, typer.Option(min=1, help="Hidden units of each network.")] = 256,
    inputs: Annotated[
        str, typer.Option(help="What the probe reads: state,tokens, or state (RLCM).")
    ] = "state,tokens",
    profile: ProfileOption = None,
    max_tokens: MaxTokensOption = None,
    answer_max_tokens: AnswerMaxTokensOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    thinking: ThinkingOption = None,
    work: Annotated[
        Path | None, typer.Option(help="Recording log. An interrupted run continues from it.")
    ] = None,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Train a confidence probe for any model, without RL (RLCM App. B).

    Put vLLM's engine arguments after `--`. Record at the sampling settings that will serve."""
    from rlcm_serve.engine.model_files import resolve_model
    from rlcm_serve.engine.worker.probe import PROBE_FOLDER
    from training.probe.fit import ProbeTraining
    from training.probe.train import ProbeRun, train_probe

    folder = resolve_model(model)
    out = out or folder / PROBE_FOLDER
    settings = engine_settings(
        str(folder),
        profile=profile,
        interval=interval,
        max_tokens=max_tokens,
        answer_max_tokens=answer_max_tokens,
        temperature=temperature,
        top_p=top_p,
        thinking=thinking,
        engine_log=engine_log,
        verbose=verbose,
        vllm_arguments=vllm_arguments,
    )
    whole = out.absolute()
    journal = work or whole.with_name(f"{whole.name}.recordings.jsonl")
    training = ProbeTraining(inputs=_inputs(inputs), heads=heads, width=width)
    run = ProbeRun(data, out, journal, rollouts, samples, training)
    console = Console(stderr=as_json)
    metrics = train_probe(replace(settings, needs_probe=False), run, console)
    if as_json:
        typer.echo(json.dumps({"probe": str(out), **asdict(metrics)}, indent=2))
        return
    console.print(asdict(metrics))
    for name, reason in metrics.undefined.items():
        console.print(f"{name} cannot be computed: {reason}", highlight=False)
    console.print(f"the probe is in {out}")


def _inputs(names: str) -> ProbeInputs:
    from rlcm_serve.engine.worker.probe import STATE_ALONE, STATE_AND_TOKENS

    known = {",".join(inputs): inputs for inputs in (STATE_ALONE, STATE_AND_TOKENS)}
    if names not in known:
        raise typer.BadParameter(
            f"{names!r} is not what a probe can read: choose {' or '.join(known)}",
            param_hint="--inputs",
        )
    return known[names]


@app.command()
def check_probe(
    folder: Annotated[Path, typer.Argument(help="Folder of the probe.")],
    model: Annotated[str, typer.Option(help="Model folder, hub id, or 'embedded'.")],
    problem: Annotated[
        str, typer.Option(help="Question on which the readings are compared.")
    ] = "What is 17 + 25?",
    reference: Annotated[
        bool, typer.Option(help="Compare the readings with a forward pass of transformers.")
    ] = True,
    profile: ProfileOption = None,
    interval: IntervalOption = None,
    thinking: ThinkingOption = None,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Check that a probe of your own works with a model.

    Checks its files, starts the engine with it, answers one question, and compares every reading
    with that of a forward pass of transformers. With a profile, the question is asked under it, and
    both have its adapter. Ends with status 1 if something is wrong.

    Put vLLM's engine arguments after `--`."""
    from training.probe.check import check_probe as check
    from training.probe.check import in_words

    settings = engine_settings(
        model,
        probe=folder,
        profile=profile,
        interval=interval,
        thinking=thinking,
        engine_log=engine_log,
        verbose=verbose,
        vllm_arguments=vllm_arguments,
    )
    found = check(settings, problem, Console(stderr=True), compare=reference)
    facts = {"model": model, "works": not found.faults, "faults": found.faults, **asdict(found)}
    print_result(finite_or_null(facts), "\n".join(in_words(found, model)), as_json=as_json)
    if found.faults:
        raise typer.Exit(1)


@app.command()
def familiarity(
    model: Annotated[str, typer.Option(help="Model folder, hub id, or 'embedded'.")],
    data: Annotated[
        Path, typer.Option(help="JSONL of problems like the calibration's, but not its problems.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the reading. Default: familiarity/ in the model's folder."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="Largest rate of flagged questions among familiar ones.")
    ] = 0.005,
    confidence: Annotated[
        float, typer.Option(help="Confidence with which the cutoff keeps epsilon.")
    ] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Fit the familiarity reading, which detects questions unlike the calibration's.

    Half of the problems fit the score, the others the cutoff. Answers are not used. Afterwards,
    record traces or run `rlcm add-familiarity`, and fit the model's certificates again."""
    from rlcm_serve.engine.model_files import resolve_model
    from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER
    from training.familiarity.fit import FamiliarityFit
    from training.familiarity.train import train_familiarity

    folder = resolve_model(model)
    out = out or folder / FAMILIARITY_FOLDER
    settings = engine_settings(
        str(folder), engine_log=engine_log, verbose=verbose, vllm_arguments=vllm_arguments
    )
    console = Console(stderr=as_json)
    fit = FamiliarityFit(epsilon, confidence, seed)
    fitted = train_familiarity(settings, data, out, fit, console)
    if as_json:
        typer.echo(json.dumps({"familiarity": str(out), **asdict(fitted.config)}, indent=2))
        return
    console.print(asdict(fitted.config))
    console.print(f"the familiarity reading is in {out}")


@app.command()
def rl(
    config: Annotated[
        Path,
        typer.Option(
            help="TOML file with the settings. Examples are in configs/ of the repository."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the policy and its checkpoints.")],
    model: Annotated[
        str | None,
        typer.Option(help="Model to start from. It replaces the model in the TOML file."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Training method: grpo, rlcm, rlcm-authors, final-brier, final-margin, "
            "process-brier, rlcr, rlcr-authors, c2gspg, rlcm-ranking, rlcm-between, "
            "rlcm-variance or rlcm-rising."
        ),
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(min=0, help="Weight λ of the confidence term, or of the Brier term."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of policy steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of prompts, rollouts and probe.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check settings, data and model files, and train nothing."),
    ] = False,
) -> None:
    """Train a policy with RLCM, an ablation or a baseline.

    An interrupted run continues from its last checkpoint. More `--steps` extend a finished run.

    On several GPUs: `accelerate launch --no_python rlcm train rl ...` (docs/guides/training.md).
    """
    import torch

    from training.rl.run import check as check_run
    from training.rl.run import train
    from training.rl.settings import RunSettings

    settings = RunSettings.load(
        config, model=model, method=method, strength=strength, steps=steps, seed=seed
    )
    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    if check:
        for line in check_run(settings, out):
            console.print(line, highlight=False, soft_wrap=True)
        console.print("this run can start")
        return
    train(settings, out, console)
    console.print(f"the policy is in {out}: rlcm serve --model {out}")
    for former in sorted(out.glob("*.former")):
        again = "" if former.with_suffix("").exists() else "make it again for these, then "
        console.print(
            f"{former} was made for weights that the run has left behind: {again}delete it",
            highlight=False,
            soft_wrap=True,
        )


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run: `--out` of `rlcm train rl`.")],
    out: Annotated[Path, typer.Option(help="New folder for the model.")],
    step: Annotated[
        str, typer.Option(help="Checkpoint: a number of steps, 'last' or 'best'.")
    ] = "last",
) -> None:
    """Write a checkpoint of a run as a folder for `rlcm serve --model`.

    'best' has the highest accuracy on the held-out problems (the table `evaluation` of the
    settings). The run may be under way."""
    from training.rl.checkpoint import export_checkpoint

    taken = export_checkpoint(run, step, out)
    Console().print(f"the policy after {taken} steps is in {out}: rlcm serve --model {out}")


def push(
    folder: Annotated[Path, typer.Argument(help="Folder that `rlcm train` wrote.")],
    to: Annotated[str, typer.Argument(help="Repository on the Hub: OWNER/NAME.")],
    private: Annotated[
        bool, typer.Option("--private", help="Create a private repository.")
    ] = False,
) -> None:
    """Upload a trained model, with its probe and model card, to the Hugging Face Hub."""
    from training.publishing import publish

    Console().print(f"uploaded to {publish(folder, to, private=private)}")


def examples(
    split: Annotated[
        str, typer.Option(help="Split: train, validation, order, calibration or test.")
    ] = "test",
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Number of problems. Default: one of each family and level."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the selection.")] = 0,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print labelled problems, one JSON object per line.")
    ] = False,
) -> None:
    """Print example questions for the embedded model, from every family and level."""
    from training.tasks.problems import FAMILIES, LEVELS, Split, problem_stream, sample_problems

    if split not in list(Split):
        raise typer.BadParameter(
            f"{split!r} is not a split: choose one of {', '.join(Split)}", param_hint="--split"
        )
    if count is None:
        one_of_each = problem_stream(Split(split), random.Random(seed))
        problems = list(islice(one_of_each, len(FAMILIES) * len(LEVELS)))
    else:
        problems = sample_problems(Split(split), count, seed)
    for problem in problems:
        if jsonl:
            row = {"id": problem.id, "problem": problem.question, "answer": problem.answer}
            sys.stdout.write(json.dumps(row) + "\n")
        else:
            sys.stdout.write(f"{problem.family} {problem.level}: {problem.question}\n")
