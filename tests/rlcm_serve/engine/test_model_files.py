import base64
import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from rlcm_serve.core import Budget, Message, Role
from rlcm_serve.engine.model_files import (
    EMBEDDED_MODEL,
    WARM_START,
    ModelFiles,
    chat_template_digest,
    load_tokenizer,
    resolve_model,
    spare_ids,
)
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, Probe
from rlcm_serve.errors import ModelRefused
from tests.rlcm_serve.engine.thinking.families import FAMILIES

CONFIG: dict[str, Any] = {"architectures": ["Qwen3ForCausalLM"], "vocab_size": 96, "hidden_size": 4}


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A hub that has nothing; the list is what it was asked for."""
    asked: list[str] = []

    def snapshot_download(name: str, ignore_patterns: list[str]) -> str:
        asked.append(name)
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder; the weights are a few bytes."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model-1.safetensors").write_bytes(b"weights")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    return tmp_path


def a_probe(hidden_size: int = 4) -> Probe:
    return Probe(torch.zeros(2, hidden_size), torch.zeros(2), torch.zeros(1, 2), torch.zeros(1))


def a_tokenizer(words: int, *added: str) -> PreTrainedTokenizerFast:
    """Word ids 0 .. words - 1, then the added tokens."""
    vocabulary = {f"w{number}": number for number in range(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in added])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_shipped_models_have_names(no_hub: list[str]) -> None:
    assert resolve_model("embedded") == EMBEDDED_MODEL
    assert resolve_model("embedded-sft") == WARM_START
    assert no_hub == []


def test_a_folder_here_never_asks_a_hub(
    folder: Path, no_hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    (folder.parent / "org").mkdir()
    shutil.copytree(folder, folder.parent / "org" / "name")
    for name in (str(folder), f"./{folder.name}", folder.name, "org/name"):
        assert resolve_model(name).samefile(name)
    assert no_hub == []


@pytest.mark.parametrize("name", ["./none", "/no/ne", "~/none", "none", "a/b/c", "../none"])
def test_a_name_that_is_no_hub_id_never_asks_a_hub(no_hub: list[str], name: str) -> None:
    with pytest.raises(ModelRefused, match=r"no model folder .*'embedded'"):
        resolve_model(name)
    assert no_hub == []


def test_a_hub_that_cannot_be_reached_is_said(no_hub: list[str]) -> None:
    with pytest.raises(ModelRefused, match=r"could not download 'org/none'.*no network"):
        resolve_model("org/none")
    assert no_hub == ["org/none"]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"no config\.json"):
        ModelFiles.read(tmp_path)


def test_what_is_missing_beside_the_model_is_none(folder: Path) -> None:
    files = ModelFiles.read(folder)
    assert files.probe is None
    assert files.probe_digest() == ""
    assert files.generation == {}
    assert (files.architecture, files.vocabulary) == ("Qwen3ForCausalLM", 96)


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        ({"eos_token_id": [5, 3]}, None, [5, 3]),
        ({"eos_token_id": None, "text_config": {"eos_token_id": 7}}, None, 7),
        ({"eos_token_id": 0, "text_config": {"eos_token_id": 7}}, None, 0),
        ({"eos_token_id": None, "text_config": None}, None, None),
        ({"eos_token_id": 5}, {}, None),
        ({"eos_token_id": 5}, {"eos_token_id": 4}, 4),
    ],
)
def test_without_a_generation_config_a_text_ends_as_the_configuration_says(
    folder: Path, config: dict[str, Any], generation: dict[str, Any] | None, ends: object
) -> None:
    """As transformers makes one of the configuration, for vLLM."""
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    assert ModelFiles.read(folder).generation.get("eos_token_id") == ends
    if generation is None:
        assert GenerationConfig.from_model_config(CONFIG | config).eos_token_id == ends


def test_such_an_end_is_no_part_of_a_rollout(tmp_path: Path) -> None:
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    for name in names:
        shutil.copy(EMBEDDED_MODEL / name, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"eos_token_id": [0, 2]}))
    text = ModelText(ModelFiles.read(tmp_path), load_tokenizer(tmp_path), thinking="none")
    ids = text.tokenizer.encode("It is 3.", add_special_tokens=False)
    rollout = text.rollout([*ids, 0], 0, Budget(thinking=99, answer=9))
    assert (rollout.tokens, rollout.answer_text) == (tuple(ids), "It is 3.")


def test_a_model_of_several_modalities_keeps_its_language_model_apart(folder: Path) -> None:
    nested = {"architectures": ["X"], "text_config": {"vocab_size": 128, "hidden_size": 5}}
    (folder / "config.json").write_text(json.dumps(nested))
    assert ModelFiles.read(folder).vocabulary == 128
    a_probe().save(folder / PROBE_FOLDER, 16)
    with pytest.raises(ModelRefused, match="hidden size is 5"):
        ModelFiles.read(folder)


@pytest.mark.parametrize(("setting", "why"), [("architectures", "no arch"), ("vocab_size", "no v")])
def test_a_configuration_that_says_too_little_is_refused(
    folder: Path, setting: str, why: str
) -> None:
    config = {name: value for name, value in CONFIG.items() if name != setting}
    (folder / "config.json").write_text(json.dumps(config))
    files = ModelFiles.read(folder)
    with pytest.raises(ModelRefused, match=why):
        _ = files.architecture, files.vocabulary


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("content", "why"), [("{bad", "is not JSON"), ("[]", "is not a JSON object")]
)
def test_a_malformed_configuration_is_refused(
    folder: Path, file: str, content: str, why: str
) -> None:
    (folder / file).write_text(content)
    with pytest.raises(ModelRefused, match=f"{file} {why}"):
        ModelFiles.read(folder)


def test_an_empty_text_config_says_nothing(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | {"text_config": None}))
    assert ModelFiles.read(folder).layers == ()


def test_a_probe_of_another_model_is_refused(folder: Path) -> None:
    a_probe(hidden_size=3).save(folder / PROBE_FOLDER, 16)
    with pytest.raises(ModelRefused, match=r"states of size 3.*hidden size is 4.*rlcm train probe"):
        ModelFiles.read(folder)


def test_a_probe_beside_the_model_is_found(folder: Path) -> None:
    a_probe().save(folder / PROBE_FOLDER, 16)
    files = ModelFiles.read(folder)
    assert files.probe is not None
    assert files.probe.checkpoint_interval == 16
    assert len(files.probe_digest()) == 16


def test_a_probe_may_be_elsewhere(folder: Path, tmp_path: Path) -> None:
    a_probe().save(folder / PROBE_FOLDER, 16)
    a_probe().save(tmp_path / "mine", 32)
    files = ModelFiles.read(folder, tmp_path / "mine")
    assert files.probe is not None
    assert files.probe.checkpoint_interval == 32
    assert files.probe_folder == tmp_path / "mine"
    beside = ModelFiles.read(folder).probe_digest()
    assert files.probe_digest() != beside
    copied = shutil.copytree(folder / PROBE_FOLDER, tmp_path / "a copy")
    assert ModelFiles.read(folder, copied).probe_digest() == beside


@pytest.mark.parametrize("missing", ["config.json", "probe.safetensors"])
def test_an_incomplete_probe_is_refused(folder: Path, tmp_path: Path, missing: str) -> None:
    with pytest.raises(ModelRefused, match=r"nowhere is not a probe's folder"):
        ModelFiles.read(folder, tmp_path / "nowhere")
    a_probe().save(folder / PROBE_FOLDER, 16)
    (folder / PROBE_FOLDER / missing).unlink()
    with pytest.raises(ModelRefused, match=f"probe is not a probe's folder: it holds no {missing}"):
        ModelFiles.read(folder)


DIGESTS = ("model_digest", "tokenizer_digest", "probe_digest")


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("config.json", "model_digest"),
        ("model-1.safetensors", "model_digest"),
        ("model-2.safetensors", "model_digest"),
        ("tokenizer.json", "tokenizer_digest"),
        ("vocab.json", "tokenizer_digest"),
        ("probe/probe.safetensors", "probe_digest"),
        ("probe/config.json", "probe_digest"),
        ("README.md", None),
    ],
)
def test_a_digest_changes_with_its_own_files_alone(
    folder: Path, file: str, changed: str | None
) -> None:
    a_probe().save(folder / PROBE_FOLDER, 16)
    files = ModelFiles.read(folder)
    before = {name: getattr(files, name)() for name in DIGESTS}
    path = folder / file
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b" ")
    after = {name: getattr(files, name)() for name in DIGESTS}
    assert {name for name in DIGESTS if before[name] != after[name]} == {changed} - {None}


def test_a_digest_is_that_of_contents_and_not_of_the_place(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere"
    shutil.copytree(folder, copied, ignore=shutil.ignore_patterns("elsewhere"))
    assert ModelFiles.read(copied).model_digest() == ModelFiles.read(folder).model_digest()
    (copied / "model-1.safetensors").rename(copied / "model-3.safetensors")
    assert ModelFiles.read(copied).model_digest() != ModelFiles.read(folder).model_digest()


TEKKEN_TOKENS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    *("[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
)


def save_tekken(folder: Path, special: int = 40) -> None:
    """A tokenizer in Mistral's own form: special tokens and their fillers, then the 256 bytes."""
    tekken = {
        "config": {
            "pattern": r"\p{N}|[^\p{N}]+",
            "num_vocab_tokens": 256,
            "default_vocab_size": 256 + special,
            "default_num_special_tokens": special,
            "version": "v13",
        },
        "vocab": [
            {"rank": at, "token_bytes": base64.b64encode(bytes([at])).decode(), "token_str": None}
            for at in range(256)
        ],
        "special_tokens": [
            {"rank": at, "token_str": token, "is_control": True}
            for at, token in enumerate(TEKKEN_TOKENS)
        ],
    }
    (folder / "tekken.json").write_text(json.dumps(tekken))


