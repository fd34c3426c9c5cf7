"""Batches for the warm start: generated documents, packed by length, reproducible from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset
from transformers import PreTrainedTokenizerBase

from training.tasks.documents import Document, document, drill, unmarked_document
from training.tasks.problems import Split, problem_stream

IGNORED = -100
"""Label of a token that the model reads but does not predict."""

_CHUNK = 400  # documents per chunk, sorted by length
_MAX_DOCUMENT = 1400  # tokens; longer documents are dropped

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DrillSchedule:
    """The share of single-step drills: it falls linearly from `start` to `end` until half-way."""

    start: float
    end: float
    steps: int

    def share(self, step: int) -> float:
        """The share of documents made at `step` that are drills."""
        return self.start + (self.end - self.start) * min(1.0, 2 * step / self.steps)


class Encoded(NamedTuple):
    """One document, or a padded batch of documents. All three arrays have the same shape.

    `labels` are the ids to predict, or IGNORED. Within reasoning, `right` is 1 if
    the candidate answer there is right, else 0. Elsewhere it is IGNORED.
    """

    ids: Ids
    labels: Ids
    right: Ids


def encode(tokenizer: PreTrainedTokenizerBase, item: Document) -> Encoded:
    """Token ids and labels of one document, shape (T,) each."""
    ids: list[int] = []
    labels: list[int] = []
    right: list[int] = []
    for piece in item:
        own: list[int] = tokenizer.encode(piece.text, add_special_tokens=False)
        ids += own
        labels += own if piece.learned else [IGNORED] * len(own)
        right += [IGNORED if piece.right is None else int(piece.right)] * len(own)
    return Encoded(*(np.array(values, np.int64) for values in (ids, labels, right)))


def pack(encoded: list[Encoded], batch_tokens: int, pad: int) -> list[Encoded]:
    """Sorts documents by length and cuts them into padded batches of at most `batch_tokens`."""
    groups: list[list[Encoded]] = [[]]
    for item in sorted(encoded, key=lambda document: len(document.ids)):
        if groups[-1] and len(item.ids) * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(item)
    return [_pad(group, pad) for group in groups]


def _pad(group: list[Encoded], pad: int) -> Encoded:
    shape = len(group), max(len(item.ids) for item in group)
    batch = Encoded(*(np.full(shape, fill, np.int64) for fill in (pad, IGNORED, IGNORED)))
    for row, item in enumerate(group):
        for padded_BT, values_T in zip(batch, item, strict=True):
            padded_BT[row, : len(values_T)] = values_T
    return batch


class Batch(NamedTuple):
    """Padded documents, int64, and the step at which their chunk began."""

    ids_BT: torch.Tensor
    labels_BT: torch.Tensor
    right_BT: torch.Tensor
    chunk_start: int


class WarmStartBatches(IterableDataset[Batch]):
    """An endless stream of batches, from step `first` on.

    A chunk's documents depend on the seed and on the chunk's first step, so a resumed run sees the
    same batches as an uninterrupted one. Resuming generates at most one chunk again.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        drills: DrillSchedule,
        batch_tokens: int,
        seed: int,
        chunk_start: int = 0,
        first: int = 0,
        thinking: bool = True,
    ) -> None:
        self.tokenizer, self.drills = tokenizer, drills
        self.batch_tokens, self.seed = batch_tokens, seed
        self.chunk_start, self.first = chunk_start, first
        self.document = document if thinking else unmarked_document

    def __iter__(self) -> Iterator[Batch]:
        step = self.chunk_start
        while True:
            chunk_start = step
            for padded in self._chunk(chunk_start):
                if step >= self.first:
                    ids, labels, right = map(torch.from_numpy, padded)
                    yield Batch(ids, labels, right, chunk_start)
                step += 1

    def _chunk(self, step: int) -> list[Encoded]:
        rng = random.Random(f"{self.seed}-{step}")
        problems = problem_stream(Split.TRAIN, rng)
        made = [
            drill(rng)
            if rng.random() < self.drills.share(step)
            else self.document(next(problems), rng)
            for _ in range(_CHUNK)
        ]
        encoded = [encode(self.tokenizer, item) for item in made]
        short = [item for item in encoded if len(item.ids) <= _MAX_DOCUMENT]
        batches = pack(short, self.batch_tokens, self.tokenizer.pad_token_id)
        rng.shuffle(batches)
        return batches
