"""The files of `rlcm solve --file`, and its run on a service."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rlcm_serve.commands.options import require_other
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.journal import Journal
from rlcm_serve.solving.batch.answers import (
    AnswersRows,
    solve_all,
    summary_of,
    write_answers,
)
from rlcm_serve.solving.batch.questions import PARQUET, QuestionFile
from rlcm_serve.terminal import shown_progress

if TYPE_CHECKING:
    from rich.console import Console

    from rlcm_serve.core import Question
    from rlcm_serve.solving.batch.summary import BatchSummary
    from rlcm_serve.solving.service import Service


@dataclass(frozen=True, slots=True)
class Batch:
    """A file of questions, and where its answers go.

    Attributes:
        questions: of the file.
        out: of the answers.
        unordered: whether answers are added to `out` as they come.
        concurrency: questions that are asked at the same time.
    """

    questions: QuestionFile
    out: Path
    unordered: bool
    concurrency: int

    @classmethod
    def of(cls, file: Path, out: Path | None, *, unordered: bool, concurrency: int) -> Self:
        """The batch that the options name.

        Raises:
            RequestRefused: the file holds no questions, or `out` is that file or can take no single
                rows.
        """
        suffix = PARQUET if file.suffix == PARQUET else ".jsonl"
        out = out or file.with_suffix(f".answers{suffix}")
        require_other(out, file)
        if unordered and out.suffix == PARQUET:
            raise RequestRefused(
                "out",
                f"out is {out}, and no answers can be added to a Parquet file: leave out "
                "--unordered, or give a .jsonl file",
            )
        return cls(QuestionFile(file), out, unordered, concurrency)

    @property
    def kept(self) -> Path:
        """The file that exists from the start of a run to its end, through interruptions."""
        return self.out.with_suffix(".settings.json" if self.unordered else ".journal.jsonl")

    def journal(self, settings: dict[str, Any]) -> Journal:
        """The journal of an interrupted run, or a new one.

        Without an order the answers are the journal, and the settings are beside them.

        Raises:
            RequestRefused, Conflict: as `Journal`.
        """
        if not self.unordered:
            return Journal(self.kept, settings)
        if not self.kept.exists():
            self.out.unlink(missing_ok=True)  # of an earlier run, which has ended
        return Journal(self.out, settings, self.kept)

    async def run(
        self, answering: AnswersRows, facts: dict[str, Any], question: Question, console: Console
    ) -> BatchSummary:
        """Answers what is not answered yet.

        Args:
            answering: on one engine or several, which run.
            facts: of the engine, as `facts_of` makes them.
            question: the settings of all questions.
            console: for the progress.

        Raises:
            Infeasible, RequestRefused, EngineDead: as `solve_all`; a later run continues.
        """
        settings = asdict(question)
        settings["problem"] = settings.pop("text")  # its name in the journals of earlier releases
        how = {**facts, "question": settings, "file": self.questions.digest}
        with self.journal(how) as journal:
            with shown_progress(console, "answering") as progress:
                await solve_all(answering, self.questions, journal, progress, self.concurrency)
            if self.unordered:
                return summary_of(journal)
            return write_answers(self.questions, journal, self.out)


def facts_of(service: Service, question: Question) -> dict[str, Any]:
    """What the journal says about a running engine: answers of another one are not continued."""
    return {
        "engine": service.guarantees.identity_for(question).to_json(),
        "certificates": [one.id for one in service.guarantees.certificates],
    }
