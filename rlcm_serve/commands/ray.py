"""`rlcm ray`: the service in several replicas, on Ray."""

from __future__ import annotations

from typing import Annotated

import typer

from rlcm_serve.commands.options import EngineCommand
from rlcm_serve.commands.settings_options import takes_settings
from rlcm_serve.settings import Loaded

ray = typer.Typer(
    name="ray",
    help="Run several replicas of the service on Ray.\n\n"
    "Example: rlcm ray serve --replicas 2 --port 8000",
    no_args_is_help=True,
)


@ray.callback()
def _group() -> None:
    """Makes `serve` a subcommand, although it is the only one."""


@ray.command(cls=EngineCommand)
@takes_settings
def serve(
    loaded: Loaded,
    replicas: Annotated[
        int, typer.Option(min=1, help="Number of replicas; each has its own engine.")
    ] = 1,
    max_replicas: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of replicas. Default: the number of --replicas."),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            min=1,
            help="Running and waiting samples of one replica, above which another one is started.",
        ),
    ] = 64,
    cpus: Annotated[
        float, typer.Option(min=0, help="CPU cores that Ray counts for each replica.")
    ] = 1.0,
    gpus: Annotated[
        int, typer.Option(min=0, help="GPUs of each replica; give vLLM's arguments after `--` too.")
    ] = 0,
) -> None:
    """Start replicas on this machine behind one address. Takes the options of `rlcm serve` too."""
    from rlcm_serve.ray.cluster import run
    from rlcm_serve.ray.scale import Scale

    run(loaded.settings, Scale(replicas, max_replicas, samples, cpus, gpus))
