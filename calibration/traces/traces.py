"""Recorded rollouts, ready for replay: read from Parquet, written to Parquet, split by problem."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from calibration.errors import CalibrationError, TraceError
from calibration.files import replaceable
from calibration.policy.exit_rule import ExitReason
from calibration.traces.bounds import Bounds
from calibration.traces.checks import check_tables
from calibration.traces.columns import Columns
from calibration.traces.content import contents_of, joined, of_all, ranked, ranked_units
from calibration.traces.fingerprint import Effect, Fingerprint
from calibration.traces.table import KIND, KNOWN, Rollout, fingerprint_of, to_table

INPUTS_SUFFIX = ".inputs.parquet"
"""End of the name of a file beside traces, with what a probe can read of them."""


def unit_of(problem_id: str, group: str | None) -> str:
    """The name of a problem's exchangeable unit: its group, or the problem itself."""
    return f"problem {problem_id}" if group is None else f"group {group}"


@dataclass(frozen=True, eq=False)  # no slots, so that it can cache its content
class Traces:
    """Full rollouts (R) of problems (P), with a reading of the confidence in each column (C).

    Row r holds its checkpoints in columns 0 .. final_R[r] - 1 and its final reading in column
    final_R[r]; the rest is padding. Rollouts are sorted by problem and number, problems by id.

    Attributes:
        fingerprint: what was recorded; None if unknown: then the traces serve for analysis only.
        problem_ids: id of each problem.
        groups: the template or source that a problem shares with others; None if it is a unit of
            its own.
        problem_R: index into `problem_ids`.
        rollout_R: number within the problem.
        natural_R: whether the rollout ended by itself; otherwise the budget ended it.
        final_R: column of the final reading.
        tokens_RC: reasoning tokens so far.
        confidence_RC: raw confidence; NaN in the padding.
        answer_class_RC: class of the answer if the rollout stopped here; NO_ANSWER if none could be
            read.
        answer_tokens_RC: tokens of that answer.
        correct_RC: whether that answer is right.
        confidence_tokens_RC: tokens that this reading costs, 0 in the padding; None if no reading
            costs any.
        familiarity_P: p-value of each problem's familiarity, read in its first rollout; None if the
            fingerprint has no familiarity check.
        kinds: the kind of each problem, such as its topic; None where none was declared.
        batch_P: the batch of a sequential certificate in which each problem came; None if there are
            no batches.
        unlabelled_P: problems without a label, whose answers all stand as wrong; None if all have
            one.
    """

    fingerprint: Fingerprint | None
    problem_ids: tuple[str, ...]
    groups: tuple[str | None, ...]
    problem_R: NDArray[np.intp]
    rollout_R: NDArray[np.int64]
    natural_R: NDArray[np.bool_]
    final_R: NDArray[np.intp]
    tokens_RC: NDArray[np.int64]
    confidence_RC: NDArray[np.float64]
    answer_class_RC: NDArray[np.int64]
    answer_tokens_RC: NDArray[np.int64]
    correct_RC: NDArray[np.bool_]
    confidence_tokens_RC: NDArray[np.int64] | None = None
    familiarity_P: NDArray[np.float64] | None = None
    kinds: tuple[str | None, ...] | None = None
    batch_P: NDArray[np.intp] | None = None
    unlabelled_P: NDArray[np.bool_] | None = None

    @classmethod
    def from_rollouts(cls, rollouts: Iterable[Rollout], fingerprint: Fingerprint | None) -> Self:
        """Traces from rollouts in memory, without unfamiliar problems.

        Raises:
            TraceError: see `read_traces`.
        """
        table = to_table(rollouts, fingerprint)
        columns = check_tables([table], ["rollouts"], fingerprint)
        return cls._from_columns(columns, fingerprint).passing()

    @property
    def servable(self) -> bool:
        """Whether a fingerprint says what was recorded, so that a certificate can be served."""
        return self.fingerprint is not None

    @property
    def is_gated(self) -> bool:
        """Whether the problems are those that pass a familiarity check."""
        return self.fingerprint is not None and self.fingerprint.is_gated

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return len(self.problem_ids)

    @property
    def n_rollouts(self) -> int:
        """Number of rollouts, of all problems together."""
        return len(self.problem_R)

    @property
    def rollouts_P(self) -> NDArray[np.intp]:
        """Number of rollouts of each problem."""
        return np.bincount(self.problem_R, minlength=self.n_problems)

    @property
    def units(self) -> tuple[str, ...]:
        """The exchangeable unit of each problem: its group, or the problem itself."""
        return tuple(
            unit_of(problem_id, group)
            for problem_id, group in zip(self.problem_ids, self.groups, strict=True)
        )

    @cached_property
    def unit_P(self) -> NDArray[np.intp]:
        """The number of each problem's unit, in an order that what was recorded decides.

        Verdicts have no say, nor has the order of problems and rollouts. Names have one only
        between units with equal recordings.
        """
        names = {unit: i for i, unit in enumerate(sorted(set(self.units)))}
        named_P = np.array([names[unit] for unit in self.units], dtype=np.intp)
        return ranked_units(joined(self.contents_P, named_P), [*names])[named_P]

    @cached_property
    def seed(self) -> int:
        """Seed of the random choices of a calibration: neither names nor verdicts have a say."""
        whole = of_all(joined(self.contents_P, self.unit_P))
        return int.from_bytes(whole[:8], "big")

    @cached_property
    def rank_R(self) -> NDArray[np.intp]:
        """The place of each rollout in the order of what was recorded.

        Between rollouts with equal recordings their numbers decide.
        """
        return ranked(self._content_R)

    @cached_property
    def _content_R(self) -> list[bytes]:
        return contents_of(self)

    @cached_property
    def contents_P(self) -> list[bytes]:
        """What was recorded of each problem, without names (`calibration.traces.content`)."""
        return joined(self._content_R, self.problem_R)

    @property
    def n_units(self) -> int:
        """Number of exchangeable units: groups, and problems without a group."""
        return len(set(self.units))

    @property
    def digest(self) -> str:
        """SHA-256 of what is replayed; the order of rows and the number of files do not matter."""
        recorded_RC = np.arange(self.tokens_RC.shape[1]) <= self.final_R[:, None]
        fingerprint = None if self.fingerprint is None else self.fingerprint.to_json()
        names = [fingerprint, self.problem_ids, self.groups]
        digest = hashlib.sha256(json.dumps(names, sort_keys=True).encode())
        for array in (self.problem_R, self.rollout_R, self.natural_R, self.final_R):
            digest.update(array.astype("<i8").tobytes())
        for array in (self.tokens_RC, self.answer_class_RC, self.answer_tokens_RC, self.correct_RC):
            digest.update(array[recorded_RC].astype("<i8").tobytes())
        digest.update(self.confidence_RC[recorded_RC].astype("<f8").tobytes())
        if self.confidence_tokens_RC is not None and self.confidence_tokens_RC.any():
            digest.update(self.confidence_tokens_RC[recorded_RC].astype("<i8").tobytes())
        if self.unlabelled_P is not None and self.unlabelled_P.any():
            digest.update(b"unlabelled" + self.unlabelled_P.tobytes())
        return digest.hexdigest()

    def require_labels(self) -> None:
        """Refuse traces in which a problem has no label: its answers would count as wrong.

        Raises:
            CalibrationError: the message names one of them.
        """
        if self.unlabelled_P is not None and self.unlabelled_P.any():
            one = self.problem_ids[int(self.unlabelled_P.argmax())]
            raise CalibrationError(
                f"{self.unlabelled_P.sum()} of {self.n_problems} problems have no label, {one!r} "
                "among them: label them, and grade again with `rlcm regrade`"
            )

    def select(self, keep_P: NDArray[np.bool_]) -> Self:
        """The traces of some of the problems.

        Raises:
            CalibrationError: no problem is kept.
        """
        if not keep_P.any():
            raise CalibrationError(f"none of {self.n_problems} problems is kept: keep at least one")
        return self.take(np.flatnonzero(keep_P))

    def take(self, place_Q: NDArray[np.intp]) -> Self:
        """The traces of the problems at these places (Q), in this order; any may repeat.

        A problem that is taken twice is there under one id twice, so its copies need other ids.
        """
        rollouts_Q = self.rollouts_P[place_Q]
        first_Q = np.searchsorted(self.problem_R, place_Q)  # rollouts are sorted by problem
        before_Q = np.cumsum(rollouts_Q) - rollouts_Q
        row_R = np.repeat(first_Q - before_Q, rollouts_Q) + np.arange(rollouts_Q.sum())
        taken: dict[str, Any] = {}
        for field in fields(self):
            values = getattr(self, field.name)
            if values is not None and field.name.endswith(("_R", "_RC")):
                taken[field.name] = values[row_R]
            elif values is not None and field.name.endswith("_P"):
                taken[field.name] = values[place_Q]
        taken["problem_R"] = np.repeat(np.arange(len(place_Q)), rollouts_Q)
        return replace(
            self,
            problem_ids=tuple(self.problem_ids[place] for place in place_Q),
            groups=tuple(self.groups[place] for place in place_Q),
            kinds=self.kinds and tuple(self.kinds[place] for place in place_Q),
            **taken,
        )

    def of_kind(self, kind: str) -> Self:
        """The traces of the problems of one kind.

        Raises:
            CalibrationError: there is none.
        """
        return self.select(
            np.array([one == kind for one in self.kinds or [None] * self.n_problems])
        )

    @property
    def is_familiar_P(self) -> NDArray[np.bool_]:
        """Whether each problem passes the familiarity check; all do if there is none."""
        if self.fingerprint is None or self.familiarity_P is None:
            return np.ones(self.n_problems, dtype=bool)
        return np.asarray(self.familiarity_P > self.fingerprint.familiarity_cutoff)

    def passing(self) -> Self:
        """The traces of the problems that pass the familiarity check; all if there is none.

        The service states no guarantee for other questions, so no figure of a certificate counts
        them.

        Raises:
            TraceError: no problem passes.
        """
        familiar_P = self.is_familiar_P
        if self.fingerprint is not None and not familiar_P.any():
            cutoff = self.fingerprint.familiarity_cutoff
            raise TraceError(
                f"all {self.n_problems} problems are unfamiliar (p-value at most {cutoff:g}): fit "
                "the familiarity reading on problems like these with `rlcm train familiarity`, and "
                "record again"
            )
        return self if familiar_P.all() else self.select(familiar_P)

    def split(self, fraction: float, seed: int = 0) -> tuple[Self, Self]:
        """Two parts that share no problem and no group; the first has `fraction` of the units.

        Units are shuffled by a hash of their names and the seed. The split does not depend on
        labels or on the order of rows. So it is the same for all confidences of a recording.

        Raises:
            CalibrationError: a part would be empty.
        """
        return self._cut(fraction, {unit: _hash(f"{seed} {unit}") for unit in self.units})

    def split_by_content(self, fraction: float) -> tuple[Self, Self]:
        """As `split`, but what was recorded shuffles the units: whoever names them has no say.

        Raises:
            CalibrationError: a part would be empty.
        """
        places = zip(self.units, self.unit_P.tolist(), strict=True)
        return self._cut(fraction, {unit: _hash(f"{self.seed} {place}") for unit, place in places})

    def _cut(self, fraction: float, key_of: Mapping[str, str]) -> tuple[Self, Self]:
        """Two parts; the first has the units with the lowest keys."""
        units = sorted(key_of, key=key_of.__getitem__)
        n_first = round(fraction * len(units))
        if not 0 < n_first < len(units):
            raise CalibrationError(
                f"a fraction of {fraction} of {len(units)} problems or groups leaves a part empty: "
                "choose another fraction, or record more"
            )
        first = set(units[:n_first])
        first_P = np.array([unit in first for unit in self.units])
        return self.select(first_P), self.select(~first_P)

    @classmethod
    def _from_columns(cls, columns: Columns, fingerprint: Fingerprint | None) -> Self:
        end_R = np.flatnonzero(columns.is_final_L)
        start_R = np.append(0, end_R[:-1] + 1)
        final_R = end_R - start_R
        problem_R = columns.problem.code_L[end_R]
        shape = (len(end_R), int(final_R.max()) + 1)
        recorded_RC = np.arange(shape[1]) <= final_R[:, None]
        first_P = end_R[np.flatnonzero(np.diff(problem_R, prepend=-1))]

        def grid(values_L: NDArray[Any], padding: float) -> NDArray[Any]:
            values_RC: NDArray[Any] = np.full(shape, padding, dtype=values_L.dtype)
            values_RC[recorded_RC] = values_L
            return values_RC

        return cls(
            fingerprint=fingerprint,
            problem_ids=tuple(columns.problem.names.to_pylist()),
            groups=tuple(columns.group[line] for line in first_P),
            problem_R=problem_R,
            rollout_R=columns.rollout_L[end_R],
            natural_R=columns.end_reason.select(end_R).are(ExitReason.NATURAL),
            final_R=final_R,
            tokens_RC=grid(columns.tokens_L, 0),
            confidence_RC=grid(columns.confidence_L, np.nan),
            answer_class_RC=grid(columns.answer_class_L, -1),
            answer_tokens_RC=grid(columns.answer_tokens_L, 0),
            correct_RC=grid(columns.correct_L, False),
            confidence_tokens_RC=grid(columns.confidence_tokens_L, 0)
            if columns.confidence_tokens_L.any()
            else None,
            familiarity_P=columns.familiarity_L[first_P]
            if fingerprint is not None and fingerprint.is_gated
            else None,
            kinds=tuple(columns.kind[line] for line in first_P)
            if (columns.kind.code_L >= 0).any()
            else None,
            unlabelled_P=None if columns.graded_L.all() else ~columns.graded_L[first_P],
        )


