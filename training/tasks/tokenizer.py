"""The embedded reasoner's tokenizer: byte-level BPE in which every digit is its own token."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rlcm_serve.engine.prompts import FORCED_SUFFIX
from training.tasks.documents import answered_text, forced_text, prompt_text
from training.tasks.problems import Split, problem_stream
from training.tasks.reasoning import write_reasoning

SPECIAL_TOKENS = ("<pad>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
_MESSAGES = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
)
CHAT_TEMPLATE = (
    _MESSAGES + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
UNMARKED_TEMPLATE = _MESSAGES + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
"""Of a model that marks no thinking."""
# A word, a digit or a sign, each with the space before it: " 1", "4", "3" for " 143".
_PIECES = Regex(r" ?[A-Za-z]+| ?\d| ?[^\sA-Za-z\d]|\s+")
_VOCABULARY = 508  # a model of 512 then has unused ids; the exit control needs two
_DOCUMENTS = 4000


def build_tokenizer(seed: int = 0, thinking: bool = True) -> PreTrainedTokenizerFast:
    """Trains the tokenizer on reasoning text; the same seed gives the same tokenizer.

    Args:
        seed: of the text.
        thinking: whether the chat template opens the model's thinking; the vocabulary is the same.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=20,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(random.Random(seed)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
        chat_template=CHAT_TEMPLATE if thinking else UNMARKED_TEMPLATE,
    )


def _corpus(rng: random.Random) -> Iterator[str]:
    problems = problem_stream(Split.TRAIN, rng)
    for _ in range(_DOCUMENTS):
        problem = next(problems)
        reasoning = write_reasoning(problem, rng)
        yield prompt_text(problem.question, verbalise=rng.random() < 0.2)
        yield reasoning.text
        yield answered_text(reasoning.final)
        yield answered_text(reasoning.final, confidence=rng.random())
        yield FORCED_SUFFIX + forced_text(reasoning.final)
