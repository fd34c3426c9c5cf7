"""The problems of a sequential certificate, in batches as they came."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.simulation.losses import Losses
from calibration.simulation.shuffle import shuffled
from calibration.traces.traces import Traces

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Problems that were added together.

    Attributes:
        digest: of their traces.
        n_problems: number of problems.
        units: digests of the names of their units, sorted.
    """

    digest: str
    n_problems: int
    units: tuple[str, ...]

    @classmethod
    def of(cls, traces: Traces) -> Self:
        """The batch of these traces."""
        return cls(traces.digest, traces.n_problems, tuple(sorted(set(_keys(traces)))))


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a sequential certificate in the order of their arrival.

    Attributes:
        design: digest of the `Design` that was fixed before the first unit.
        batches: at least one.
    """

    design: str
    batches: tuple[Batch, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The batches from the values of `to_json`.

        Raises:
            KeyError, TypeError: a value is missing, unknown or of another type.
        """
        rows = ({**row, "units": tuple(row["units"])} for row in values["batches"])
        batches = tuple(Batch(**row) for row in rows)
        for batch in batches:
            if not isinstance(batch.n_problems, int):
                raise TypeError(f"a batch has {batch.n_problems!r} problems")
            if not isinstance(batch.digest, str):
                raise TypeError(f"a batch has the digest {batch.digest!r}")
            if not all(isinstance(unit, str) for unit in batch.units):
                raise TypeError("a unit of a batch is no text")
        return cls(values["design"], batches)

    @property
    def n_problems(self) -> int:
        """Problems of all batches."""
        return sum(batch.n_problems for batch in self.batches)

    @property
    def n_units(self) -> int:
        """Units of all batches."""
        return sum(len(batch.units) for batch in self.batches)

    def extended(self, traces: Traces) -> Self:
        """These batches, and the problems of `traces` that are in none of them as a new one.

        Args:
            traces: all problems, those of earlier batches as well as new ones.

        Raises:
            CalibrationError: problems of an earlier batch are missing, changed or more, or there
                are no new ones.
        """
        self.require_unchanged(traces)
        key_P, known = np.array(_keys(traces)), self._known
        new_P = np.array([key not in known for key in key_P])
        if not new_P.any():
            raise CalibrationError(
                f"all {traces.n_problems} problems are counted already: add new problems, drawn "
                "from the same population"
            )
        return type(self)(self.design, (*self.batches, Batch.of(traces.select(new_P))))

    def require_unchanged(self, traces: Traces) -> None:
        """Refuse traces in which a batch is not as it was, complete and without later members.

        Raises:
            CalibrationError: the message says which batch, and what is wrong with it.
        """
        keys = _keys(traces)
        for number, batch in enumerate(self.batches, 1):
            units = set(batch.units)
            if missing := len(units - set(keys)):
                raise CalibrationError(
                    f"{missing} of {len(units)} problems or groups of batch {number} are missing "
                    "from the traces: give the traces of all batches"
                )
            member_P = np.array([key in units for key in keys])
            found = int(member_P.sum())
            if found > batch.n_problems:
                raise CalibrationError(
                    f"batch {number} has {found} problems now, and had {batch.n_problems} when it "
                    "was counted: a group must be complete when it is counted, so leave out later "
                    "problems of the same groups"
                )
            if traces.select(member_P).digest != batch.digest:
                raise CalibrationError(
                    f"the traces of batch {number} have changed since it was counted: give the "
                    "same recordings, neither repeated nor with other labels"
                )

    def in_order(self, losses: Losses, traces: Traces) -> Losses:
        """The losses in the order of the test: batch after batch, each shuffled.

        A batch is shuffled by a digest of the design and of what was recorded of the batch,
        without names. So what came first within a batch, or first by its name, is not first in the
        test.

        Args:
            losses: of all units, in the order of `Traces.unit_P`.
            traces: the problems of the batches, and no others; see `require_unchanged`.

        Raises:
            CalibrationError: there are other problems.
        """
        if traces.n_problems != self.n_problems:
            raise CalibrationError(
                f"the traces have {traces.n_problems} problems, and the certificate's batches "
                f"{self.n_problems}: give the traces of all batches, and no others"
            )
        place = dict(zip(_keys(traces), traces.unit_P.tolist(), strict=True))
        return losses.take(
            np.concatenate([self._rows(batch, place, traces) for batch in self.batches])
        )

    def numbered(self, traces: Traces) -> Traces:
        """The traces with the batch of each problem; those of none come after all batches."""
        batch_of = {unit: i for i, batch in enumerate(self.batches) for unit in batch.units}
        numbers = [batch_of.get(key, len(self.batches)) for key in _keys(traces)]
        return replace(traces, batch_P=np.array(numbers, dtype=np.intp))

    @property
    def _known(self) -> frozenset[str]:
        return frozenset(unit for batch in self.batches for unit in batch.units)

    def _rows(self, batch: Batch, place: Mapping[str, int], traces: Traces) -> NDArray[np.intp]:
        """The rows of a batch's units in the order of the test; `place` has the row of each."""
        rows_U = np.sort(np.array([place[unit] for unit in batch.units], dtype=np.intp))
        content = traces.select(np.isin(traces.unit_P, rows_U)).seed
        seed = int(hashlib.sha256(f"{self.design} {content}".encode()).hexdigest()[:_DIGITS], 16)
        return rows_U[shuffled(len(rows_U), seed)]


def _keys(traces: Traces) -> list[str]:
    """For each problem, the digest of its unit's name."""
    return [_digest(unit) for unit in traces.units]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
