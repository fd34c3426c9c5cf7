"""The data of a probe: states at cuts of reasoning, and the share of right answers there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rlcm_serve.engine.worker.probe import Probe, ProbeInput, ProbeInputs
from rlcm_serve.recording.rollouts import RecordedRollout
from training.errors import TrainingRefused

FIT_SHARE = 0.8
"""Share of the problems that fit a probe; the others choose its epoch and measure it."""


@dataclass(frozen=True, slots=True)
class ProbeData:
    """Cuts of reasoning (N): the state, and the share of right forced answers at each cut.

    Attributes:
        hidden_NH: final-layer state (after the final norm) at the last token of the prefix,
            float32.
        target_N: Y_b in [0, 1], float32.
        problem_N: index of the problem. A split keeps all cuts of one problem together.
        tokens_N: reasoning tokens before the cut.
        statistics_NS: the `STATISTICS` of the tokens before the cut, float32; None if they were not
            recorded.
    """

    hidden_NH: Tensor
    target_N: Tensor
    problem_N: Tensor
    tokens_N: Tensor
    statistics_NS: Tensor | None = None

    def inputs(self, names: ProbeInputs) -> Tensor:
        """What a probe with these inputs reads at each cut, one after the other (N, I).

        Raises:
            TrainingRefused: an input was not recorded.
        """
        if ProbeInput.TOKENS not in names:
            return self.hidden_NH
        if self.statistics_NS is None:
            raise TrainingRefused(
                "the recordings hold no statistics of the tokens: record the rollouts again"
            )
        return torch.cat((self.hidden_NH, self.statistics_NS), dim=1)

    def logit(self, probe: Probe, on_N: Tensor) -> Tensor:
        """A probe's log-odds at some of the cuts.

        Args:
            on_N: mask over cuts.
        """
        statistics_NS = self.statistics_NS
        return probe.logit(
            self.hidden_NH[on_N], None if statistics_NS is None else statistics_NS[on_N]
        )


def hidden_states(
    model_folder: Path,
    recordings: Sequence[RecordedRollout],
    device: str | None = None,
    advance: Callable[[], None] = lambda: None,
) -> ProbeData:
    """Runs each rollout through transformers once and returns the states at its cuts.

    Args:
        model_folder: folder with weights and configuration. The data type is kept.
        recordings: the rollouts.
        device: torch device; by default a GPU if there is one, else the CPU.
        advance: called after each rollout.

    Raises:
        OSError, ValueError: transformers cannot load a model from `model_folder`.
    """
    from transformers import AutoModel

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = AutoModel.from_pretrained(model_folder, dtype="auto").to(device).eval()
    problems = {name: i for i, name in enumerate(dict.fromkeys(r.problem_id for r in recordings))}
    states, targets, owners, lengths = [], [], [], []
    with torch.inference_mode():
        for recording in recordings:
            ids = torch.tensor([[*recording.prompt, *recording.tokens]], device=device)
            hidden_TH = model(input_ids=ids, use_cache=False).last_hidden_state[0]
            for reading in recording.readings:
                states.append(hidden_TH[len(recording.prompt) + reading.tokens - 1].float().cpu())
                targets.append(reading.share_correct)
                owners.append(problems[recording.problem_id])
                lengths.append(reading.tokens)
            advance()
    return ProbeData(
        hidden_NH=torch.stack(states),
        target_N=torch.tensor(targets),
        problem_N=torch.tensor(owners),
        tokens_N=torch.tensor(lengths),
    )


def problems_to_fit(problems: int, share: float = FIT_SHARE) -> int:
    """How many of the problems the fit gets; the others validate it.

    Raises:
        TrainingRefused: there are too few problems for both.
    """
    count = round(share * problems)
    if not 0 < count < problems:
        raise TrainingRefused(
            f"{problems} problems cannot be split {share:.0%} to {1 - share:.0%} into problems "
            "that fit a probe and problems that validate it: give at least 3, and 80 or more for "
            "a probe of use"
        )
    return count


def split_by_problem(data: ProbeData, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Masks over cuts for fitting (`share` of the problems) and validation.

    Raises:
        TrainingRefused: there are too few problems for both.
    """
    problems = torch.unique(data.problem_N)
    count = problems_to_fit(len(problems), share)
    order = torch.randperm(len(problems), generator=torch.Generator().manual_seed(seed))
    fit_N = torch.isin(data.problem_N, problems[order[:count]])
    return fit_N, ~fit_N
