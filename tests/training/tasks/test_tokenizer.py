import random
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlcm_serve.engine.model_files import spare_ids
from rlcm_serve.engine.prompts import FORCED_SUFFIX
from training.sft import VOCABULARY
from training.tasks.documents import prompt_text
from training.tasks.problems import FAMILIES, LEVELS, make_problem
from training.tasks.reasoning import write_reasoning
from training.tasks.tokenizer import SPECIAL_TOKENS, build_tokenizer


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


@pytest.mark.parametrize("number", ["7", "42", "143", "-19", "1234567890"])
@pytest.mark.parametrize("before", ["", " ", "is ", "{", "("])
def test_every_digit_is_a_token(
    tokenizer: PreTrainedTokenizerFast, number: str, before: str
) -> None:
    pieces = [tokenizer.decode([id_]) for id_ in encode(tokenizer, before + number)]
    digits = [piece.strip() for piece in pieces if any(map(str.isdigit, piece))]
    assert digits == [digit for digit in number if digit.isdigit()]


def test_any_text_comes_back(tokenizer: PreTrainedTokenizerFast) -> None:
    rng = random.Random(0)
    texts = [
        "",
        "  two  spaces\t\ttabs\r\n\n",
        "Ärger, 你好, 🙂, ١٢٣, e\u0301, \u2028 \u00a0",
        "\\boxed{\\frac{1}{2}} $x^2$",
        FORCED_SUFFIX,
    ]
    texts += ["".join(map(chr, rng.sample(range(1, 0xD800), 40))) for _ in range(200)]
    for text in texts:
        assert tokenizer.decode(encode(tokenizer, text)) == text


def test_any_bytes_have_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    """Each of the 256 byte values, so that no text is ever unknown."""
    alphabet = {token for token in tokenizer.get_vocab() if len(token) == 1}
    assert len(alphabet) == 256
    text = bytes(range(256)).decode("latin-1")
    assert tokenizer.decode(encode(tokenizer, text)) == text
    assert tokenizer.unk_token is None


def test_two_ids_below_the_models_vocabulary_are_unused(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    assert max(tokenizer.get_vocab().values()) < VOCABULARY - 2
    high, low = spare_ids(tokenizer, VOCABULARY)
    assert tokenizer.convert_ids_to_tokens([high, low]) == [None, None]


def test_special_tokens_are_one_id_each(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = [encode(tokenizer, token) for token in SPECIAL_TOKENS]
    assert [len(own) for own in ids] == [1] * len(SPECIAL_TOKENS)
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token == "<pad>"


def test_the_chat_template_is_what_training_reads(tokenizer: PreTrainedTokenizerFast) -> None:
    question = "A dial shows 3. A up 5. What does it show now?"
    served = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
    )
    assert served == prompt_text(question)


def test_reasoning_is_short_in_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    """Whole words are tokens: a step costs about a dozen."""
    rng = random.Random(1)
    for family in FAMILIES:
        for level in LEVELS:
            problem = make_problem(family, level, rng)
            words = write_reasoning(problem, rng).text
            assert len(encode(tokenizer, words)) < 0.5 * len(words)


def test_saved_and_built_again_it_is_the_same(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    text = "A dial shows 3. A up 5.\n</think>\nSo I get 8."
    for other in (AutoTokenizer.from_pretrained(tmp_path), build_tokenizer()):
        assert other.get_vocab() == tokenizer.get_vocab()
        assert encode(other, text) == encode(tokenizer, text)
        assert other.chat_template == tokenizer.chat_template
