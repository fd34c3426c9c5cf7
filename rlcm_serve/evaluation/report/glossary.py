"""Sections at the end: what every figure means, what it does not cover, and what was run."""

from __future__ import annotations

from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.report import html
from rlcm_serve.evaluation.report.html import Cell, Row
from rlcm_serve.evaluation.report.section import Section
from rlcm_serve.evaluation.sources import ABOUT, Source

METRICS = {
    "Accuracy (Pass@1)": "Share of rollouts with a right answer, averaged over problems.",
    "ECE": (
        "Expected calibration error: the gap between confidence and accuracy, averaged over ten "
        "bins of equal width, each counted by its rollouts. 0 is best. It depends on the number "
        "of bins and is biased upwards where bins are small."
    ),
    "PCE": (
        "Positive calibration error: the part of the ECE that comes from bins with more "
        "confidence than accuracy. Equal to the ECE if all of the error is overconfidence."
    ),
    "Adaptive ECE": "The same as ECE with bins that hold equally many rollouts.",
    "Brier": "Mean squared difference of confidence and outcome (1 right, 0 wrong). 0 is best.",
    "NLL": (
        "Mean negative log-likelihood of the outcome under the confidence, in nats. It punishes "
        "being sure and wrong most of all."
    ),
    "AUROC": (
        "How often a right rollout has more confidence than a wrong one, ties counted half. 1 is "
        "best, 0.5 is chance. It does not see whether confidence is true, only whether it ranks."
    ),
    "AURC": (
        "Area under the risk-coverage curve: the mean share wrong among the surest, over all "
        "numbers of answers. 0 is best. It depends on how often the model is right."
    ),
    "Within-question AUROC": (
        "AUROC over pairs of rollouts of the same question, pooled. It says whether confidence "
        "can pick the right one of several attempts."
    ),
}


def words(run: RunMeasures) -> Section:
    """Metrics and sources in a sentence each."""
    measured = dict.fromkeys(found.source for b in run.benchmarks for found in b.sources)
    sources = {
        about.title: about.definition
        + (" Read while the model thinks, at no tokens' cost." if about.online else "")
        + ("" if about.is_probability else " It does not claim to be a probability.")
        for about in (ABOUT[Source(name)] for name in measured)
    }
    return Section(
        "words",
        "What the words mean",
        "",
        (
            html.heading("Metrics"),
            html.definitions(METRICS),
            *(
                (html.heading("Sources of confidence"), html.definitions(sources))
                if sources
                else ()
            ),
            html.heading("Intervals"),
            html.paragraph(
                "Intervals are 95 % and come from resampling problems (bootstrap): they say how "
                "much other problems of the same kind would have changed a figure. They do not "
                "cover what is wrong with all problems alike: a grader's mistakes, a benchmark "
                "the model has seen in training, another way of sampling. Where several figures "
                "are compared by eye, some differ by chance."
            ),
        ),
    )


def made(run: RunMeasures) -> Section:
    """The engine, its settings, and the problems."""
    rows = [
        Row(
            benchmark.title,
            [
                Cell(f"{benchmark.n_problems:,}"),
                Cell(f"{run.rollouts.get(benchmark.name, 0):,}"),
                Cell(benchmark.grader, kind="words"),
                Cell(benchmark.problems, kind="words"),
            ],
        )
        for benchmark in run.benchmarks
    ]
    return Section(
        "made",
        "What was run",
        "Two runs compare only if these agree; rlcm compare says where they do not.",
        (
            html.pairs("Model, engine and settings", {"Model": run.name, **run.made_by}),
            html.table(
                "Benchmarks. Problems: digest of all problems and references.",
                ["benchmark", "problems", "rollouts of each", "grader", "digest"],
                rows,
            ),
            html.paragraph(f"rlcm-serve {run.version}, {run.created}."),
        ),
    )
