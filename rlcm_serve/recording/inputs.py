"""A probe's inputs at every reading of recorded rollouts, in a file beside the recording log.

A row has the inputs at one reading: `Reading.inputs`, as float32. For a model of hidden size 4096
it has 16 KiB. The rows stay in the file: a fit maps it into memory and reads what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from rlcm_serve.core import Rollout, TokenIds
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import FullBudgetRecorder
from rlcm_serve.recording.rollouts import RecordedRollout

_FLOAT = np.dtype("<f4")


class ProbeRollout(RecordedRollout, frozen=True, kw_only=True):
    """A recorded rollout, with the place of its inputs in the file.

    Attributes:
        first_input: row of the first reading's inputs; those of the others follow.
        n_inputs: D, the length of a row.
    """

    first_input: int
    n_inputs: int

    @property
    def end(self) -> int:
        """One past the last of its rows."""
        return self.first_input + len(self.readings)


class InputsFile:
    """An append-only file of rows, without a header.

    Rows that no recording names are cut off when the file is opened: a kill came between the two.

    Args:
        path: the file; created if missing.
        recordings: those that name rows of the file.

    Raises:
        RequestRefused: the file lacks rows that a recording names.
    """

    def __init__(self, path: Path, recordings: Iterable[ProbeRollout]) -> None:
        self.path = path
        self._file = path.open("ab")
        self._rows, width = 0, 0
        for recording in recordings:
            self._rows, width = max(self._rows, recording.end), recording.n_inputs
        named, found = self._rows * width * _FLOAT.itemsize, path.stat().st_size
        if found < named:
            self.close()
            raise RequestRefused(
                "out",
                f"{path} has {found} bytes, but the recordings beside it name {named}: delete "
                "both files to record again",
            )
        os.truncate(path, named)

    def append(self, rows_RD: npt.NDArray[np.float32]) -> int:
        """Adds rows; returns the number of the first. Once this returns, a kill loses none."""
        first = self._rows
        self._file.write(np.ascontiguousarray(rows_RD, _FLOAT).tobytes())
        self._file.flush()
        self._rows += len(rows_RD)
        return first

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def inputs_beside(journal: Path) -> Path:
    """The file of the inputs that belong to a journal."""
    return journal.with_name(f"{journal.name.removesuffix('.jsonl')}.inputs")


def map_inputs(path: Path, n_inputs: int) -> npt.NDArray[np.float32]:
    """The rows of an `InputsFile`, shape (rows, D), mapped into memory and not to be changed."""
    return np.memmap(path, _FLOAT, mode="c").reshape(-1, n_inputs)


class InputsRecorder(FullBudgetRecorder[ProbeRollout]):
    """Records what `recorder` records, and keeps the inputs of a probe in `inputs`."""

    def __init__(self, recorder: FullBudgetRecorder[RecordedRollout], inputs: InputsFile) -> None:
        super().__init__(recorder.engine, recorder.generation)
        self._recorder, self._inputs = recorder, inputs

    def check(self, problem: LabelledProblem) -> None:
        """As the recorder's."""
        self._recorder.check(problem)

    async def _recording(
        self, problem: LabelledProblem, number: int, prompt: TokenIds, rollout: Rollout
    ) -> ProbeRollout:
        rows_RD = _inputs_of(rollout)
        recorded = await self._recorder._recording(problem, number, prompt, rollout)
        return ProbeRollout(
            **{name: getattr(recorded, name) for name in recorded.__struct_fields__},
            first_input=self._inputs.append(rows_RD),
            n_inputs=rows_RD.shape[1],
        )


def _inputs_of(rollout: Rollout) -> npt.NDArray[np.float32]:
    found = [reading.inputs for reading in rollout.readings if reading.inputs is not None]
    if len(found) < len(rollout.readings):
        raise EngineDead(
            "the engine returned a reading without a probe's inputs: it was started without "
            "record_inputs"
        )
    return np.stack(found)
