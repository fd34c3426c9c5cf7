"""Reads a model's files before vLLM loads it: folder, digests, unused token ids."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcm_serve.engine.weights.json_files import read_json
from rlcm_serve.engine.weights.probe_files import read_probe
from rlcm_serve.engine.worker.probe import CONFIG_FILE, PROBE_FOLDER, WEIGHTS_FILE, ProbeConfig
from rlcm_serve.errors import ModelRefused
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, FamiliarityConfig
from rlcm_serve.familiarity.familiarity import FILES as FAMILIARITY_FILES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SHIPPED = Path(__file__).parent.parent / "models"
EMBEDDED_MODEL = _SHIPPED / "embedded"
"""The model that ships with the service."""
WARM_START = _SHIPPED / "embedded-sft"
"""The embedded model before reinforcement learning; a start for training and comparisons."""
SHIPPED_MODELS = {folder.name: folder for folder in (EMBEDDED_MODEL, WARM_START)}
"""By the name under which this service knows them, and vLLM does not."""

_RESERVED_NAME = re.compile(
    r"reserved|unused|placeholder|<\|?extra_\d+\|?>|<SPECIAL_\d+>|<\|(?:dummy|extra_id)_\d+\|>",
    re.IGNORECASE,
)
"""Fillers of a vocabulary. `<extra_id_0>` without bars is none: T5 masks text with it."""
_OTHER_FORMS = ("original/*", "metal/*", "onnx/*", "*.gguf")
"""Files on the hub that hold the weights once more: two of three parts of gpt-oss."""
_TEKKEN = "tekken.json"
"""A tokenizer in Mistral's own form."""
TOKENIZER_FILES = (
    *("tokenizer*", "vocab*", "merges*", "special_tokens_map*", "added_tokens*"),
    _TEKKEN,
)
"""Patterns of the files that make up a tokenizer."""


def resolve_model(name: str) -> Path:
    """The folder of a shipped model, of a model on this machine, or of a Hugging Face Hub snapshot.

    `embedded` and `embedded-sft` are shipped. For a folder that exists here, the hub is not asked.

    Raises:
        ModelRefused: there is no such folder, and the model cannot be downloaded.
    """
    if not is_on_hub(name):
        return SHIPPED_MODELS.get(name, Path(name))
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise ModelRefused(
            f"no model folder {name!r}: give an existing folder, 'embedded', or a hub id "
            "such as 'Qwen/Qwen3-4B'"
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read at import
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=list(_OTHER_FORMS)))
    except Exception as error:  # errors of the client, the network or the disk
        raise ModelRefused(f"could not download {name!r} from the model hub: {error}") from error


def is_on_hub(name: str) -> bool:
    """Whether a model's name is for the hub: it is not shipped, and no folder here."""
    return name not in SHIPPED_MODELS and not Path(name).is_dir()


def digest_files(paths: Iterable[Path], root: Path, under: str = "") -> str:
    """SHA-256 of names and contents, cut to 16 hexadecimal digits.

    A file's name is its path from `root`, with `under` before it.
    """
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(f"{under}{path.relative_to(root).as_posix()}".encode() + b"\0")
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


