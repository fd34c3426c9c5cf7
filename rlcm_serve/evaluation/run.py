"""A finished evaluation run, read back for comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec

from calibration.metrics.scores import ScoredRollouts
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.run_folder import RunFolder
from rlcm_serve.evaluation.sources import Source


@dataclass(frozen=True, slots=True)
class Run:
    """The measures of a run, and its rollouts.

    Attributes:
        name: in a comparison.
        source: of confidence, for the comparison.
        measures: of all its benchmarks.
        manifest: engine and settings.
    """

    name: str
    source: Source
    measures: RunMeasures
    manifest: dict[str, Any]
    folder: RunFolder

    @classmethod
    def load(cls, spec: str) -> Self:
        """Loads `[NAME=]FOLDER[:SOURCE]`; by default the folder's name and the run's own source.

        Raises:
            RequestRefused: the folder holds no finished run, or the run has no such source.
        """
        name, place = "", spec
        if "=" in spec and not Path(spec).exists():  # a folder's name may have one too
            name, _, place = spec.partition("=")
        path, _, source = place.rpartition(":")
        if source not in list(Source) or not path:
            if path and Path(path).is_dir() and not Path(place).exists():
                raise RequestRefused(
                    "run", f"{source!r} is not a source: give one of {', '.join(Source)}"
                )
            path, source = place, ""
        folder = RunFolder(Path(path))
        manifest = folder.manifest()
        try:
            text = folder.metrics_file.read_bytes()
            measures = msgspec.json.decode(text, type=RunMeasures)
        except (OSError, msgspec.DecodeError) as error:
            raise RequestRefused(
                "run",
                f"{path} holds no measures ({error}): let `rlcm eval --out {path}` finish first",
            ) from error
        chosen = Source(source or measures.source)
        for benchmark in measures.benchmarks:
            known = [one.source for one in benchmark.sources]
            if chosen not in known:
                raise RequestRefused(
                    "run",
                    f"{path} has no confidence by {chosen} on {benchmark.title}: take one of "
                    f"{', '.join(known)}",
                )
        return cls(name or Path(path).resolve().name, chosen, measures, manifest, folder)

    def recorded(self, benchmark: str) -> Recorded:
        """The rollouts of a benchmark."""
        own = Source(self.measures.source)
        return Recorded.read(self.folder.benchmark(benchmark).traces, own)

    def scored(self, benchmark: str, source: str) -> ScoredRollouts:
        """The final answers of a benchmark's rollouts, with a source's confidence in them."""
        return self.recorded(benchmark).scored(Source(source))

    def problem_ids(self, benchmark: str) -> tuple[str, ...]:
        """Its problems, as `ScoredRollouts.problem_R` numbers them."""
        return self.recorded(benchmark).own.problem_ids