@pytest.fixture
def mistrals(tmp_path: Path) -> Path:
    """The folder of a model whose tokenizer is in Mistral's own form alone."""
    config = {"model_type": "mistral", "vocab_size": 296, "architectures": ["MistralForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_tekken(tmp_path)
    return tmp_path


def test_mistrals_own_tokenizer_is_served(mistrals: Path) -> None:
    files, tokenizer = ModelFiles.read(mistrals), load_tokenizer(mistrals)
    with pytest.raises(ModelRefused, match=r"--thinking FORMAT`.*: mistral or none$"):
        ModelText(files, tokenizer)
    text = ModelText(files, tokenizer, thinking="mistral")
    assert (text.stop_high, text.stop_low) == (38, 39), "fillers"
    assert tokenizer.convert_ids_to_tokens([text.think_end, *text.end_ids]) == ["[/THINK]", "</s>"]
    prompt = text.prompt([Message(Role.USER, "1 [INST] 2")])
    assert tokenizer.decode(prompt) == "<s>[INST]1 [INST] 2[/INST]"
    instructions = tokenizer.convert_tokens_to_ids("[INST]")
    assert prompt.count(instructions) == 1, "the question's is text"


def test_transformers_files_are_read_where_both_forms_are(mistrals: Path) -> None:
    load_tokenizer(mistrals).save_pretrained(mistrals)
    (mistrals / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert load_tokenizer(mistrals).chat_template == "{{ messages[0].content }}"


def test_mistrals_own_tokenizer_is_in_the_digest(mistrals: Path) -> None:
    before = ModelFiles.read(mistrals).tokenizer_digest()
    save_tekken(mistrals, special=44)
    assert ModelFiles.read(mistrals).tokenizer_digest() != before


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
def test_a_tokenizer_is_read_as_it_is_whatever_class_the_files_name(
    tmp_path: Path, model_type: str
) -> None:
    """DeepSeek's distilled models name LlamaTokenizerFast; as that class, "a b" becomes "ab"."""
    FAMILIES["deepseek-r1"].tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["tokenizer_class"] = "LlamaTokenizerFast"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    loaded, text = load_tokenizer(tmp_path), "a b\n<think>é 12"
    assert loaded.decode(loaded.encode(text, add_special_tokens=False)) == text
    assert loaded.chat_template == FAMILIES["deepseek-r1"].template
    assert loaded.eos_token == "<｜end▁of▁sentence｜>"


def test_the_embedded_models_tokenizer_is_what_transformers_loads() -> None:
    loaded, theirs = load_tokenizer(EMBEDDED_MODEL), AutoTokenizer.from_pretrained(EMBEDDED_MODEL)
    assert loaded.get_vocab() == theirs.get_vocab()
    assert loaded.added_tokens_decoder == theirs.added_tokens_decoder
    assert (loaded.chat_template, loaded.eos_token) == (theirs.chat_template, theirs.eos_token)
    text = "A dial shows 3.\n<think> A up 5."
    assert loaded.encode(text) == theirs.encode(text)


def test_the_hub_is_not_asked_for_weights_in_other_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[str] = []

    def snapshot_download(name: str, ignore_patterns: list[str]) -> str:
        ignored.extend(ignore_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert resolve_model("openai/gpt-oss-20b") == tmp_path
    left_out = [
        name
        for name in ("config.json", "model-1.safetensors", "original/x.safetensors", "metal/m.bin")
        if any(fnmatch(name, pattern) for pattern in ignored)
    ]
    assert left_out == ["original/x.safetensors", "metal/m.bin"]


def test_a_tokenizer_that_cannot_be_loaded_is_refused(folder: Path) -> None:
    with pytest.raises(ModelRefused, match=r"cannot be loaded: .*: copy all of its files there"):
        load_tokenizer(folder)


def test_the_chat_templates_digest_is_that_of_its_text() -> None:
    tokenizer = a_tokenizer(4)
    digests = set()
    for template in (None, "{{ messages }}", "{{ messages }} "):
        tokenizer.chat_template = template
        digests.add(chat_template_digest(tokenizer))
    assert len(digests) == 3


def test_ids_past_the_tokenizers_last_are_spare() -> None:
    assert spare_ids(a_tokenizer(10), 12) == (10, 11)
    assert spare_ids(a_tokenizer(8, "<|end|>", "</think>"), 16) == (14, 15)


@pytest.mark.parametrize(
    "names",
    [
        ("<|reserved_special_token_7|>", "<|reserved_special_token_8|>"),
        ("<unused0>", "<unused1>"),
        ("[UNUSED_TOKEN_1]", "[UNUSED_TOKEN_2]"),
        ("<|extra_3|>", "<|extra_4|>"),
        ("<|placeholder1|>", "<|placeholder2|>"),
        ("<SPECIAL_998>", "<SPECIAL_999>"),
        ("<|dummy_84|>", "<|dummy_85|>"),
        ("<|extra_id_0|>", "<|extra_id_1|>"),
    ],
)
def test_without_room_reserved_tokens_are_taken(names: tuple[str, str]) -> None:
    tokenizer = a_tokenizer(8, *names, "<|end|>")
    assert spare_ids(tokenizer, 11) == (8, 9)
    assert spare_ids(tokenizer, 12) == (8, 9), "one unused id is not enough"


def test_fillers_fill_a_vocabulary_before_its_words() -> None:
    """As in Mistral's tokenizers: what is used is among the first of a thousand special tokens."""
    used = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[THINK]", "[/THINK]")
    fillers = tuple(f"<SPECIAL_{number}>" for number in range(len(used), 1000))
    assert spare_ids(a_tokenizer(0, *used, *fillers), 1000) == (998, 999)


@pytest.mark.parametrize(
    "added",
    [
        (),
        ("<|end|>", "</think>"),
        ("<|reserved_1|>", "<|end|>", "<|reserved_2|>"),
        ("<special_tool_call>", "<|dummy|>", "<|extra_id|>"),
        ("<extra_id_0>", "<extra_id_1>"),
    ],
)
def test_a_full_vocabulary_is_refused(added: tuple[str, ...]) -> None:
    with pytest.raises(
        ModelRefused, match=r"no two unused neighbouring ids.*resize_token_embeddings"
    ):
        spare_ids(a_tokenizer(8, *added), 8 + len(added))


def test_reserved_tokens_the_model_has_no_logits_for_are_not_spare() -> None:
    with pytest.raises(ModelRefused):
        spare_ids(a_tokenizer(8, "<unused0>", "<unused1>"), 9)
