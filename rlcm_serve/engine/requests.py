"""One vLLM request: its sampling, the JSON schema that an answer follows, and its admission."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rlcm_serve.core import Budget, GenerationSettings, Sampling
from rlcm_serve.errors import EngineBusy, RequestRefused
from rlcm_serve.profiles.bounded_schemas import schema_refused

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.outputs import CompletionOutput
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.engine.async_llm import AsyncLLM

P = ParamSpec("P")
Result = TypeVar("Result")

PATIENCE = 600.0
"""Seconds for which a request is sent again while vLLM's queue is full."""
_STRIDE = 8
"""Most tokens per output when the caller does not want their text.

One output per token costs this process twice the time. With a divisor of N, a reading still arrives
with the very token that settles it.
"""
_SEEDS = 2**62  # vLLM adds the number of an answer to the seed, and -1 means no seed
STRUCTURED_OUTPUTS = {"backend": "guidance", "disable_any_whitespace": True}
"""vLLM's configuration. Guidance refuses what it does not support, where others ignore it; free
blanks between the parts of a text invite a model to write them until its tokens are used up.
"""


def once_admitted(
    ask: Callable[P, Coroutine[Any, Any, Result]],
) -> Callable[P, Coroutine[Any, Any, Result]]:
    """Sends a request again while vLLM's queue is full: for work that is under way.

    A new question is refused at once instead, so that its caller can ask elsewhere.

    Raises:
        EngineBusy: the queue was full for `PATIENCE` seconds.
    """

    @wraps(ask)
    async def patient(*args: P.args, **named: P.kwargs) -> Result:
        waited = 0.0
        while True:
            try:
                return await ask(*args, **named)
            except EngineBusy as busy:
                if waited >= PATIENCE:
                    raise
                pause = busy.retry_after
            await asyncio.sleep(pause)
            waited += pause

    return patient


def sampling_params(
    generation: GenerationSettings, max_tokens: int, stop_ids: Sequence[int]
) -> SamplingParams:
    """Parameters for a stream of token ids that ends at any of `stop_ids`."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=generation.sampling.temperature,
        top_p=generation.sampling.top_p,
        top_k=generation.sampling.top_k,
        min_p=generation.sampling.min_p,
        seed=seed_of(generation),
        max_tokens=max_tokens,
        stop_token_ids=list(stop_ids),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def seed_of(generation: GenerationSettings) -> int | None:
    """The seed in vLLM's range; None for greedy sampling, on which a seed has no effect."""
    if generation.seed is None or generation.sampling.temperature == 0:
        return None
    return generation.seed % _SEEDS


def stride_of(interval: int) -> int:
    """Tokens per output: the largest divisor of `interval` up to `_STRIDE`."""
    return max(stride for stride in range(1, _STRIDE + 1) if interval % stride == 0)


def log_probs_of(part: CompletionOutput) -> list[float]:
    """Log-probabilities of the new tokens; empty if the request did not ask for them."""
    sampled = zip(part.token_ids, part.logprobs or (), strict=False)
    return [float(found[id_].logprob) for id_, found in sampled]


def structured_outputs(schema: str | None) -> StructuredOutputsParams | None:
    """What vLLM needs to know of the schema; None without one."""
    from vllm.sampling_params import StructuredOutputsParams

    return None if schema is None else StructuredOutputsParams(json=json.loads(schema))


def check_sampling(llm: AsyncLLM, sampling: Sampling) -> None:
    """Returns if vLLM can sample like this, with the drafts that it was started with.

    Raises:
        RequestRefused: it cannot; the message says why.
    """
    from vllm.exceptions import VLLMClientError

    params = sampling_params(GenerationSettings(Budget(1, 1), sampling), 1, ())
    config = llm.vllm_config
    try:
        params.verify(
            llm.model_config,
            config.speculative_config,
            config.structured_outputs_config,
            llm.input_processor.tokenizer,
        )
    except (VLLMClientError, ValueError) as error:
        raise RequestRefused("profile", f"vLLM cannot sample like this: {error}") from error


def check_schema(llm: AsyncLLM, schema: str | None) -> None:
    """Returns if vLLM can let an answer follow the schema, if there is one.

    Raises:
        RequestRefused: it cannot; the message says why.
    """
    from vllm import SamplingParams
    from vllm.exceptions import VLLMClientError

    if schema is None:
        return
    params = SamplingParams(structured_outputs=structured_outputs(schema))
    config = llm.vllm_config.structured_outputs_config
    try:
        params.verify(llm.model_config, None, config, llm.input_processor.tokenizer)
    except (VLLMClientError, ValueError) as error:
        raise schema_refused(f"cannot be followed: {error}") from error
