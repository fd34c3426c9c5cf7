"""The cost of the tokens' figures in a model of ordinary size, against its final matrix product.

    python -m studies.serving.statistics_cost [--rounds 15] [--smoke]

The logits of 64 rows over a vocabulary of 152,000 are computed from states of 3,584 numbers, in
bfloat16 as such models run, and their figures as the engine computes them: the distributions of the
next tokens, and then the figures of the sampled tokens. Both run in turn in one process, with as
many threads as torch uses. Other parts of the model, which take most of a step, are left out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import linear

from rlcm_serve.engine.worker.figures.distributions import Distributions
from studies.smoke import study_parser


class Shape(NamedTuple):
    """Rows of a batch, tokens of the vocabulary, and numbers of a state."""

    rows: int
    vocabulary: int
    hidden: int


ORDINARY, TINY = Shape(64, 152_000, 3_584), Shape(2, 4_000, 32)


def main() -> None:
    """Prints a table of times and ratios."""
    parser = study_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    options = parser.parse_args()
    shape, rounds = (TINY, 1) if options.smoke else (ORDINARY, options.rounds)
    with torch.inference_mode():
        runs = measure(shape, rounds)
    ratios = [figures / product for product, figures in runs]
    product, figures = (statistics.median(times) for times in zip(*runs, strict=True))
    print(
        f"{shape.rows} rows, vocabulary {shape.vocabulary}, states of {shape.hidden}, "
        f"{torch.get_num_threads()} threads"
    )
    print("| final product, ms | figures, ms | ratio, median (min to max) |")
    print("|---|---|---|")
    print(
        f"| {1000 * product:.1f} | {1000 * figures:.1f} | {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}) |"
    )


def measure(shape: Shape, rounds: int) -> list[tuple[float, float]]:
    """Seconds of the product and of the figures in each round."""
    draw = torch.Generator().manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight_VH = torch.randn(shape.vocabulary, shape.hidden, generator=draw).bfloat16().to(device)
    states_NH = torch.randn(shape.rows, shape.hidden, generator=draw).bfloat16().to(device)
    states_NH *= 0.05  # logits of a few units
    rows, sampled = range(shape.rows), torch.zeros(shape.rows, dtype=torch.long).tolist()
    raw_NV = linear(states_NH, weight_VH)
    logits_NV = raw_NV.float()  # as vLLM's sampler makes them, with or without figures

    def product() -> None:
        linear(states_NH, weight_VH)

    def figures() -> None:
        Distributions.of(logits_NV, rows, raw_NV).figures(rows, sampled)

    runs = [(_seconds(product, device), _seconds(figures, device)) for _ in range(rounds + 1)]
    return runs[1:]  # the first round warms up


def _seconds(work: Callable[[], None], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
