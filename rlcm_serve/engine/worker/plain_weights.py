"""Linear weights that can be replaced while the engine runs, on a CPU.

There vLLM packs them when a model is loaded. A trainer that then pushes new weights either finds no
parameter to load them into or, worse, loads them into one that nothing reads any more.
"""

from __future__ import annotations

from importlib import import_module

from rlcm_serve.engine.worker.hooks import Hook
from rlcm_serve.errors import UnsupportedVllm

PACKERS = (
    Hook("vllm._custom_ops:_supports_onednn"),
    Hook("vllm.model_executor.layers.utils:check_cpu_sgl_kernel", takes=("n", "k", "dtype")),
)
"""What vLLM asks whether to pack a layer's weights, by oneDNN and by its own kernels."""


def keep_weights_plain() -> None:
    """Has this process load no packed weights from now on; a GPU packs none, and is not concerned.

    Raises:
        UnsupportedVllm: this vLLM asks elsewhere.
    """
    missing = [name for hook in PACKERS for name in hook.missing()]
    if missing:
        raise UnsupportedVllm(
            f"vLLM lacks {', '.join(missing)}: weights would be packed, and go stale in training"
        )
    for hook, answer in zip(PACKERS, (False, _never), strict=True):
        module, _, name = hook.where.partition(":")
        setattr(import_module(module), name, answer)


def _never(n: int, k: int, dtype: object) -> bool:
    return False
