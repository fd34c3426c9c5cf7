"""Keeps linear weights replaceable while the engine runs on a CPU.

On a CPU, vLLM packs linear weights when it loads a model. A trainer that pushes new weights then
finds no parameter for them or, worse, writes into a parameter that is no longer read.
"""

from __future__ import annotations

from importlib import import_module

from rlcm_serve.engine.worker.hooks import Hook
from rlcm_serve.errors import UnsupportedVllm

PACKERS = (
    Hook("vllm._custom_ops:_supports_onednn"),
    Hook("vllm.model_executor.layers.utils:check_cpu_sgl_kernel", takes=("n", "k", "dtype")),
)
"""The functions by which vLLM decides to pack weights, for oneDNN and for its own kernels."""


def keep_weights_plain() -> None:
    """Turns weight packing off in this process; without effect on a GPU, which packs no weights.

    Raises:
        UnsupportedVllm: this vLLM decides by other functions.
    """
    missing = [name for hook in PACKERS for name in hook.missing()]
    if missing:
        raise UnsupportedVllm(
            f"vLLM lacks {', '.join(missing)}, without which pushed weights would have no effect: "
            "install a supported vLLM (`make install`)"
        )
    for hook, answer in zip(PACKERS, (False, _never), strict=True):
        module, _, name = hook.where.partition(":")
        setattr(import_module(module), name, answer)


def _never(n: int, k: int, dtype: object) -> bool:
    return False
