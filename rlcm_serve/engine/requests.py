"""What vLLM is asked for one request, and what it says of the tokens that come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcm_serve.core import GenerationSettings

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.outputs import CompletionOutput

_STRIDE = 8
"""The most tokens that come at a time where nobody wants their text.

Tokens that come one by one cost this process twice the time. With a divisor of N, a checkpoint
still comes with the very token that makes it stand.
"""
_SEEDS = 2**62  # vLLM adds the number of an answer to its seed, and takes -1 for none


def sampling_params(
    generation: GenerationSettings, max_tokens: int, stop_ids: Sequence[int]
) -> SamplingParams:
    """Tokens alone, as they come; any of `stop_ids` ends them."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=generation.sampling.temperature,
        top_p=generation.sampling.top_p,
        seed=seed_of(generation),
        max_tokens=max_tokens,
        stop_token_ids=list(stop_ids),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def seed_of(generation: GenerationSettings) -> int | None:
    """The seed as vLLM takes one; greedy sampling draws nothing that it could change."""
    if generation.seed is None or generation.sampling.temperature == 0:
        return None
    return generation.seed % _SEEDS


def stride_of(interval: int) -> int:
    """Tokens that are to come at a time: the largest divisor of `interval` up to `_STRIDE`."""
    return max(stride for stride in range(1, _STRIDE + 1) if interval % stride == 0)


def log_probs_of(part: CompletionOutput) -> list[float]:
    """Those of the tokens that have come; none where none were asked for."""
    sampled = zip(part.token_ids, part.logprobs or (), strict=False)
    return [float(found[id_].logprob) for id_, found in sampled]
