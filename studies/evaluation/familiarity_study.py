"""Which score tells questions that are unlike the calibration's, from the prompt alone.

    python -m studies.evaluation.familiarity_study [--answers] [--smoke]

Every score is fitted on 2,000 validation problems of the embedded model; 2,000 others give the
cutoff, as `rlcm train familiarity` chooses it. 4,000 calibration and test problems must pass.
`studies/data` has the far and the near inputs, all written by hand. Near ones have right answers:
with `--answers`, the model answers each four times, which takes ten minutes more. Writes
`results/familiarity.json`; a test checks that docs/studies/familiarity.md has the same figures.
Takes two minutes on one core.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer

from calibration.testing.p_values import clopper_pearson_upper
from rlcm_serve.core import Message, Role, TokenIds
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, WARM_START, ModelFiles
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.familiarity.cutoff import flagged_ranks
from rlcm_serve.familiarity.score import Floats
from studies.evaluation.familiarity_scores import SCORES
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

EPSILON, CONFIDENCE = 0.005, 0.9
DATA = Path(__file__).parents[1] / "data"
RESULTS = Path(__file__).parents[1] / "results" / "familiarity.json"
ANSWERS, SEED = 4, 0
_BATCH = 64


class Prompted:
    """A model in transformers, and its prompts as the service writes them."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self._text = ModelText(ModelFiles.read(folder), self.tokenizer)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def prompt(self, question: str) -> TokenIds:
        return self._text.prompt([Message(Role.USER, question)])

    def states(self, questions: Sequence[str]) -> Floats:
        """The final-layer state at the last token of each prompt (N x H)."""
        by_length: dict[int, list[tuple[int, TokenIds]]] = defaultdict(list)
        for at, question in enumerate(questions):
            prompt = self.prompt(question)
            by_length[len(prompt)].append((at, prompt))
        states = np.empty((len(questions), self.model.config.hidden_size), np.float32)
        with torch.inference_mode():
            for rows in by_length.values():
                for start in range(0, len(rows), _BATCH):
                    places, prompts = zip(*rows[start : start + _BATCH], strict=True)
                    hidden = self.model.model(torch.tensor(prompts)).last_hidden_state
                    states[list(places)] = hidden[:, -1].numpy()
        return states

    def share_wrong(self, problems: Sequence[dict[str, str]]) -> NDArray[np.float64]:
        """For each problem, the share of `ANSWERS` sampled answers that are wrong."""
        prompts = [self.prompt(problem["problem"]) for problem in problems for _ in range(ANSWERS)]
        padded = self.tokenizer.pad({"input_ids": [list(p) for p in prompts]}, return_tensors="pt")
        torch.manual_seed(SEED)
        with torch.inference_mode():
            said = self.model.generate(**padded, use_cache=True)
        texts = self.tokenizer.batch_decode(said[:, padded["input_ids"].shape[1] :])
        right = [problem["answer"] for problem in problems for _ in range(ANSWERS)]
        wrong = [f"\\boxed{{{a}}}" not in text for a, text in zip(right, texts, strict=True)]
        share_P: NDArray[np.float64] = np.reshape(wrong, (len(problems), ANSWERS)).mean(1)
        return share_P


def read(name: str) -> list[dict[str, str]]:
    """The rows of a data file."""
    lines = (DATA / f"familiarity-{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def flagged_by(name: str, states: dict[str, Floats]) -> dict[str, NDArray[np.bool_]]:
    """Which inputs of each set a score flags."""
    score = SCORES[name](states["reference"])
    ranking = np.sort(score(states["ranking"]))
    k = flagged_ranks(len(ranking), EPSILON, CONFIDENCE)
    return {of: score(states[of]) > ranking[-k] for of in ("fresh", "far", "near")}


def measure(folder: Path, questions: dict[str, list[str]], *, answers: bool) -> dict[str, Any]:
    """All figures of one model."""
    model, near = Prompted(folder), read("near")
    states = {name: model.states(asked) for name, asked in questions.items()}
    far_ids = [one["id"] for one in read("far")]
    scores: dict[str, Any] = {}
    for name in SCORES:
        found = flagged_by(name, states)
        n, fresh = len(found["fresh"]), int(found["fresh"].sum())
        scores[name] = {
            **{of: float(flags.mean()) for of, flags in found.items()},
            "fresh_upper": float(clopper_pearson_upper(fresh, n, 0.05)),
            "far_missed": [far_ids[at] for at in np.flatnonzero(~found["far"])],
        }
    kinds: dict[str, list[bool]] = defaultdict(list)
    flagged = flagged_by("Mahalanobis", states)["near"]
    for problem, flag in zip(near, flagged, strict=True):
        kinds[problem["id"].rpartition("-")[0]].append(bool(flag))
    result: dict[str, Any] = {
        "sets": {name: len(asked) for name, asked in questions.items()},
        "scores": scores,
        "near_flagged": {kind: sum(flags) for kind, flags in kinds.items()},
    }
    if answers:
        wrong = model.share_wrong(near)
        result["near_wrong"] = {
            "n_passed": int((~flagged).sum()),
            "passed": float(wrong[~flagged].mean()),
            "flagged": float(wrong[flagged].mean()),
        }
    return result


def to_markdown(results: dict[str, Any]) -> str:
    """The table of the page."""
    lines = [
        "| score | fresh flagged (95% upper bound) | far flagged | near flagged |",
        "|---|---|---|---|",
    ]
    for name in SCORES:
        scores = [found["scores"][name] for found in results.values()]
        columns = (
            (f"{one['fresh']:.2%} ({one['fresh_upper']:.2%})" for one in scores),
            (f"{one['far']:.1%}" for one in scores),
            (f"{one['near']:.0%}" for one in scores),
        )
        cells = [" / ".join(column) for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--answers", action="store_true", help="Answer the near inputs too.")
    arguments = parser.parse_args()
    smoke, answers = arguments.smoke, arguments.answers and not arguments.smoke
    torch.set_num_threads(1)
    half, fresh = (600, 20) if smoke else (2000, 2000)
    known = [problem.question for problem in sample_problems(Split.VALIDATION, 2 * half, seed=21)]
    questions = {
        "reference": known[:half],
        "ranking": known[half:],
        "fresh": [
            problem.question
            for split in (Split.CALIBRATION, Split.TEST)
            for problem in sample_problems(split, fresh, seed=13)
        ],
        "far": [one["problem"] for one in read("far")],
        "near": [one["problem"] for one in read("near")],
    }
    folders = (EMBEDDED_MODEL,) if smoke else (EMBEDDED_MODEL, WARM_START)
    results = {folder.name: measure(folder, questions, answers=answers) for folder in folders}
    print(to_markdown(results))
    if not smoke:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
