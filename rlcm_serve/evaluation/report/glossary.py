"""Sections at the end: what every term means, what intervals do not cover, and what was run."""

from __future__ import annotations

from calibration.report_kit.content import Definitions, Section, Text
from calibration.report_kit.tables import Cell, Row, Table, pairs
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.sources import ABOUT, Source

METRICS = {
    "Accuracy (Pass@1)": "Share of rollouts with a right answer, averaged over problems.",
    "ECE": (
        "Expected calibration error: the gap between confidence and accuracy in ten bins of equal "
        "width, averaged over rollouts. 0 is best. It depends on the number of bins, and is biased "
        "upwards if bins hold few rollouts."
    ),
    "PCE": (
        "Positive calibration error: the part of the ECE from bins whose confidence exceeds their "
        "accuracy. It equals the ECE if the whole error is overconfidence."
    ),
    "Adaptive ECE": "ECE with bins that hold equal numbers of rollouts.",
    "Brier": "Mean squared difference of confidence and outcome (1 right, 0 wrong). 0 is best.",
    "NLL": (
        "Mean negative log-likelihood of the outcome under the confidence, in nats. It punishes "
        "high confidence in wrong answers most."
    ),
    "AUROC": (
        "Probability that a right rollout has more confidence than a wrong one; ties count half. 1 "
        "is best, 0.5 is chance. It measures ranking only, not whether the confidence is accurate."
    ),
    "AURC": (
        "Area under the risk-coverage curve: the share wrong among the most confident answers, "
        "averaged over all coverages. 0 is best. It depends on the model's accuracy."
    ),
    "Within-question AUROC": (
        "AUROC over pairs of rollouts of the same problem, pooled. It shows whether confidence can "
        "pick the right one of several attempts."
    ),
}


def terms(run: RunMeasures) -> Section:
    """Metrics and sources of confidence, each in a few sentences."""
    measured = dict.fromkeys(found.source for b in run.benchmarks for found in b.sources)
    sources = {
        about.title: about.definition
        + (" Read while the model thinks; it costs no tokens." if about.online else "")
        + ("" if about.is_probability else " It does not claim to be a probability.")
        for about in (ABOUT[Source(name)] for name in measured)
    }
    return Section(
        "terms",
        "What the terms mean",
        "",
        (
            Text("Metrics", "heading"),
            Definitions(METRICS),
            *((Text("Sources of confidence", "heading"), Definitions(sources)) if sources else ()),
            Text("Intervals", "heading"),
            Text(
                "All intervals are 95% intervals by resampling problems (bootstrap). They show how "
                "much a figure would change with other problems of the same kind. They do not "
                "cover an error that all problems share: mistakes of the grader, a benchmark that "
                "the model has seen in training, other sampling settings. If you compare many "
                "figures by eye, some differ by chance."
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
        "Two runs are comparable only if these agree; rlcm compare lists the differences.",
        (
            pairs("Model, engine and settings", {"Model": run.name, **run.made_by}),
            Table(
                "Benchmarks. Digest: of all problems and references.",
                ["benchmark", "problems", "rollouts of each", "grader", "digest"],
                rows,
            ),
            Text(f"rlcm-serve {run.version}, {run.created}."),
        ),
    )
