"""LoRA adapters: their files, their digests, and what vLLM is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rlcm_serve.engine.model_files import digest_files
from rlcm_serve.engine.weights.json_files import read_json
from rlcm_serve.errors import ModelRefused

if TYPE_CHECKING:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.lora.request import LoRARequest

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILES = ("adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt")
"""In the order in which vLLM looks for them."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM takes for `--max-lora-rank`."""

_PREFIX = "base_model.model."
"""PEFT's, before the name of a module."""
_EMBEDDING = "embedding_"
"""PEFT's, before the A and B of embeddings."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter in PEFT's format.

    Attributes:
        folder: absolute, because vLLM's processes read it.
        digest: of configuration and weights; part of a certificate's fingerprint.
        rank: r, the rank of its matrices.
    """

    folder: Path
    digest: str
    rank: int

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the configuration and digests the files.

        Raises:
            ModelRefused: the folder holds no LoRA adapter, or one that vLLM cannot serve.
        """
        config = _config_of(folder)
        weights = next((file for name in WEIGHTS_FILES if (file := folder / name).is_file()), None)
        if weights is None:
            raise ModelRefused(f"the adapter {folder} has no weights: it needs {WEIGHTS_FILES[0]}")
        rank = config.get("r")
        if not isinstance(rank, int) or not 1 <= rank <= RANKS[-1]:
            raise ModelRefused(
                f"the adapter {folder} has rank r = {rank!r}: vLLM serves 1 to {RANKS[-1]}"
            )
        if unsupported := _unsupported(config):
            raise ModelRefused(
                f"the adapter {folder} has {unsupported}, which vLLM does not serve: merge it into "
                "the model's weights, and serve the merged model"
            )
        digest = digest_files([folder / CONFIG_FILE, weights], folder)
        return cls(folder.resolve(), digest, rank)

    def request(self, number: int) -> LoRARequest:
        """How a request to vLLM names this adapter; `number` counts an engine's adapters from 1."""
        from vllm.lora.request import LoRARequest

        return LoRARequest(self.digest, number, str(self.folder))


_PASSED_OVER = (
    "alpha_pattern",
    "rank_pattern",
    "lora_bias",
    "trainable_token_indices",
    "layer_replication",
)
"""Parts of PEFT's configuration that vLLM reads past: the scale of a module, say, is r's then."""


def require_match(adapter: Adapter, model: Path) -> None:
    """Returns if the adapter's matrices have the sizes of the model's weights of the same names.

    vLLM copies a matrix that is too small into a part of its own, and says nothing. Matrices under
    other names, and files other than safetensors, are left to vLLM.

    Raises:
        ModelRefused: a matrix has another size, as the adapter is for another model; there is a
            weight that is no matrix of LoRA; or a file cannot be read.
    """
    own = _shapes([adapter.folder / WEIGHTS_FILES[0]])
    weights = _shapes(model.glob("*.safetensors"))
    for name, matrix in own.items():
        if ".lora_" not in name:
            raise ModelRefused(
                f"the adapter {adapter.folder} holds {name}, a whole weight, which vLLM would pass "
                "over: merge the adapter into the model's weights, and serve the merged model"
            )
        module, _, rest = name.removeprefix(_PREFIX).rpartition(".lora_")
        shape = weights.get(f"{module}.weight", ())
        if len(shape) != 2 or len(matrix) != 2:
            continue
        kind = rest.removeprefix(_EMBEDDING)
        at = 1 if kind.startswith("A") else 0
        # Embeddings have a row for what is read, a token, where other weights have a column.
        found, wanted = matrix[at], shape[at if kind == rest else 1 - at]
        if found != wanted:
            raise ModelRefused(
                f"the adapter {adapter.folder} is for another model: its {name} is for size "
                f"{found}, but this model's {module} has size {wanted}"
            )


def _shapes(files: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    """The shapes of all matrices in safetensors files, by name."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        if file.is_file():
            try:
                with safe_open(file, framework="numpy") as stored:
                    names = list(stored.keys())
                    found |= {name: tuple(stored.get_slice(name).get_shape()) for name in names}
            except SafetensorError as error:
                raise ModelRefused(f"{file} cannot be read ({error}): copy it again") from error
    return found


def _config_of(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG_FILE).is_file():
        raise ModelRefused(f"no LoRA adapter in {folder}: it holds no {CONFIG_FILE}")
    config = read_json(folder / CONFIG_FILE)
    kind = config.get("peft_type")
    if kind != "LORA":
        raise ModelRefused(f"the adapter {folder} has peft_type {kind!r}: vLLM serves 'LORA' alone")
    return config


def _unsupported(config: dict[str, Any]) -> str | None:
    """What of the configuration vLLM refuses, or passes over and so serves wrongly, in words."""
    for name in _PASSED_OVER:
        if config.get(name):
            return f"{name} ({config[name]})"
    if config.get("use_dora"):
        return "DoRA (use_dora)"
    if config.get("modules_to_save"):
        return f"whole modules (modules_to_save: {', '.join(config['modules_to_save'])})"
    if config.get("bias", "none") != "none":
        return f"biases (bias: {config['bias']})"
    return None


def enable_adapters(
    arguments: AsyncEngineArgs, adapters: Sequence[Adapter], *, spare: bool
) -> None:
    """Makes room for all adapters in vLLM at once; without any, LoRA must be off.

    Args:
        arguments: are changed.
        adapters: of all profiles.
        spare: leave one more place, which stays empty. On a CPU, vLLM gives rows without an adapter
            the number -1 and then reads the last place, if other rows of the batch have one. An
            adapter there would change their answers.

    Raises:
        ModelRefused: LoRA is on, but no profile names an adapter.
    """
    if not adapters:
        if arguments.enable_lora:
            raise ModelRefused(
                "--enable-lora is on, but no profile names an adapter, so none could be chosen: "
                'write adapter = "FOLDER" into a profile and give it with --profile, or remove '
                "--enable-lora"
            )
        return
    needed = room_for(adapters, spare=spare)
    arguments.enable_lora = True
    arguments.max_loras = max(arguments.max_loras, needed["max_loras"])
    arguments.max_lora_rank = max(arguments.max_lora_rank, needed["max_lora_rank"])


def room_for(adapters: Sequence[Adapter], *, spare: bool) -> dict[str, int]:
    """What adapters need of vLLM at least, by its names for it; nothing without adapters."""
    if not adapters:
        return {}
    highest = max(adapter.rank for adapter in adapters)
    rank = next(rank for rank in RANKS if rank >= highest)
    return {"max_loras": len(adapters) + spare, "max_lora_rank": rank}
