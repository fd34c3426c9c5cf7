"""The order of the problems, the same in a run that was stopped and continued."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.utils.data import Sampler
from trl.trainer.utils import RepeatSampler


class ResumableSampler(Sampler[int]):
    """TRL's sampler, which begins every epoch with that epoch's order.

    By itself, TRL's draws a new order whenever it is asked: a process that continues in the third
    epoch would get the order of the first one.

    Args:
        sampler: TRL's, with a seed.
        epoch: gives the number of complete epochs.
    """

    def __init__(self, sampler: RepeatSampler, epoch: Callable[[], int]) -> None:
        self._sampler, self._epoch = sampler, epoch

    def __iter__(self) -> Iterator[int]:
        if self._sampler.shuffle:
            orders = self._sampler.generator
            orders.manual_seed(self._sampler.seed)
            for _ in range(self._epoch()):
                torch.randperm(self._sampler.num_samples, generator=orders)
        return iter(self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)
