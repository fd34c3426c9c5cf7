from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.prompts import FORCED_ANSWER
from training.errors import TrainingRefused
from training.sft import (
    ANSWER_TOKENS,
    TEMPERATURE,
    THINKING_TOKENS,
    VOCABULARY,
    SftConfig,
    WarmStart,
    build_model,
    export,
    train,
)
from training.sft_data import IGNORED, Batch, DrillSchedule, WarmStartBatches

pytestmark = pytest.mark.training

TINY = SftConfig(
    steps=4,
    confidence_steps=3,
    batch_tokens=1536,
    hidden_size=32,
    intermediate_size=64,
    layers=2,
    heads=2,
    kv_heads=1,
    head_dim=16,
    warmup_steps=2,
    threads=1,
    save_every=5,
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"steps": 0}, "steps is 0: give 1 or more"),
        ({"warmup_steps": 0}, "warmup_steps is 0: give 1 or more"),
        ({"save_every": 0}, "save_every is 0: give 1 or more"),
        ({"confidence_steps": -1}, "confidence_steps is -1: give 0 or more"),
        ({"muon_lr": float("nan")}, "muon_lr is nan: give 0 or more"),
        ({"drills": 1.5}, "drills is 1.5: give a share from 0 to 1"),
        ({"heads": 5, "kv_heads": 2}, "heads is 5 and kv_heads 2: give a multiple of kv_heads"),
        ({"head_dim": 15}, "head_dim is 15: give an even number"),
        ({"seed": 2**70}, f"seed is {2**70}: give 0 or more, below 4294967296"),
    ],
)
def test_what_cannot_be_trained_is_refused_at_once(
    tmp_path: Path, changed: dict[str, float], said: str
) -> None:
    with pytest.raises(TrainingRefused, match=said):
        train(replace(TINY, **changed), tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_and_another_model_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"of somebody else")
    with pytest.raises(TrainingRefused, match="which holds a model, and no training to continue"):
        train(TINY, tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(b"junk")
    with pytest.raises(TrainingRefused, match=r"checkpoint\.pt is damaged .*: delete it to start"):
        train(TINY, tmp_path)


def a_batch() -> Batch:
    """Three rows of 20 tokens; of the first and last row the later 12 are predicted."""
    ids_BT = torch.randint(5, 500, (3, 20), generator=torch.Generator().manual_seed(0))
    labels_BT = ids_BT.clone()
    labels_BT[:, :8] = IGNORED
    labels_BT[1] = IGNORED
    right_BT = torch.full_like(ids_BT, IGNORED)
    right_BT[0, 8:12], right_BT[0, 12:] = 0, 1
    return Batch(ids_BT, labels_BT, right_BT, chunk_start=0)


def test_the_learning_rate_warms_up_stays_and_falls_then_once_more_from_lower() -> None:
    config = SftConfig(steps=1000, warmup_steps=100, confidence_steps=100, confidence_lr=0.3)
    at = (0, 49, 99, 400, 500, 750, 999, 1000, 1050, 1099)
    factors = [config.lr_factor(step) for step in at]
    expected = [0.01, 0.5, 1.0, 1.0, 1.0, 0.5, 0.002, 0.3, 0.15, 0.003]
    assert factors == pytest.approx(expected)


def test_a_resumed_run_ends_with_the_very_same_weights(tmp_path: Path) -> None:
    """After seven steps the checkpoint is that of the fifth: what a kill would have left."""
    train(TINY, tmp_path)
    uninterrupted = load_file(tmp_path / "model.safetensors")
    stored = torch.load(tmp_path / "checkpoint.pt", weights_only=False)
    assert stored["step"] == 5
    name = "model.embed_tokens.weight"
    assert not torch.equal(stored["model"][name], uninterrupted[name])
    seconds = train(TINY, tmp_path)
    assert seconds > stored["seconds"] > 0
    resumed = load_file(tmp_path / "model.safetensors")
    assert resumed.keys() == uninterrupted.keys()
    for name, weights in resumed.items():
        assert torch.equal(weights, uninterrupted[name]), name
    with pytest.raises(TrainingRefused, match=r"adamw_lr=0\.1.*--out"):
        train(replace(TINY, adamw_lr=0.1), tmp_path)


def test_the_loss_falls_and_then_there_are_two(tokenizer: PreTrainedTokenizerFast) -> None:
    torch.set_num_threads(1)
    config = replace(TINY, steps=24, confidence_steps=4, warmup_steps=4, adamw_lr=0.02)
    run = WarmStart(config, tokenizer)
    batches = WarmStartBatches(tokenizer, DrillSchedule(0.3, 0.3, 24), config.batch_tokens, seed=0)
    losses = [run.update(batch) for batch in islice(batches, config.all_steps)]
    language = [loss.language for loss in losses]
    assert language[0] == pytest.approx(torch.tensor(VOCABULARY).log().item(), abs=0.5)
    assert sum(language[20:24]) / 4 < 0.7 * language[0]
    assert {loss.confidence for loss in losses[:24]} == {0.0}
    assert all(loss.confidence > 0 for loss in losses[24:])
    assert run.step == 28


def test_the_loss_is_that_of_the_labels(tokenizer: PreTrainedTokenizerFast) -> None:
    """Masked tokens do not count, and each label is predicted from the tokens before it."""
    torch.set_num_threads(1)
    run, batch = WarmStart(TINY, tokenizer), a_batch()
    with torch.inference_mode():
        logits_BTV = run.model(input_ids=batch.ids_BT).logits.log_softmax(-1)
    expected = [
        -logits_BTV[row, at - 1, batch.ids_BT[row, at]].item()
        for row in (0, 2)
        for at in range(8, 20)
    ]
    losses = run.update(batch)
    assert losses.language == pytest.approx(sum(expected) / len(expected), abs=0.02)  # bfloat16
    assert losses.confidence == 0


def test_the_loss_of_confidence_is_that_of_the_answer_held(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    torch.set_num_threads(1)
    run, batch = WarmStart(TINY, tokenizer), a_batch()
    run.step = TINY.steps
    torch.nn.init.normal_(run.confidence_head.weight, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        hidden_BTH = run.model.model(input_ids=batch.ids_BT).last_hidden_state
        logits_T = run.confidence_head(hidden_BTH[0, 8:])[:, 0]
        expected = binary_cross_entropy_with_logits(logits_T, (torch.arange(12) >= 4).float())
    before = run.confidence_head.weight.clone()
    assert run.update(batch).confidence == pytest.approx(expected.item(), abs=0.05)  # bfloat16
    assert not torch.equal(run.confidence_head.weight, before)


def test_muon_has_the_matrices_and_adamw_the_rest(tokenizer: PreTrainedTokenizerFast) -> None:
    run = WarmStart(TINY, tokenizer)
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    names |= {id(parameter): "confidence head" for parameter in run.confidence_head.parameters()}
    muon = [names[id(p)] for group in run.muon.param_groups for p in group["params"]]
    adamw = [names[id(p)] for group in run.adamw.param_groups for p in group["params"]]
    assert sorted(muon + adamw) == sorted(names.values())
    assert all("proj" in name for name in muon)
    assert not any("proj" in name for name in adamw)


def test_what_is_exported_loads_and_says_how_it_is_served(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    model = build_model(TINY, tokenizer)
    export(model, tokenizer, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype is torch.float32
    ids = torch.tensor([AutoTokenizer.from_pretrained(tmp_path).encode("A dial shows 3.")])
    assert ids.tolist() == [tokenizer.encode("A dial shows 3.")]
    with torch.inference_mode():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
    served = loaded.generation_config
    assert (served.temperature, served.top_p) == (TEMPERATURE, 1.0)
    assert served.max_new_tokens == THINKING_TOKENS
    assert served.answer_max_tokens == ANSWER_TOKENS
    assert served.eos_token_id == tokenizer.eos_token_id
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in tmp_path.iterdir())


def test_a_model_without_marks_of_thinking_is_served_as_one(tmp_path: Path) -> None:
    """The service finds its format from the exported files, and closes nothing."""
    train(replace(TINY, steps=2, confidence_steps=1, thinking=False), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = ModelText(ModelFiles.read(tmp_path), tokenizer)
    assert text.think_end is None
    assert tokenizer.decode(text.close(FORCED_ANSWER)) == f"\n{FORCED_ANSWER}"
    messages = [{"role": "user", "content": "A dial shows 3."}]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert prompt.endswith("<|im_start|>assistant\n")