def digest_probe(folder: Path) -> str:
    """Digest of a probe's weights and configuration, without its card.

    It is the same wherever the probe is.
    """
    return digest_files([folder / WEIGHTS_FILE, folder / CONFIG_FILE], folder, f"{PROBE_FOLDER}/")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's folder and the folder of its probe, read without loading any weights.

    `generation` is the generation config; without one, the ends of text in the configuration.
    `familiarity` is the configuration of `familiarity/` in the model's folder; None without one.
    """

    folder: Path
    config: dict[str, Any]
    generation: dict[str, Any]
    probe: ProbeConfig | None
    probe_folder: Path
    familiarity: FamiliarityConfig | None = None

    @classmethod
    def read(cls, folder: Path, probe_folder: Path | None = None) -> ModelFiles:
        """Reads the configuration files.

        Args:
            folder: of the model.
            probe_folder: of the probe, which must then exist. Default: `probe/` in `folder`, if
                there is one.

        Raises:
            ModelRefused: the folder holds no model; or the probe is missing, cannot be read, or is
                for another model.
        """
        if not (folder / "config.json").is_file():
            raise ModelRefused(f"{folder} holds no config.json, so it is not a model folder")
        generation = folder / "generation_config.json"
        probe = folder / PROBE_FOLDER if probe_folder is None else probe_folder
        config = read_json(folder / "config.json")
        files = cls(
            folder=folder,
            config=config,
            generation=read_json(generation) if generation.is_file() else _ends_of(config),
            probe=read_probe(probe) if probe.is_dir() or probe_folder else None,
            probe_folder=probe.absolute(),
            familiarity=FamiliarityConfig.load(folder / FAMILIARITY_FOLDER)
            if (folder / FAMILIARITY_FOLDER).is_dir()
            else None,
        )
        hidden_size = files._setting("hidden_size")
        if files.probe is not None and hidden_size not in (None, files.probe.hidden_size):
            raise ModelRefused(
                f"{probe} reads states of size {files.probe.hidden_size}, but this model's hidden "
                f"size is {hidden_size}: train a probe for it with `rlcm train probe`"
            )
        if files.familiarity and hidden_size not in (None, files.familiarity.hidden_size):
            raise ModelRefused(
                f"{folder / FAMILIARITY_FOLDER} reads states of size "
                f"{files.familiarity.hidden_size}, but this model's hidden size is {hidden_size}: "
                "fit it for this model with `rlcm train familiarity`"
            )
        return files

    @property
    def architecture(self) -> str:
        """The architecture that vLLM would choose.

        Raises:
            ModelRefused: the configuration names no architecture.
        """
        named = self.config.get("architectures") or []
        if not named:
            raise ModelRefused(f"{self.folder}/config.json names no architecture")
        return str(named[0])

    @property
    def vocabulary(self) -> int:
        """Number of ids that the model has logits for.

        Raises:
            ModelRefused: the configuration gives no number.
        """
        size = self._setting("vocab_size")
        if size is None:
            raise ModelRefused(f"{self.folder}/config.json gives no vocab_size")
        return int(size)

    @property
    def hidden_size(self) -> int:
        """Length of a state.

        Raises:
            ModelRefused: the configuration gives no number.
        """
        size = self._setting("hidden_size")
        if size is None:
            raise ModelRefused(f"{self.folder}/config.json gives no hidden_size")
        return int(size)

    @property
    def context(self) -> int | None:
        """Length of the longest sequence in tokens; None if the configuration gives none."""
        longest = self._setting("max_position_embeddings")
        return None if longest is None else int(longest)

    @property
    def layers(self) -> tuple[str, ...]:
        """The kind of each layer, such as "mamba"; empty if the configuration does not say."""
        return tuple(self._setting("layer_types") or ())

    def _setting(self, name: str) -> Any:
        """A setting of the language model; a multimodal model keeps it in its `text_config`."""
        return self.config.get(name, (self.config.get("text_config") or {}).get(name))

    @property
    def thinking(self) -> str | None:
        """The thinking format that the generation config names; None if it names none.

        Raises:
            ModelRefused: it has `thinks`, the setting before formats had names.
        """
        if "thinks" in self.generation:
            raise ModelRefused(
                f"{self.folder}/generation_config.json has thinks = {self.generation['thinks']}: "
                'name the thinking format instead, such as "thinking": "none"'
            )
        named = self.generation.get("thinking")
        return None if named is None else str(named)

    @property
    def dtype(self) -> str | None:
        """Name of the type in which the weights are stored; None if the model does not say."""
        named = self.config.get("dtype") or self.config.get("torch_dtype")
        return None if named is None else str(named)

    def model_digest(self) -> str:
        """Digest of the weights and the configuration."""
        weights = [*self.folder.glob("*.safetensors"), *self.folder.glob("*.bin")]
        return digest_files([self.folder / "config.json", *weights], self.folder)

    def tokenizer_digest(self) -> str:
        """Digest of the tokenizer's files."""
        files = {path for pattern in TOKENIZER_FILES for path in self.folder.glob(pattern)}
        return digest_files(files, self.folder)

    def probe_digest(self) -> str:
        """Digest of the probe, as of `digest_probe`; "" without a probe."""
        return "" if self.probe is None else digest_probe(self.probe_folder)

    def familiarity_digest(self) -> str:
        """Digest of the familiarity reading, without its card; "" without one."""
        if self.familiarity is None:
            return ""
        folder = self.folder / FAMILIARITY_FOLDER
        return digest_files([folder / name for name in FAMILIARITY_FILES], self.folder)


def _ends_of(config: dict[str, Any]) -> dict[str, Any]:
    """What vLLM takes from the configuration of a model without a generation config."""
    named = (own.get("eos_token_id") for own in (config, config.get("text_config") or {}))
    ends = next((one for one in named if one is not None), None)
    return {} if ends is None else {"eos_token_id": ends}


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The model's tokenizer.

    `tokenizer.json` is taken as it is. Left to itself, transformers builds some tokenizers anew, in
    the way of the class that the files name. It knows of wrong names by the model's hub id alone. A
    folder has none, and where it names `LlamaTokenizerFast` wrongly, texts lose their blanks.

    Mistral's own `tekken.json` is converted, with the chat template that mistral-common writes for
    it, where `tokenizer.json` is missing. transformers would hand it to mistral-common, whose
    tokenizer shows neither its chat template nor its special tokens.

    Raises:
        ModelRefused: transformers cannot load it. Code in the folder is never run.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.integrations.mistral import convert_tekken_tokenizer

    tekken = folder / _TEKKEN
    loaded: PreTrainedTokenizerBase
    try:
        if (folder / "tokenizer.json").is_file():
            loaded = PreTrainedTokenizerFast.from_pretrained(folder)
        elif tekken.is_file():
            loaded = convert_tekken_tokenizer(str(tekken))
        else:
            loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # of transformers, by what is missing or wrong
        raise ModelRefused(
            f"the tokenizer in {folder} cannot be loaded: {error}: copy all of its files there, "
            f"tokenizer.json or {_TEKKEN} among them"
        ) from error
    return loaded


def chat_template_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Digest of the text of the chat template."""
    template = tokenizer.chat_template or ""
    return hashlib.sha256(str(template).encode()).hexdigest()[:16]


def spare_ids(tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> tuple[int, int]:
    """Two neighbouring ids below `vocabulary` that represent no text: the stop ids.

    Ids past the tokenizer's last one, or else the highest two whose names are those of fillers.

    Raises:
        ModelRefused: there are no two such ids.
    """
    last = max(tokenizer.get_vocab().values())
    if last + 2 < vocabulary:
        return vocabulary - 2, vocabulary - 1
    reserved = {
        id_ for token, id_ in tokenizer.get_added_vocab().items() if _RESERVED_NAME.search(token)
    }
    for id_ in sorted(reserved, reverse=True):
        if id_ - 1 in reserved and id_ < vocabulary:
            return id_ - 1, id_
    raise ModelRefused(
        f"the model's vocabulary of {vocabulary} ids has no two unused neighbouring ids, which the "
        "exit control needs to stop a request: enlarge the embedding by two rows "
        "(resize_token_embeddings)"
    )
