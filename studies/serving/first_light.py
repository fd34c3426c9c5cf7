"""Writes the blocks of docs/studies/first-light.md, from recorded traces of the embedded model.

    make embedded                       # records them, fits, and runs this
    python -m studies.serving.first_light [--smoke]

Everything is measured on the test split, which no other step has used. Exits are replayed on the
recorded rollouts with the engine's own rule, so they are the exits that the engine would make.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibration import (
    Certificate,
    Traces,
    auroc,
    expected_calibration_error,
    majority_vote,
    read_traces,
    replay_certificate,
)
from calibration.files import write_text
from calibration.report_kit.wording import number_in_full
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Controlled, RunMeasures
from rlcm_serve.solving.guarantees import find_certificates
from studies.paper.report.markdown import table
from studies.paper.report.page import replace_blocks
from studies.serving.live_risk import RESULT, Asked
from studies.smoke import study_parser

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/studies/first-light.md"
CARD = EMBEDDED_MODEL / "README.md"
TRACES = ROOT / "studies/traces"
BUDGETS = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 960)
PLATEAU = 0.95


def kinds(traces: Traces) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Each family and level of the recorded problems, then all: a name and a mask over problems."""
    names_P = np.array(["-".join(name.split("-")[:2]) for name in traces.problem_ids])
    for name in sorted(set(names_P)):
        yield name.replace("-", " "), names_P == name
    yield "all", np.ones(len(names_P), dtype=np.bool_)


def accuracy_table(traces: Traces) -> str:
    """Pass@1, Maj@n and oracle@n of the final answers, and the length of the reasoning."""
    rows_R = np.arange(traces.n_rollouts)
    right_R = traces.correct_RC[rows_R, traces.final_R]
    class_R = traces.answer_class_RC[rows_R, traces.final_R]
    tokens_R = traces.tokens_RC[rows_R, traces.final_R]
    majority_P = np.zeros(traces.n_problems)
    oracle_P = np.zeros(traces.n_problems)
    for problem in range(traces.n_problems):
        own_R = traces.problem_R == problem
        winner = majority_vote(class_R[own_R].tolist()).winner
        majority_P[problem] = winner is not None and right_R[own_R & (class_R == winner)].any()
        oracle_P[problem] = right_R[own_R].any()
    rows = []
    for name, chosen_P in kinds(traces):
        chosen_R = chosen_P[traces.problem_R]
        shares = (right_R[chosen_R], majority_P[chosen_P], oracle_P[chosen_P])
        spread = " / ".join(f"{t:.0f}" for t in np.percentile(tokens_R[chosen_R], [10, 50, 90]))
        rows.append([name, f"{chosen_P.sum()}", *(f"{s.mean():.2f}" for s in shares), spread])
    tokens = "thinking tokens, p10 / median / p90"
    return table(["problems", "n", "Pass@1", "Maj@8", "oracle@8", tokens], rows)


def level_table(traces: Traces) -> str:
    """Pass@1 by family and level: the levels in columns."""
    rows_R = np.arange(traces.n_rollouts)
    right_R = traces.correct_RC[rows_R, traces.final_R]
    found = {name: right_R[chosen_P[traces.problem_R]].mean() for name, chosen_P in kinds(traces)}
    levels = range(1, 7)
    rows = [
        [family, *(f"{found[f'{family} {level}']:.2f}" for level in levels)]
        for family in ("dial", "total", "tale")
    ]
    overall = f"{traces.n_problems} problems, Pass@1 overall {found['all']:.3f}"
    return table(["Pass@1", *map(str, levels)], rows) + "\n\n" + overall


def forced_curve(traces: Traces) -> str:
    """Accuracy of the answer forced at each budget; a finished rollout keeps its own answer."""
    rows_R = np.arange(traces.n_rollouts)
    accuracy = []
    for budget in BUDGETS:
        within_RC = traces.tokens_RC <= budget
        within_RC &= np.arange(traces.tokens_RC.shape[1]) <= traces.final_R[:, None]
        last_R = within_RC.sum(axis=1) - 1
        accuracy.append(float(np.mean(traces.correct_RC[rows_R, last_R])))
    plateau = accuracy[-1]
    reached = next(
        budget
        for budget, value in zip(BUDGETS, accuracy, strict=True)
        if value >= PLATEAU * plateau
    )
    median = float(np.median(traces.tokens_RC[rows_R, traces.final_R]))
    curve = table(
        ["budget, tokens", *map(str, BUDGETS)],
        [["forced accuracy", *(f"{a:.2f}" for a in accuracy)]],
    )
    return (
        f"{curve}\n\n95% of the plateau ({plateau:.2f}) is reached by {reached} tokens, "
        f"{reached / median:.0%} of the median trace ({median:.0f} tokens)."
    )


def probe_table(traces: Traces) -> str:
    """The probe against the one recorded forced answer, at cuts and at the end."""
    columns_RC = np.broadcast_to(np.arange(traces.tokens_RC.shape[1]), traces.tokens_RC.shape)
    rows = []
    for name, taken_RC in (
        ("cuts, every 32 tokens", columns_RC < traces.final_R[:, None]),
        ("end of the thinking", columns_RC == traces.final_R[:, None]),
    ):
        confidence, correct = traces.confidence_RC[taken_RC], traces.correct_RC[taken_RC]
        ece = expected_calibration_error(confidence, correct.astype(float))
        rows.append([name, f"{len(correct)}", f"{auroc(confidence, correct):.3f}", f"{ece:.3f}"])
    return table(["readings", "n", "AUROC", "ECE (10 equal-width bins)"], rows)


