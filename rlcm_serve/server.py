"""Puts the pieces together: an engine, its certificates and a server, as `rlcm` asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import uvicorn
from rich.console import Console

from rlcm_serve.api import create_app
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import resolve_model
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.guarantees import find_certificates
from rlcm_serve.service import Service
from rlcm_serve.terminal import StageClock


def build_service(
    settings: EngineSettings, certificates: Sequence[Path] | None, console: Console
) -> Service:
    """A service that is not started; its stages are shown on `console`.

    Args:
        settings: of the engine.
        certificates: files to serve under; None takes those in the model's folder, an empty
            sequence serves without a guarantee.
        console: where each stage gets a line.

    Raises:
        ModelRefused: there is no such model.
    """
    if certificates is None:
        certificates = find_certificates(resolve_model(settings.model))
    clock = StageClock(console)
    engine = VllmEngine(settings)
    service = Service(engine, certificates, on_stage=clock)
    engine.on_stage = service.enter
    return service


def run_server(
    settings: EngineSettings, certificates: Sequence[Path] | None, host: str, port: int
) -> int:
    """Serves until interrupted; `/health` answers at once, `/readyz` when the engine is up.

    Returns:
        The process's exit status: 1 if the service could not start.
    """
    console = Console(stderr=True)
    service = build_service(settings, certificates, console)
    status = 0

    def give_up(error: BaseException) -> None:
        nonlocal status
        status = 1
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
        server.should_exit = True

    app = create_app(service, on_failure=give_up)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
    console.print(f"listening on http://{host}:{port}", markup=False, highlight=False)
    if settings.log is not None:
        console.print(f"vLLM writes to {settings.log}", markup=False, highlight=False)
    server.run()
    return status
