"""The data of a probe: states at cuts of reasoning, and the share of right answers there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibration.traces.traces import unit_of
from rlcm_serve.engine.worker.probe import Probe, ProbeInput, ProbeInputs
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.recording.inputs import ProbeRollout, inputs_beside, map_inputs
from training.errors import TrainingRefused

Rows = npt.NDArray[np.float32]

FIT_SHARE = 0.8
"""Share of the units (problems, or groups of them) that fit a probe; the others choose its epoch
and measure it."""

_CHUNK = 8192
"""Cuts that are read from the file at one time: 128 MiB of states of size 4096."""


@dataclass(frozen=True, slots=True)
class ProbeData:
    """Cuts of reasoning (N): the state, and the share of right forced answers at each cut.

    Attributes:
        hidden_NH: final-layer state (after the final norm) at the last token of the prefix,
            float32. It may be a file that is mapped into memory.
        target_N: Y_b in [0, 1], float32.
        problem_N: index of the problem.
        tokens_N: reasoning tokens before the cut.
        statistics_NS: the `STATISTICS` of the tokens before the cut, float32; None if they were not
            recorded.
        unit_N: index of the problem's group, or of a problem without one. A split keeps all cuts of
            a unit together. None if each problem is a unit of its own.
    """

    hidden_NH: Tensor
    target_N: Tensor
    problem_N: Tensor
    tokens_N: Tensor
    statistics_NS: Tensor | None = None
    unit_N: Tensor | None = None

    def inputs(self, names: ProbeInputs, rows_B: Tensor) -> Tensor:
        """What a probe with these inputs reads at some of the cuts, one after the other (B, I).

        Args:
            rows_B: indices of cuts.

        Raises:
            TrainingRefused: an input was not recorded.
        """
        hidden_BH = self.hidden_NH[rows_B]
        if ProbeInput.TOKENS not in names:
            return hidden_BH
        if self.statistics_NS is None:
            raise TrainingRefused(
                "the recordings hold no statistics of the tokens: record the rollouts again"
            )
        return torch.cat((hidden_BH, self.statistics_NS[rows_B]), dim=1)

    def logit(self, probe: Probe, on_N: Tensor) -> Tensor:
        """A probe's log-odds at some of the cuts.

        Args:
            on_N: mask over cuts.
        """
        found = []
        for rows_B in chunks(on_N):
            statistics_BS = None if self.statistics_NS is None else self.statistics_NS[rows_B]
            found.append(probe.logit(self.hidden_NH[rows_B], statistics_BS))
        return torch.cat(found)


def chunks(on_N: Tensor) -> tuple[Tensor, ...]:
    """The indices in a mask over cuts, in parts that fit into memory whatever their number."""
    return torch.split(on_N.nonzero()[:, 0], _CHUNK)


def read_probe_data(recordings: Sequence[ProbeRollout], inputs: Path) -> ProbeData:
    """The recorded cuts; their inputs stay in the file and are mapped into memory.

    A cut whose inputs are not finite is left out: the engine missed a token.

    Args:
        recordings: at least one.
        inputs: the file of their inputs.

    Raises:
        TrainingRefused: no cut has finite inputs.
    """
    ordered = sorted(recordings, key=lambda recording: recording.first_input)
    source_RD = map_inputs(inputs, ordered[0].n_inputs)
    row_N = np.concatenate([np.arange(r.first_input, r.end) for r in ordered])
    is_finite_N = _finite_rows(source_RD, row_N)
    if not is_finite_N.any():
        raise TrainingRefused(f"{inputs} holds no finite inputs: delete it, and record again")
    rows_ND = torch.from_numpy(_view(source_RD, row_N[is_finite_N]))
    problems = _numbered(r.problem_id for r in recordings)
    units = _numbered(unit_of(r.problem_id, r.group) for r in recordings)
    cuts = [(r, reading) for r in ordered for reading in r.readings]
    kept = [cut for cut, is_finite in zip(cuts, is_finite_N, strict=True) if is_finite]
    return ProbeData(
        hidden_NH=rows_ND[:, : -len(STATISTICS)],
        statistics_NS=rows_ND[:, -len(STATISTICS) :],
        target_N=torch.tensor([reading.share_correct for _, reading in kept]),
        problem_N=torch.tensor([problems[r.problem_id] for r, _ in kept]),
        tokens_N=torch.tensor([reading.tokens for _, reading in kept]),
        unit_N=torch.tensor([units[unit_of(r.problem_id, r.group)] for r, _ in kept]),
    )


def load_probe_data(journal: Path) -> ProbeData:
    """The cuts that `rlcm train probe` recorded.

    Args:
        journal: the recording log; the file of inputs is beside it.

    Raises:
        TrainingRefused: the log holds no recordings, or no cut has finite inputs.
    """
    with journal.open() as file:
        next(file)  # the settings
        recordings = [ProbeRollout.from_json(json.loads(line)) for line in file]
    if not recordings:
        raise TrainingRefused(f"{journal} holds no recordings")
    return read_probe_data(recordings, inputs_beside(journal))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _finite_rows(source_RD: Rows, row_N: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    parts = np.array_split(row_N, math.ceil(len(row_N) / _CHUNK))
    return np.concatenate([np.isfinite(source_RD[part]).all(1) for part in parts])


def _view(source_RD: Rows, row_N: npt.NDArray[np.intp]) -> Rows:
    """These rows: mapped if they follow one another, as all do but for interrupted runs."""
    first, last = int(row_N[0]), int(row_N[-1])
    if last - first + 1 == len(row_N):
        return source_RD[first : last + 1]
    return source_RD[row_N]


def units_to_fit(units: int, share: float = FIT_SHARE) -> int:
    """How many of the units, groups or single problems, the fit gets; the others validate it.

    Raises:
        TrainingRefused: there are too few for both.
    """
    count = round(share * units)
    if not 0 < count < units:
        raise TrainingRefused(
            f"{units} problems or groups of them cannot be split {share:.0%} to {1 - share:.0%} "
            "into those that fit a probe and those that validate it: give at least 3, and 80 or "
            "more for a probe of use"
        )
    return count


def split_by_unit(data: ProbeData, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Masks over cuts for fitting (`share` of the units) and validation.

    Raises:
        TrainingRefused: there are too few units for both.
    """
    unit_N = data.problem_N if data.unit_N is None else data.unit_N
    units = torch.unique(unit_N)
    count = units_to_fit(len(units), share)
    order = torch.randperm(len(units), generator=torch.Generator().manual_seed(seed))
    fit_N = torch.isin(unit_N, units[order[:count]])
    return fit_N, ~fit_N
