"""The page of the report, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from studies.gpu.parts import Part
from studies.gpu.report import Outcome, Report, State

_REHEARSAL = (
    "> This is a rehearsal on tiny inputs. **None of its figures says anything about a GPU.**"
)


def page(report: Report, parts: Sequence[Part]) -> str:
    """The whole page."""
    return "\n".join(_lines(report, parts)) + "\n"


def _lines(report: Report, parts: Sequence[Part]) -> Iterator[str]:
    machine = report.machine
    yield "# What a GPU says"
    yield ""
    if report.is_rehearsal:
        yield from (_REHEARSAL, "")
    yield f"GPU: {machine.gpu or 'none'}. CUDA {machine.cuda or 'none'}, torch {machine.torch}, "
    yield f"vLLM {machine.vllm or 'none'}."
    yield ""
    missing = report.missing(parts)
    yield f"{len(parts) - len(missing)} of {len(parts)} parts are done."
    for part in parts:
        outcome = report.outcomes.get(part.name)
        if outcome is not None and outcome.state is State.DONE:
            yield from ("", f"## {part.title}", "", *_result(outcome))
    if missing:
        yield from ("", "## Missing", "", "| part | state | why |", "|---|---|---|")
        for part in missing:
            outcome = report.outcomes.get(part.name, Outcome(State.NOT_RUN, "not begun"))
            yield f"| {part.name} | {outcome.state} | {' '.join(outcome.why.split())} |"


def _result(outcome: Outcome) -> Iterator[str]:
    found = outcome.result
    if "rows" in found:
        yield from _overhead(found)
    elif "tests" in found:
        passed = found["tests"] - found["failures"] - found["errors"] - found["skipped"]
        yield f"{passed} of {found['tests']} tests passed, {found['skipped']} were skipped."
    else:
        yield from _training(found)
    yield ""
    yield f"This part took {outcome.seconds:.0f} s, at commit {outcome.commit or 'unknown'}."


def _overhead(found: dict[str, Any]) -> Iterator[str]:
    engine = ", ".join(f"{name} {value}" for name, value in found["engine"].items())
    yield f"{found['tokens']} tokens per prompt, {found['rounds']} interleaved rounds; {engine}."
    yield ""
    yield "| batch | probe of | tokens/s | ratio to plain vLLM, median (min to max) | CPU time |"
    yield "|---|---|---|---|---|"
    for row in found["rows"]:
        cpu = "" if row["cpu_time"] is None else f"{row['cpu_time']:.3f}"
        yield (
            f"| {row['batch']} | {row['probe']} | {row['tokens_per_s']:.0f} | {row['ratio']:.3f} "
            f"({row['ratio_min']:.3f} to {row['ratio_max']:.3f}) | {cpu} |"
        )


def _training(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{found['steps_per_second']:.3f} steps per second ({found['seconds_per_step']:.2f} s, "
        f"median of {found['steps']}); a step takes {found['factor_over_grpo']:.2f} times as long "
        "as without forced answers and probe."
    )
    yield ""
    yield "| part of a step | seconds |"
    yield "|---|---|"
    for name, seconds in found["parts"].items():
        yield f"| {name} | {seconds:.2f} |"