def read_traces(
    path: str | Path,
    bounds: Bounds | None = None,
    *,
    keep_unfamiliar: bool = False,
    keep_unlabelled: bool = False,
    by: str = KIND.name,
) -> Traces:
    """Read recorded rollouts from a Parquet file, or from all `*.parquet` files of a directory.

    Inputs of a probe that lie beside the traces (`INPUTS_SUFFIX`) are left out.

    Every row is checked, so that the result can be replayed under any policy: confidences are
    numbers, all checkpoints and the final reading are present, no reading occurs twice, every
    answer is graded, and all files have the same fingerprint.

    Files without a fingerprint can be read too, for analysis. Then `Traces.servable` is false,
    checkpoints may be anywhere, and only the columns `problem_id`, `rollout`, `tokens`, `is_final`,
    `confidence` and `correct` are required. `calibration.traces.columns.Columns.of` states the
    defaults of the other columns.

    Args:
        path: a file or a directory.
        bounds: of each file, for files from strangers; None reads files of any size.
        keep_unfamiliar: keep the problems that do not pass the familiarity check of the
            fingerprint, too.
        keep_unlabelled: keep problems without a label (`correct` is null), which are refused
            otherwise.
        by: the column that holds the kinds of the problems. A column other than `kind` is required.

    Raises:
        TraceError: a row is invalid; the message names the file, the row, the fault and the remedy.
            Or a file is out of bounds, or has no column `by`.
        FileNotFoundError: the path does not exist.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or directory")
    paths = [path]
    if path.is_dir():
        every = sorted(path.glob("*.parquet"))
        paths = [part for part in every if not part.name.endswith(INPUTS_SUFFIX)]
    if not paths:
        raise TraceError(f"{path}: no *.parquet file in this directory: collect traces first")
    tables = [_read_table(part, bounds, by) for part in paths]
    fingerprint = _one_fingerprint(tables, paths)
    columns = check_tables(
        tables, [str(part) for part in paths], fingerprint, keep_unlabelled=keep_unlabelled
    )
    traces = Traces._from_columns(columns, fingerprint)
    return traces if keep_unfamiliar else traces.passing()


def write_traces(
    path: str | Path, rollouts: Iterable[Rollout], fingerprint: Fingerprint | None
) -> None:
    """Write recorded rollouts to a Parquet file, completely or not at all.

    Args:
        path: the file; an existing file is replaced.
        rollouts: consumed one after another, so they need not all be in memory.
        fingerprint: what was recorded; with None the file serves for analysis only.

    Raises:
        TraceError: a rollout cannot be replayed; nothing is written.
    """
    write_table(path, to_table(rollouts, fingerprint), "rollouts")


def write_table(path: str | Path, table: pa.Table, source: str) -> None:
    """Write a table of recorded rollouts to a Parquet file, completely or not at all.

    Args:
        path: the file; an existing file is replaced, and a missing folder is made.
        table: as `calibration.traces.table.to_table` makes it.
        source: the name of the table in a message.

    Raises:
        TraceError: a rollout cannot be replayed; nothing is written.
        OSError: the file cannot be written.
    """
    path = Path(path)
    check_tables([table], [source], fingerprint_of(table.schema, source), keep_unlabelled=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path = replaceable(path)
    partial = path.with_name(path.name + ".partial")
    try:
        pq.write_table(table, partial, compression="zstd")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def add_traces(earlier: str | Path, path: str | Path) -> None:
    """Write the rollouts of an earlier file and of `path` to `path`, completely or not at all.

    Raises:
        TraceError: the files do not have the same fingerprint, or share a rollout.
    """
    paths = [Path(earlier), Path(path)]
    tables = [pq.read_table(part) for part in paths]
    _one_fingerprint(tables, paths)
    write_table(path, pa.concat_tables(tables, promote_options="default"), "all batches")


def _read_table(path: Path, bounds: Bounds | None, by: str) -> pa.Table:
    """The known columns of a file; texts as dictionaries, because ids repeat in many rows."""
    try:
        schema = pq.read_schema(path)
        if by != KIND.name and by not in schema.names:
            raise TraceError(
                f"{path}: there is no column {by!r} with the kinds of the problems; its columns "
                f"are {', '.join(schema.names)}"
            )
        for name, count in Counter(schema.names).items():
            if count > 1:
                raise TraceError(f"{path}: there are {count} columns {name!r}: keep one of them")
        wanted = dict.fromkeys((*(name for name in KNOWN.names if name != KIND.name), by))
        names = [name for name in wanted if name in schema.names]
        texts = [name for name in names if schema.field(name).type == pa.string()]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            table = file.read(columns=names) if bounds is None else bounds.read(file, names, path)
        _require_utf8(table, path)
        return table if by == KIND.name else table.append_column(KIND.name, table.column(by))
    except (pa.ArrowInvalid, OSError) as error:
        # For damaged pages Arrow raises OSError too, but without an error number of the system.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise TraceError(f"{path} is not Parquet ({error}): collect it again") from error


def _require_utf8(table: pa.Table, path: Path) -> None:
    """Parquet takes any bytes for a text."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise TraceError(
            f"{path} has a text that is not UTF-8 ({error}): write it again"
        ) from error


def _one_fingerprint(tables: Sequence[pa.Table], paths: Sequence[Path]) -> Fingerprint | None:
    """The common fingerprint of all files; None if no file has one."""
    first, *others = (
        fingerprint_of(table.schema, str(path)) for table, path in zip(tables, paths, strict=True)
    )
    for path, other in zip(paths[1:], others, strict=True):
        if other == first:
            continue
        if first is None or other is None:
            with_one, without = (path, paths[0]) if first is None else (paths[0], path)
            raise TraceError(
                f"{without} has no fingerprint, {with_one} has one: keep files for analysis in a "
                "directory of their own"
            )
        differences = "; ".join(other.differences(first, tuple(Effect)))
        raise TraceError(
            f"{path}: not recorded under the fingerprint of {paths[0].name} (here, there): "
            f"{differences}. Keep one fingerprint per directory"
        )
    return first


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
