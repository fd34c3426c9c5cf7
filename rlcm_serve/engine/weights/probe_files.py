"""Checks the files of a probe before vLLM starts: a worker that dies of them says less."""

from __future__ import annotations

from pathlib import Path

from rlcm_serve.engine.weights.json_files import read_json
from rlcm_serve.engine.worker.probe import CONFIG_FILE, WEIGHTS_FILE, ProbeConfig
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import ModelRefused

_SIZES = ("hidden_size", "width", "checkpoint_interval")


def read_probe(folder: Path) -> ProbeConfig:
    """The configuration of a probe whose files fit together.

    Raises:
        ModelRefused: a file is missing or malformed, a tensor is missing or has another shape than
            the configuration says, or a weight is not finite.
    """
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (folder / name).is_file():
            raise ModelRefused(f"{folder} is not a probe's folder: it holds no {name}")
    stored = read_json(folder / CONFIG_FILE)
    for name in _SIZES:
        value = stored.get(name)
        if type(value) is not int or value < 1:
            raise ModelRefused(
                f"{folder / CONFIG_FILE}: {name} is {value!r}: give a whole number, 1 or more"
            )
    config = ProbeConfig.load(folder)
    _check_weights(folder / WEIGHTS_FILE, config)
    return config


def shapes(config: ProbeConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a probe."""
    inputs = config.hidden_size + (len(STATISTICS) if config.reads_tokens else 0)
    return {
        "hidden_weight": (config.width, inputs),
        "hidden_bias": (config.width,),
        "output_weight": (1, config.width),
        "output_bias": (1,),
    }


def _check_weights(file: Path, config: ProbeConfig) -> None:
    import torch  # takes a second, which a start without a probe need not wait for
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        stored = load_file(file)
    except SafetensorError as error:
        raise ModelRefused(f"{file} is not a safetensors file: {error}") from error
    for name, shape in shapes(config).items():
        if name not in stored:
            raise ModelRefused(f"{file} has no tensor {name}: it needs {', '.join(shapes(config))}")
        found = stored[name]
        if tuple(found.shape) != shape:
            raise ModelRefused(
                f"{file}: {name} has shape {tuple(found.shape)}, but {CONFIG_FILE} beside it asks "
                f"for {shape}"
            )
        if not found.is_floating_point():
            raise ModelRefused(f"{file}: {name} holds {found.dtype}: store it as float32")
        if not torch.isfinite(found.float()).all():
            raise ModelRefused(f"{file}: {name} holds a number that is not finite")
