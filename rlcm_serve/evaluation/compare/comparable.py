"""Whether figures of two runs are comparable, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calibration.report_kit.wording import listed
from rlcm_serve.evaluation.report.style import is_probability, title_of
from rlcm_serve.evaluation.run import Run
from rlcm_serve.evaluation.run_folder import flat

_OF_THE_MODEL = frozenset({"model", "engine model", "engine probe", "engine tokenizer", "source"})
"""Settings that runs are compared for; all others should be the same."""

_TITLES = {
    "engine sampling temperature": "temperature",
    "engine sampling top_p": "top-p",
    "engine budget thinking": "reasoning budget, tokens",
    "engine budget answer": "answer budget, tokens",
    "engine checkpoint_interval": "tokens between two readings",
    "engine forced_suffix": "forced suffix",
    "engine chat_template": "chat template",
    "answers": "answers forced at every reading",
    "request": "text after every problem",
}


def warnings(runs: Sequence[Run]) -> Iterator[str]:
    """The differences between each run and the first, one sentence each."""
    first, *others = runs
    for other in others:
        yield from _settings(first, other)
        titles: dict[str, str] = {}
        for benchmark in (*first.measures.benchmarks, *other.measures.benchmarks):
            titles.setdefault(benchmark.name, benchmark.title)
        titles_of: dict[str, list[str]] = {}
        for name, title in titles.items():
            for sentence in _benchmark(first, other, name):
                titles_of.setdefault(sentence, []).append(title)
        yield from (f"{listed(alike)}: {sentence}" for sentence, alike in titles_of.items())
    yield from _sources(runs)


def _settings(first: Run, other: Run) -> Iterator[str]:
    one, two = (flat({"request": "", **run.manifest}) for run in (first, other))
    for name in [*one, *(name for name in two if name not in one)]:
        if name not in _OF_THE_MODEL and one.get(name) != two.get(name):
            title = _TITLES.get(name, name)
            yield (
                f"Different settings: {title} is {_shown(one.get(name))} in {first.name} and "
                f"{_shown(two.get(name))} in {other.name}."
            )


def _benchmark(first: Run, other: Run, name: str) -> Iterator[str]:
    one, two = first.measures.benchmark(name), other.measures.benchmark(name)
    if two is None:
        yield f"not evaluated in {other.name}."
        return
    if one is None:
        yield f"not evaluated in {first.name}, but in {other.name}."
        return
    if one.grader != two.grader:
        yield (
            f"graded by {one.grader} in {first.name} and by {two.grader} in {other.name}; where "
            "the graders disagree, the difference is attributed to the models."
        )
    if one.problems != two.problems:
        yield _problems(first, other, name)
    ours, theirs = (run.measures.rollouts.get(name) for run in (first, other))
    if ours != theirs:
        yield (
            f"{ours} rollouts of each problem in {first.name} and {theirs} in {other.name}; votes "
            "with an equal number n are comparable, votes of all rollouts are not."
        )


def _problems(first: Run, other: Run, benchmark: str) -> str:
    ours, theirs = set(first.problem_ids(benchmark)), set(other.problem_ids(benchmark))
    if ours == theirs:
        return (
            f"the problems have the same ids in {first.name} and {other.name}, but other texts or "
            "references."
        )
    return (
        f"{len(ours):,} problems in {first.name} and {len(theirs):,} in {other.name}, "
        f"{len(ours & theirs):,} of them in both; the main table compares different problems, "
        "the paired differences only those in both."
    )


def _sources(runs: Sequence[Run]) -> Iterator[str]:
    sources = {run.name: run.source for run in runs}
    if len(set(sources.values())) > 1:
        said = ", ".join(f"{name} by {title_of(source)}" for name, source in sources.items())
        yield f"Confidence comes from different sources: {said}."
    for source in dict.fromkeys(sources.values()):
        if not is_probability(source):
            yield (
                f"The {title_of(source)} confidence does not claim to be a probability: PCE and "
                "ECE only show how far its scale is from one. AUROC shows how well it ranks."
            )


def _shown(value: Any) -> str:
    text = (
        "not recorded" if value is None else repr(value) if isinstance(value, str) else f"{value:,}"
    )
    return text if len(text) <= 60 else f"{text[:57]}…"
