"""The figures of tokens in a small batch of a small model, each step in two compiled loops (numba).

A forward pass empties the caches, and after it every call of numpy or torch takes longer than its
work on so few logits. numba comes with vLLM. The functions are compiled when this module is
imported, which takes seconds the first time; numba keeps the result on disk where it can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
_Loop = TypeVar("_Loop", bound=Callable[..., None])
_ASSOCIATIVE = {"reassoc", "nsz", "contract", "arcp"}
"""Sums may be reordered, so that they are vectorised; infinities and NaN keep their meaning."""


def _compiled(signature: str) -> Callable[[_Loop], _Loop]:
    options: dict[str, Any] = {"fastmath": _ASSOCIATIVE, "error_model": "numpy", "nogil": True}

    def compile_(loop: _Loop) -> _Loop:
        try:
            compiled: _Loop = numba.njit(signature, cache=True, **options)(loop)
        except RuntimeError:  # no folder to keep the result in
            compiled = numba.njit(signature, **options)(loop)
        return compiled

    return compile_


@_compiled("void(float32[:, ::1], int64, float32, float32[:, ::1], float32[:, ::1])")
def summarise(
    logits_NV: Floats, top: int, least: float, relative_NV: Floats, figures_NF: Floats
) -> None:
    """The logits less the highest of their row, at least `least`, and the figures of each row.

    Args:
        logits_NV: of the next tokens.
        top: how many of the likeliest tokens count for DeepConf's confidence.
        least: stands for all lower relative logits; its exp is 0 in float32.
        relative_NV: for the relative logits.
        figures_NF: for the logarithm of the normaliser, the entropy, and DeepConf's confidence.
    """
    one, zero, half, wanted = np.float32(1), np.float32(0), np.float32(0.5), np.float32(top)
    vocabulary = logits_NV.shape[1]
    for row in range(logits_NV.shape[0]):
        logits_V, relative_V = logits_NV[row], relative_NV[row]
        highest = logits_V[0]
        for token in range(vocabulary):
            highest = highest if highest > logits_V[token] else logits_V[token]
        total = weighted = zero
        for token in range(vocabulary):
            relative = logits_V[token] - highest
            relative_V[token] = relative = least if relative < least else relative
            # exp(x) = 2^n exp(y) with y in [-log 2 / 2, log 2 / 2], where a polynomial (Cephes,
            # expf) is exact to float32. Below -87 it is 0.
            x = np.float32(-87) if relative < np.float32(-87) else relative
            n = np.floor(x * np.float32(1.44269504) + half)
            y = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
            p = np.float32(1.9875691500e-4) * y + np.float32(1.3981999507e-3)
            p = (p * y + np.float32(8.3334519073e-3)) * y + np.float32(4.1665795894e-2)
            p = (p * y + np.float32(1.6666665459e-1)) * y + np.float32(5.0000001201e-1)
            power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
            odds = (p * y * y + y + one) * power if relative > np.float32(-87) else zero
            total += odds
            weighted += odds * relative
        # The sum of the likeliest: `low` is lowered until so many are not below it, then bisected.
        low, high, reached = np.float32(-4), zero, zero
        while reached < wanted and low > 2 * least:  # false for ever if a logit is NaN
            reached = zero
            for token in range(vocabulary):
                reached += one if relative_V[token] >= low else zero
            if reached < wanted:
                high, low = low, low * np.float32(2)
        while reached != wanted:
            middle = (low + high) * half
            if middle <= low or middle >= high:
                break  # equal logits: as many of them as are wanted count
            count = zero
            for token in range(vocabulary):
                count += one if relative_V[token] >= middle else zero
            if count >= wanted:
                low, reached = middle, count
            else:
                high = middle
        likeliest = count = zero
        for token in range(vocabulary):
            likeliest += relative_V[token] if relative_V[token] > low else zero
            count += one if relative_V[token] > low else zero
        likeliest += (wanted - count) * low
        log_total = np.log(total)
        figures_NF[row, 0] = log_total
        figures_NF[row, 1] = log_total - weighted / total
        figures_NF[row, 2] = log_total - likeliest / wanted


@_compiled(
    "void(float32[:, :], float32[:, :], int64[:, :], "
    "int64[:], int64[:], int64[:], float32[:, :, :], int32[:])"
)
def note(
    relative_NV: Floats,
    figures_NF: Floats,
    tokens_3N: Integers,
    slots_N: Integers,
    tickets_N: Integers,
    ticket_S: Integers,
    figures_STF: Floats,
    observed_S: npt.NDArray[np.int32],
) -> None:
    """Notes the figures of sampled tokens in the table of readings (`readings.table.Places`).

    Args:
        relative_NV, figures_NF: as `summarise` left them.
        tokens_3N: lengths of the requests, rows of the batch, and sampled tokens.
        slots_N, tickets_N: of the requests.
        ticket_S, figures_STF, observed_S: fields of the table.
    """
    for at in range(tokens_3N.shape[1]):
        slot, length, row, token = slots_N[at], tokens_3N[0, at], tokens_3N[1, at], tokens_3N[2, at]
        if ticket_S[slot] == tickets_N[at]:
            figures_STF[slot, length - 1, 0] = relative_NV[row, token] - figures_NF[row, 0]
            figures_STF[slot, length - 1, 1] = figures_NF[row, 1]
            figures_STF[slot, length - 1, 2] = figures_NF[row, 2]
            observed_S[slot] = length
