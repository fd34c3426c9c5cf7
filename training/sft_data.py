"""Batches for the warm start: documents made on the fly, packed by length, the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset
from transformers import PreTrainedTokenizerBase

from training.tasks.documents import Document, document, drill
from training.tasks.problems import Split, problem_stream

IGNORED = -100
"""Label of a token that is read but not predicted."""

_CHUNK = 400  # documents that are sorted by length together
_MAX_DOCUMENT = 1400  # tokens; longer ones are left out

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DrillSchedule:
    """The share of single-step drills: `start` at first, falling linearly to `end` half-way."""

    start: float
    end: float
    steps: int

    def share(self, step: int) -> float:
        return self.start + (self.end - self.start) * min(1.0, 2 * step / self.steps)


def encode(tokenizer: PreTrainedTokenizerBase, item: Document) -> tuple[list[int], list[int]]:
    """Token ids and labels of one document, each of the same length."""
    ids: list[int] = []
    labels: list[int] = []
    for text, learned in item.pieces:
        piece: list[int] = tokenizer.encode(text, add_special_tokens=False)
        ids += piece
        labels += piece if learned else [IGNORED] * len(piece)
    return ids, labels


def pack(
    encoded: list[tuple[list[int], list[int]]], batch_tokens: int, pad: int
) -> list[tuple[Ids, Ids]]:
    """Sorts documents by length and cuts them into padded batches of at most `batch_tokens`."""
    groups: list[list[tuple[list[int], list[int]]]] = [[]]
    for item in sorted(encoded, key=lambda pair: len(pair[0])):
        if groups[-1] and len(item[0]) * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(item)
    return [_pad(group, pad) for group in groups]


def _pad(group: list[tuple[list[int], list[int]]], pad: int) -> tuple[Ids, Ids]:
    width = max(len(ids) for ids, _ in group)
    ids_BT = np.full((len(group), width), pad, np.int64)
    labels_BT = np.full((len(group), width), IGNORED, np.int64)
    for row, (ids, labels) in enumerate(group):
        ids_BT[row, : len(ids)] = ids
        labels_BT[row, : len(labels)] = labels
    return ids_BT, labels_BT


class WarmStartBatches(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Batches from step `first` on, without end: (ids_BT, labels_BT), int64.

    A chunk's documents depend on the seed and the step it begins at, so a resumed run sees the
    batches it would have seen; at most one chunk is made again to find the place.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        drills: DrillSchedule,
        batch_tokens: int,
        seed: int,
        chunk_start: int = 0,
        first: int = 0,
    ) -> None:
        self.tokenizer, self.drills = tokenizer, drills
        self.batch_tokens, self.seed = batch_tokens, seed
        self.chunk_start, self.first = chunk_start, first

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        torch.set_num_threads(1)
        step = self.chunk_start
        while True:
            chunk_start = step
            for ids, labels in self._chunk(chunk_start):
                if step >= self.first:
                    yield torch.from_numpy(ids), torch.from_numpy(labels), chunk_start
                step += 1

    def _chunk(self, step: int) -> list[tuple[Ids, Ids]]:
        rng = random.Random(f"{self.seed}-{step}")
        problems = problem_stream(Split.TRAIN, rng)
        made = [
            drill(rng) if rng.random() < self.drills.share(step) else document(next(problems), rng)
            for _ in range(_CHUNK)
        ]
        encoded = [encode(self.tokenizer, item) for item in made]
        short = [pair for pair in encoded if len(pair[0]) <= _MAX_DOCUMENT]
        batches = pack(short, self.batch_tokens, self.tokenizer.pad_token_id)
        rng.shuffle(batches)
        return batches