def held_out(metrics: dict[str, float]) -> str:
    """The metrics of `rlcm train probe` on its held-out problems (20%)."""
    return (
        f"{metrics['points']:,} cuts of {metrics['problems']} problems: BCE {metrics['bce']:.3f} "
        f"(a constant: {metrics['bce_constant']:.3f}; knowing every target: "
        f"{metrics['bce_floor']:.3f}), AUROC {metrics['auroc']:.3f}, ECE {metrics['ece']:.3f}."
    )


def risk_table(certificates: Sequence[Certificate], traces: Traces) -> str:
    """Each certified policy on the test problems, which nothing else has used."""
    rows = []
    for certificate in certificates:
        for level in replay_certificate(certificate, traces):
            found = level.evaluation
            if found is None:
                figures = [f"infeasible: {level.reason}", *[""] * 5]
            else:
                risk = "none answered"
                if found.risk_interval is not None:
                    low, high = found.risk_interval
                    risk = f"{found.realised_risk:.3f} ({low:.3f} to {high:.3f})"
                figures = [risk, f"{found.answered_share:.2f}", f"{found.right_share:.2f}"]
                figures += [f"{found.tokens:.0f}", f"{found.full_budget_tokens:.0f}"]
                figures += [f"{1 - found.tokens_share:.0%}"]
            rows.append([f"{certificate.procedure.samples}", f"{level.alpha:g}", *figures])
    figures = ["realised risk (95%)", "answered", "answered right", "tokens", "full budget"]
    return table(["n", "α", *figures, "saved"], rows, names=0)


def live_table(rows: Sequence[Asked]) -> str:
    """The results of studies/serving/live_risk.py."""
    return table(
        ["n", "α", "asked", "answered", "wrong", "realised risk", "mean tokens"],
        [
            [
                f"{row.samples}",
                f"{row.alpha:g}",
                *(f"{number}" for number in (row.asked, row.answered, row.wrong)),
                f"{row.wrong / row.answered:.3f}" if row.answered else "",
                f"{row.tokens:.0f}",
            ]
            for row in rows
        ],
        names=0,
    )


def evaluated(model: str) -> BenchmarkMeasures:
    """The measures of `rlcm eval --data embedded`."""
    text = (ROOT / f"studies/results/evaluation-{model}.json").read_bytes()
    return msgspec.json.decode(text, type=RunMeasures).benchmarks[0]


def compared(before: BenchmarkMeasures, after: BenchmarkMeasures) -> str:
    """The model before and after RLCM, measured by `rlcm eval` on the same problems."""
    rows = [
        ["answers right", *(number_in_full(one.accuracy) for one in (before, after))],
        ["tokens of thinking", *(number_in_full(one.tokens, 0) for one in (before, after))],
    ]
    probes = [next(s for s in one.sources if s.source == "probe") for one in (before, after)]
    for name, title in (("ece", "ECE"), ("brier", "Brier score"), ("auroc", "AUROC")):
        rows.append([title, *(number_in_full(probe.metrics[name]) for probe in probes)])
    certified = [certified_levels(one) for one in (before, after)]
    for alpha in sorted(certified[0].keys() & certified[1].keys()):
        name = f"α = {alpha:g}: answered right, tokens"
        levels = [levels[alpha] for levels in certified]
        rows.append([name, *(f"{level.right:.0%}, {level.tokens:.0f}" for level in levels)])
    return table(["", "warm start", "RLCM"], rows)


def certified_levels(measures: BenchmarkMeasures) -> dict[float, Controlled]:
    """The measures under selective certificates of one sample, by α."""
    return {
        level.alpha: level
        for level in measures.controlled
        if level.risk == "selective"
        and level.origin.certificate
        and level.origin.samples == 1
        and level.reason is None
    }


def main() -> None:
    """Replaces the blocks of the page; with `--smoke`, computes them without writing."""
    smoke = study_parser(__doc__).parse_args().smoke
    traces = read_traces(TRACES / "embedded-test.parquet")
    calibration = read_traces(TRACES / "embedded-calibration-8.parquet")
    certificates = [Certificate.load(path) for path in find_certificates(EMBEDDED_MODEL)]
    selective = [one for one in certificates if one.risk == "selective"]
    metrics = json.loads((EMBEDDED_MODEL / PROBE_FOLDER / "metrics.json").read_text())["validation"]
    blocks = {
        "accuracy": accuracy_table(traces),
        "levels": level_table(calibration),
        "forced": forced_curve(traces),
        "probe": probe_table(traces),
        "held-out": held_out(metrics),
        "risk": risk_table(selective, traces),
        "live": live_table([Asked(**row) for row in json.loads(RESULT.read_text())]),
    }
    before, after = (evaluated(name) for name in ("embedded-sft", "embedded"))
    pages = {
        PAGE: replace_blocks(PAGE.read_text(), blocks),
        CARD: replace_blocks(CARD.read_text(), {"compared": compared(before, after)}),
    }
    for path, text in pages.items():
        print(f"{path.relative_to(ROOT)}: {len(text)} characters")
        if not smoke:
            write_text(path, text)


if __name__ == "__main__":
    main()
