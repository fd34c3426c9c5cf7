import random
from itertools import islice

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from rlcm_serve.engine.prompts import FORCED_SUFFIX
from training.sft_data import IGNORED, DrillSchedule, Encoded, WarmStartBatches, encode, pack
from training.tasks.documents import Document, Piece, document, prompt_text
from training.tasks.problems import Split, problem_stream, split_of

DRILLS = DrillSchedule(start=0.3, end=0.02, steps=40)
BATCH_TOKENS = 2048


def documents(count: int) -> list[Document]:
    rng = random.Random(0)
    problems = problem_stream(Split.TRAIN, rng)
    return [document(next(problems), rng) for _ in range(count)]


def encoded(length: int, value: int = 1) -> Encoded:
    return Encoded(*(np.full(length, value + part, np.int64) for part in range(3)))


def test_the_share_of_drills_falls_to_half_way_and_stays() -> None:
    shares = [DRILLS.share(step) for step in (0, 10, 20, 30, 40)]
    assert shares == pytest.approx([0.3, 0.16, 0.02, 0.02, 0.02])


def test_only_what_is_learned_has_labels(tokenizer: PreTrainedTokenizerFast) -> None:
    for item in documents(100):
        ids, labels, _ = encode(tokenizer, item)
        assert tokenizer.decode(ids) == "".join(piece.text for piece in item)
        learned = "".join(piece.text for piece in item if piece.learned)
        assert tokenizer.decode(labels[labels != IGNORED]) == learned
        assert ((labels == IGNORED) | (labels == ids)).all()


def test_masks_follow_the_pieces_token_by_token(tokenizer: PreTrainedTokenizerFast) -> None:
    pieces = (
        Piece(prompt_text("A dial shows 3."), learned=False),
        Piece("Let me see.\n", learned=True, right=False),
        Piece("So I get 8.\n", learned=True, right=True),
        Piece(FORCED_SUFFIX, learned=False),
        Piece("8}.<|im_end|>", learned=True),
    )
    _, labels, right = encode(tokenizer, pieces)
    lengths = [len(tokenizer.encode(piece.text, add_special_tokens=False)) for piece in pieces]
    assert np.array_equal(labels != IGNORED, np.repeat([False, True, True, False, True], lengths))
    assert np.array_equal(right, np.repeat([IGNORED, 0, 1, IGNORED, IGNORED], lengths))


def test_pieces_are_encoded_as_the_whole_text_is(tokenizer: PreTrainedTokenizerFast) -> None:
    """No token straddles the border of two pieces, or serving would read other ids."""
    for item in documents(100):
        if any(piece.text == FORCED_SUFFIX for piece in item):
            continue  # cut anywhere, also inside a word: cuts in serving lie between tokens
        whole = "".join(piece.text for piece in item)
        ids = encode(tokenizer, item).ids.tolist()
        assert ids == tokenizer.encode(whole, add_special_tokens=False)


def test_packing_keeps_every_document_and_the_limit() -> None:
    rng = random.Random(3)
    items = [encoded(rng.randint(1, 90), value) for value in range(1, 200)]
    found = []
    for batch in pack(items, batch_tokens=300, pad=0):
        assert batch.ids.shape == batch.labels.shape == batch.right.shape
        assert batch.ids.size <= 300
        for ids, labels, right in zip(*batch, strict=True):
            length = int((ids != 0).sum())
            assert (ids[length:] == 0).all()
            assert (labels[length:] == IGNORED).all()
            assert (right[length:] == IGNORED).all()
            found.append([part[:length].tolist() for part in (ids, labels, right)])
    assert sorted(found) == sorted([part.tolist() for part in item] for item in items)


def test_packing_sorts_by_length_so_that_little_is_padding() -> None:
    rng = random.Random(3)
    items = [encoded(rng.randint(1, 90)) for _ in range(400)]
    padding = sum(int((batch.ids == 0).sum()) for batch in pack(items, batch_tokens=300, pad=0))
    assert padding < 0.05 * sum(len(item.ids) for item in items)


def test_a_document_longer_than_a_batch_has_one_of_its_own() -> None:
    batches = pack([encoded(50), encoded(500)], batch_tokens=100, pad=0)
    assert [batch.ids.shape for batch in batches] == [(1, 50), (1, 500)]


def batches_of(
    tokenizer: PreTrainedTokenizerFast, chunk_start: int = 0, first: int = 0, seed: int = 0
) -> WarmStartBatches:
    return WarmStartBatches(tokenizer, DRILLS, BATCH_TOKENS, seed, chunk_start, first)


def test_batches_keep_to_the_limit_and_to_training_problems(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    for batch in islice(batches_of(tokenizer), 20):
        assert batch.ids_BT.numel() <= BATCH_TOKENS
        assert batch.ids_BT.dtype == batch.labels_BT.dtype == torch.int64
        assert batch.ids_BT.shape == batch.labels_BT.shape == batch.right_BT.shape
        for text in tokenizer.batch_decode(batch.ids_BT):
            question = text.partition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
            if question:  # a drill has none
                own = question.removesuffix(" Say how confident you are.")
                assert split_of(own) is Split.TRAIN


@pytest.mark.slow
def test_a_resumed_stream_goes_on_as_if_it_had_not_stopped(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    whole = list(islice(batches_of(tokenizer), 130))
    second_chunk = whole[-1].chunk_start
    assert 0 < second_chunk < 125
    for taken in (second_chunk - 1, second_chunk, second_chunk + 2):
        chunk_start = whole[taken - 1].chunk_start
        rest = batches_of(tokenizer, chunk_start=chunk_start, first=taken)
        for resumed, expected in zip(islice(rest, 4), whole[taken:], strict=False):
            assert resumed.chunk_start == expected.chunk_start
            for own, other in zip(resumed[:3], expected[:3], strict=True):
                assert torch.equal(own, other)


def test_another_seed_gives_other_batches(tokenizer: PreTrainedTokenizerFast) -> None:
    first, other = (next(iter(batches_of(tokenizer, seed=seed))) for seed in (0, 1))
    assert not np.array_equal(first.ids_BT.numpy(), other.ids_BT.numpy())
