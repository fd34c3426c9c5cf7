"""The figures of docs/first-light.md that come from recorded traces of the embedded model.

    rlcm examples --split test --count 216 --jsonl > runs/test.jsonl
    rlcm collect --data runs/test.jsonl --rollouts 8 --out benchmarks/traces/embedded-test.parquet
    python benchmarks/first_light.py

Prints Markdown. Everything is measured on the test split, which no other step has used; a replayed
exit is what the engine would have done (the rule is one definition), on the recorded rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.guarantees import find_certificates

TRACES = Path(__file__).parent / "traces"
BUDGETS = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 960)
PLATEAU = 0.95


def kinds(traces: Traces) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Each family and level of the recorded problems, then all: a name and a mask over problems."""
    names_P = np.array(["-".join(name.split("-")[:2]) for name in traces.problem_ids])
    for name in sorted(set(names_P)):
        yield name.replace("-", " "), names_P == name
    yield "all", np.ones(len(names_P), dtype=np.bool_)


def accuracy_table(traces: Traces) -> list[str]:
    """Pass@1, Maj@n and oracle@n of the final answers, and how long they took."""
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
    lines = [
        "| problems | n | Pass@1 | Maj@8 | oracle@8 | thinking tokens, p10 / median / p90 |",
        "|---|---|---|---|---|---|",
    ]
    for name, chosen_P in kinds(traces):
        chosen_R = chosen_P[traces.problem_R]
        spread = " / ".join(f"{t:.0f}" for t in np.percentile(tokens_R[chosen_R], [10, 50, 90]))
        lines.append(
            f"| {name} | {chosen_P.sum()} | {right_R[chosen_R].mean():.2f} | "
            f"{majority_P[chosen_P].mean():.2f} | {oracle_P[chosen_P].mean():.2f} | {spread} |"
        )
    return lines


def level_table(traces: Traces) -> list[str]:
    """Pass@1 by family and level: the levels in columns."""
    rows_R = np.arange(traces.n_rollouts)
    right_R = traces.correct_RC[rows_R, traces.final_R]
    found = {name: right_R[chosen_P[traces.problem_R]].mean() for name, chosen_P in kinds(traces)}
    lines = ["| Pass@1 | 1 | 2 | 3 | 4 | 5 | 6 |", "|---|---|---|---|---|---|---|"]
    for family in ("dial", "total", "tale"):
        shares = " | ".join(f"{found[f'{family} {level}']:.2f}" for level in range(1, 7))
        lines.append(f"| {family} | {shares} |")
    return [*lines, "", f"{traces.n_problems} problems, Pass@1 overall {found['all']:.3f}"]


def forced_curve(traces: Traces) -> list[str]:
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
    return [
        "| budget, tokens | " + " | ".join(str(b) for b in BUDGETS) + " |",
        "|" + "---|" * (len(BUDGETS) + 1),
        "| forced accuracy | " + " | ".join(f"{a:.2f}" for a in accuracy) + " |",
        "",
        f"95 % of the plateau ({plateau:.2f}) is reached by {reached} tokens, "
        f"{reached / median:.0%} of the median trace ({median:.0f} tokens).",
    ]


def probe_table(traces: Traces) -> list[str]:
    """The probe against the one recorded forced answer, at cuts and at the end."""
    columns_RC = np.broadcast_to(np.arange(traces.tokens_RC.shape[1]), traces.tokens_RC.shape)
    cuts_RC = columns_RC < traces.final_R[:, None]
    rows = [
        ("cuts, every 32 tokens", cuts_RC),
        ("end of the thinking", columns_RC == traces.final_R[:, None]),
    ]
    lines = ["| readings | n | AUROC | ECE (10 equal-width bins) |", "|---|---|---|---|"]
    for name, taken_RC in rows:
        confidence, correct = traces.confidence_RC[taken_RC], traces.correct_RC[taken_RC]
        lines.append(
            f"| {name} | {len(correct)} | {auroc(confidence, correct):.3f} | "
            f"{expected_calibration_error(confidence, correct.astype(float)):.3f} |"
        )
    return lines


def risk_table(traces: Traces, certificate: Certificate) -> list[str]:
    """Each certified policy on problems used nowhere before."""
    lines = [
        "| α | realised risk (95 %) | answered | answered right | tokens | full budget | saved |",
        "|---|---|---|---|---|---|---|",
    ]
    for level in replay_certificate(certificate, traces):
        found = level.evaluation
        if found is None:
            lines.append(f"| {level.alpha} | infeasible: {level.reason} | | | | | |")
            continue
        risk = "none answered"
        if found.risk_interval is not None:
            low, high = found.risk_interval
            risk = f"{found.realised_risk:.3f} ({low:.3f} to {high:.3f})"
        lines.append(
            f"| {level.alpha} | {risk} | {found.answered_share:.2f} | {found.right_share:.2f} | "
            f"{found.tokens:.0f} | {found.full_budget_tokens:.0f} | {1 - found.tokens_share:.0%} |"
        )
    return lines


def main() -> None:
    """Prints all tables."""
    traces = read_traces(TRACES / "embedded-test.parquet")
    calibration = read_traces(TRACES / "embedded-calibration.parquet")
    print(f"{traces.n_problems} test problems, {traces.n_rollouts} rollouts\n")
    for title, lines in (
        ("Accuracy", accuracy_table(traces)),
        ("Pass@1 on the calibration problems", level_table(calibration)),
        ("Forced answers by budget", forced_curve(traces)),
        ("Probe", probe_table(traces)),
    ):
        print(f"## {title}\n", *lines, "", sep="\n")
    for path in find_certificates(EMBEDDED_MODEL):
        certificate = Certificate.load(path)
        print(f"## Certificate {certificate.id}, n = {certificate.procedure.samples}\n")
        print(*risk_table(traces, certificate), "", sep="\n")


if __name__ == "__main__":
    main()
