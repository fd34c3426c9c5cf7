"""`rlcm train verl ...`: training on a Ray cluster, by veRL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    help="Train on many nodes with veRL, in an environment of its own.", no_args_is_help=True
)


@app.command()
def run(
    config: Annotated[Path, typer.Option(help="TOML file with the settings, as for `train rl`.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the run, on a file system that all nodes share.")
    ],
    nodes: Annotated[int, typer.Option(min=1, help="Machines with GPUs.")] = 1,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of each machine.")] = 8,
    model: Annotated[
        str | None, typer.Option(help="Model to start from. It replaces the one in the TOML file.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Training method, as for `train rl`.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of policy steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of prompts, rollouts and probe.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check everything and print veRL's overrides.")
    ] = False,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Further overrides for veRL, after `--`.")
    ] = None,
) -> None:
    """Train a policy with veRL, on the Ray cluster that this machine belongs to.

    An interrupted run continues from its last checkpoint."""
    from training.errors import TrainingRefused
    from training.rl.settings import RunSettings
    from training.verl.overrides import Cluster

    settings = RunSettings.load(config, model=model, method=method, steps=steps, seed=seed)
    try:
        from training.verl.run import train
    except ImportError as error:
        raise TrainingRefused(
            f"veRL is not installed here ({error}): it needs an environment of its own, which "
            "docs/guides/verl.md describes"
        ) from error
    console = Console(highlight=False, soft_wrap=True)
    found = train(settings, out, Cluster(nodes, gpus), overrides or [], only_check=check)
    if check:
        for line in found:
            console.print(line, markup=False)
        console.print("this run can start")
        return
    console.print(f"the run is in {out}: docs/guides/verl.md says how to export its policy")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run: `--out` of `rlcm train verl run`.")],
    weights: Annotated[
        Path, typer.Option(help="Whole weights, as `python -m verl.model_merger` writes them.")
    ],
    step: Annotated[int, typer.Option(min=1, help="Step of the checkpoint they come from.")],
    out: Annotated[Path, typer.Option(help="New folder for the model.")],
) -> None:
    """Write merged weights and the probe of a checkpoint as a folder for `rlcm serve --model`.

    This runs in the environment of the service, not in veRL's."""
    from training.verl.export import export_weights

    export_weights(run, weights, step, out)
    Console().print(f"the policy after {step} steps is in {out}: rlcm serve --model {out}")
