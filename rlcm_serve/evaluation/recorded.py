"""One benchmark's graded table, read back: traces and scores under any source of confidence."""

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
from rlcm_serve.evaluation.graded import ANSWER_TOKENS, CONFIDENCE, TOKENS
from rlcm_serve.evaluation.sources import ABOUT, Source


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Rollouts (R) with readings in columns (C), as `Traces` has them, under every source.

    Attributes:
        own: the traces under the run's own source; the others share all but confidence and costs.
        own_source: which that is.
        confidence_RC: by source; NaN where it says nothing, and in the padding.
        tokens_RC: that taking each reading cost, by source.
        answer_tokens_RC: that the answer of a stop costs where no reading has brought it.
    """

    own: Traces
    own_source: Source
    confidence_RC: Mapping[Source, NDArray[np.float64]]
    tokens_RC: Mapping[Source, NDArray[np.int64]]
    answer_tokens_RC: NDArray[np.int64]

    @classmethod
    def read(cls, path: Path, own_source: Source) -> Recorded:
        """Reads a table that `graded_table` made."""
        own = read_traces(path)
        recorded_RC = np.arange(own.tokens_RC.shape[1]) <= own.final_R[:, None]
        table = pq.read_table(path)

        def grid(name: str, padding: float) -> NDArray[np.float64]:
            values = table.column(name).to_numpy().astype(np.float64)
            values_RC = np.full(recorded_RC.shape, padding)
            values_RC[recorded_RC] = values
            return values_RC

        names = [name.removeprefix(CONFIDENCE) for name in table.column_names]
        sources = [source for source in Source if source in names]
        return cls(
            own=own,
            own_source=own_source,
            confidence_RC={source: grid(CONFIDENCE + source, np.nan) for source in sources},
            tokens_RC={source: grid(TOKENS + source, 0).astype(np.int64) for source in sources},
            answer_tokens_RC=grid(ANSWER_TOKENS, 0).astype(np.int64),
        )

    @property
    def sources(self) -> tuple[Source, ...]:
        """Those that say anything; the run's own comes first."""
        others = [source for source in self.confidence_RC if source is not self.own_source]
        return (self.own_source, *others)

    def traces(self, source: Source) -> Traces:
        """The traces if this source drove the exits; what it leaves unsaid is 0."""
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

    def scored(self, source: Source) -> ScoredRollouts:
        """The rollouts' own answers at their end, with what this source says there."""
        return at_end(self.traces(source))

    def missing(self, source: Source) -> float:
        """Share of the rollouts in which it says nothing at the end."""
        rows = np.arange(self.own.n_rollouts)
        return float(np.isnan(self.confidence_RC[source][rows, self.own.final_R]).mean())

    def reading_tokens(self, source: Source) -> float:
        """Tokens that its readings cost, per rollout."""
        return float(self.tokens_RC[source].sum(axis=1).mean())
