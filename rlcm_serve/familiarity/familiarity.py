"""The familiarity reading of a model: a score, ranked among problems like the calibration's.

A folder `familiarity/` in a model's folder holds it. The p-value of a question is the share of
ranking problems, the question among them, whose score is at least as large (a conformal p-value):
if the question is exchangeable with them, it is at most u with probability at most u. It says
nothing about whether an answer is right, and certifies nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from rlcm_serve.errors import ModelRefused
from rlcm_serve.familiarity.score import Floats, StateScore

FAMILIARITY_FOLDER = "familiarity"
WEIGHTS_FILE, CONFIG_FILE = "familiarity.safetensors", "config.json"
FILES = (CONFIG_FILE, WEIGHTS_FILE)


@dataclass(frozen=True, slots=True)
class FamiliarityConfig:
    """What a familiarity reading was fitted to, and its cutoff.

    Attributes:
        hidden_size: of the states.
        reference: problems that the score was fitted on.
        ranking: other problems, among which a question is ranked.
        epsilon: largest rate of flagged questions of the ranking problems' kind.
        confidence: with which the cutoff keeps that rate.
        cutoff: a question is unfamiliar if its p-value is at most this.
    """

    hidden_size: int
    reference: int
    ranking: int
    epsilon: float
    confidence: float
    cutoff: float

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads `folder/config.json`.

        Raises:
            ModelRefused: a file is missing, or is not one that this service wrote.
        """
        for name in FILES:
            if not (folder / name).is_file():
                raise ModelRefused(
                    f"{folder} is not a familiarity folder: it holds no {name}; delete it, and fit "
                    "one with `rlcm train familiarity`"
                )
        try:
            return msgspec.json.decode((folder / CONFIG_FILE).read_bytes(), type=cls)
        except msgspec.MsgspecError as error:
            raise ModelRefused(
                f"{folder / CONFIG_FILE} is not the configuration of a familiarity reading "
                f"({error}): delete {folder}, and fit it again with `rlcm train familiarity`"
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class Familiarity:
    """A fitted familiarity reading.

    Attributes:
        config: sizes and cutoff.
        score: of unfamiliarity.
        ranking_N: scores of the ranking problems, ascending.
    """

    config: FamiliarityConfig
    score: StateScore
    ranking_N: NDArray[np.float64]

    def p_values(self, states_NH: Floats) -> NDArray[np.float64]:
        """The p-value of each state (N), in (0, 1]; small is unfamiliar.

        Args:
            states_NH: final-layer states (after the final norm) at the last token of each prompt.
        """
        below_N = np.searchsorted(self.ranking_N, self.score.of(states_NH), side="left")
        n = len(self.ranking_N)
        return np.asarray((1 + n - below_N) / (n + 1))

    def p_value(self, state_H: Floats) -> float:
        """The p-value of one state; a state that is not finite has the smallest."""
        return float(self.p_values(state_H[None])[0])

    def save(self, folder: Path) -> None:
        """Writes weights and configuration into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {"ranking": self.ranking_N, **self.score.tensors()}
        (folder / WEIGHTS_FILE).write_bytes(save(weights))
        (folder / CONFIG_FILE).write_text(json.dumps(asdict(self.config), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            ModelRefused: a file is missing or damaged.
        """
        config = FamiliarityConfig.load(folder)
        try:
            stored = load_file(folder / WEIGHTS_FILE)
            return cls(config, StateScore.of_tensors(stored), stored["ranking"])
        except Exception as error:  # of safetensors, or a missing tensor
            raise ModelRefused(
                f"{folder / WEIGHTS_FILE} cannot be read ({error}): delete {folder}, and fit it "
                "again with `rlcm train familiarity`"
            ) from error
