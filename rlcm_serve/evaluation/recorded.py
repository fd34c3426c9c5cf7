"""Reads a benchmark's graded table: traces and scores with any source of confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from calibration import read_traces
from calibration.metrics.budget_cuts import at_end
from calibration.metrics.scores import ScoredRollouts
from calibration.traces.traces import Traces
from rlcm_serve.evaluation.graded import ANSWER_TOKENS, CONFIDENCE, SUFFIX_TOKENS, TOKENS
from rlcm_serve.evaluation.sources import ABOUT, Source


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Rollouts (R) with readings in columns (C), as in `Traces`, for every source.

    Attributes:
        own: the traces with the run's own source; other sources differ in confidence and costs.
        own_source: the run's own source.
        confidence_RC: by source; NaN where the source has no confidence, and in the padding.
        tokens_RC: cost of each reading, by source.
        answer_tokens_RC: of the answer after a stop, if no reading has generated it already.
        suffix_tokens_RC: inserted to force that answer; None if the run did not record them.
    """

    own: Traces
    own_source: Source
    confidence_RC: Mapping[Source, NDArray[np.float64]]
    tokens_RC: Mapping[Source, NDArray[np.int64]]
    answer_tokens_RC: NDArray[np.int64]
    suffix_tokens_RC: NDArray[np.int64] | None = None

    @classmethod
    def read(cls, path: Path, own_source: Source) -> Recorded:
        """Reads a table written by `graded_table`."""
        own = read_traces(path, keep_unfamiliar=True)
        recorded_RC = np.arange(own.tokens_RC.shape[1]) <= own.final_R[:, None]
        table = pq.read_table(path)

        def grid(name: str, padding: float) -> NDArray[np.float64]:
            values = table.column(name).to_numpy().astype(np.float64)
            values_RC = np.full(recorded_RC.shape, padding)
            values_RC[recorded_RC] = values
            return values_RC

        names = [name.removeprefix(CONFIDENCE) for name in table.column_names]
        sources = [source for source in Source if source in names]
        has_suffix = (
            SUFFIX_TOKENS in table.column_names and not table.column(SUFFIX_TOKENS).null_count
        )
        return cls(
            own=own,
            own_source=own_source,
            confidence_RC={source: grid(CONFIDENCE + source, np.nan) for source in sources},
            tokens_RC={source: grid(TOKENS + source, 0).astype(np.int64) for source in sources},
            answer_tokens_RC=grid(ANSWER_TOKENS, 0).astype(np.int64),
            suffix_tokens_RC=grid(SUFFIX_TOKENS, 0).astype(np.int64) if has_suffix else None,
        )

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources with any confidence; the run's own source comes first."""
        others = [source for source in self.confidence_RC if source is not self.own_source]
        return (self.own_source, *others)

    def traces(self, source: Source) -> Traces:
        """The traces with this source driving the exits; a missing confidence counts as 0."""
        if source is self.own_source:
            return self.own
        brought_RC = (np.arange(self.own.tokens_RC.shape[1]) < self.own.final_R[:, None]) & ABOUT[
            source
        ].brings_answer
        return replace(
            self.own,
            fingerprint=None,
            confidence_RC=np.where(
                np.isnan(self.own.confidence_RC), np.nan, np.nan_to_num(self.confidence_RC[source])
            ),
            confidence_tokens_RC=self.tokens_RC[source],
            answer_tokens_RC=np.where(brought_RC, 0, self.answer_tokens_RC),
        )

    def with_suffix(self, source: Source) -> Traces:
        """`traces` with the tokens inserted to force answers, which `/solve` counts too.

        A source whose readings bring the answer forces one at every reading, and pays at each. The
        same as `traces` if the run did not record these tokens.
        """
        traces = self.traces(source)
        if self.suffix_tokens_RC is None:
            return traces
        final_RC = np.arange(traces.tokens_RC.shape[1]) == traces.final_R[:, None]
        at_reading_RC = np.where(final_RC, 0, self.suffix_tokens_RC * ABOUT[source].brings_answer)
        read_RC = traces.confidence_tokens_RC
        return replace(
            traces,
            answer_tokens_RC=traces.answer_tokens_RC + self.suffix_tokens_RC - at_reading_RC,
            confidence_tokens_RC=at_reading_RC if read_RC is None else read_RC + at_reading_RC,
        )

    @property
    def without_readings(self) -> Traces:
        """The traces where no reading costs tokens, so that every answer costs its own."""
        return replace(self.own, answer_tokens_RC=self.answer_tokens_RC, confidence_tokens_RC=None)

    def scored(self, source: Source) -> ScoredRollouts:
        """The final answers of the rollouts, with the confidence of this source."""
        return at_end(self.traces(source))

    def missing(self, source: Source) -> float:
        """Share of rollouts without a final confidence of this source."""
        rows = np.arange(self.own.n_rollouts)
        return float(np.isnan(self.confidence_RC[source][rows, self.own.final_R]).mean())

    def reading_tokens(self, source: Source) -> float:
        """Tokens per rollout that the readings of this source cost."""
        return float(self.tokens_RC[source].sum(axis=1).mean())
