"""Every method of the paper with three seeds, on the primary comparison's problems.

Same training, problems and test temperature as the primary comparison, and the same post-hoc probe
for every method that a probe reads. What it finds is descriptive: three seeds decide nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from calibration.files import write_text
from studies.paper.primary.design import RUNS, TEMPERATURE
from studies.paper.primary.problems import is_out_of_domain, write_problems
from studies.paper.primary.running import PrimaryStudy
from studies.paper.result_files import design_digest
from studies.paper.runs import PaperRun, repeated_runs
from studies.paper.stages import ANSWERS, Study
from training.errors import TrainingRefused

PRIMARY_CONFIG = Path(__file__).with_name("primary") / "primary.toml"
WARM_START = "embedded-sft"
IN_DOMAIN, OUT_OF_DOMAIN = "trained-kinds", "out-of-domain"
"""Files of the test problems."""
ALPHAS = (0.05, 0.1, 0.15, 0.2, 0.3)
"""Accepted rates of lost right answers at which exits are certified. At the usual risks, shares of
wrong answers, hardly any can be: the policies are wrong in half of the problems."""
ROLLOUTS = 8
"""Of each test problem. In the primary comparison, results spread over seeds as much with 16."""


def repeated_study(
    out: Path, results: Path, model: str = WARM_START, primary: Path = RUNS
) -> Study:
    """The settings that all runs share; writes problems and training settings into `out`.

    Its design is that of the primary comparison, which covers the problems, with the base model,
    the rollouts and the forced answers of the evaluation. Runs lie in a folder of the
    design's name. Test problems of the kind that training does not see are a benchmark of their
    own: nothing pools them with the others.

    GRPO, RLCM and the authors' RLCM are trained and probed once for both studies, if the primary
    comparison ran first and its folders are still there.

    Args:
        out: folder of the runs.
        results: folder of the results.
        model: the base model, as in `model` of the settings.
        primary: folder of the primary comparison's runs.
    """
    problems, config = out / "problems", out / "config.toml"
    write_problems(problems)
    for name, is_unseen in ((IN_DOMAIN, False), (OUT_OF_DOMAIN, True)):
        _write_some(problems, name, is_unseen)
    named = f'model = "{WARM_START}"'
    settings = PRIMARY_CONFIG.read_text().replace(named, f"model = {json.dumps(model)}")
    text = f"{settings}\n[data]\nsource = {json.dumps(str(problems / 'train.jsonl'))}\n"
    if not config.exists() or config.read_text() != text:
        write_text(config, text)
    compared = PrimaryStudy(PRIMARY_CONFIG, problems, primary, results)
    design = design_digest((compared.design, ANSWERS, ROLLOUTS), [settings.encode()])
    return Study(
        config,
        str(problems / f"{IN_DOMAIN}.jsonl"),
        out / design,
        results,
        threads=1,
        temperature=TEMPERATURE,
        rollouts=ROLLOUTS,
        probe_problems=problems / "probe.jsonl",
        out_of_domain=str(problems / f"{OUT_OF_DOMAIN}.jsonl"),
        regret=ALPHAS,
        same=compared.runs if model == WARM_START else None,
        design=design,
    )


def _write_some(folder: Path, name: str, is_unseen: bool) -> None:
    """Writes the test problems that are, or are not, of the kind that training does not see."""
    lines = (folder / "test.jsonl").read_text().splitlines(keepends=True)
    kept = (line for line in lines if is_out_of_domain(json.loads(line)["id"]) == is_unseen)
    write_text(folder / f"{name}.jsonl", "".join(kept))


def runs_of(methods: str | None) -> Sequence[PaperRun]:
    """The runs of some methods, by names with commas between them; of all for None.

    Only the default λ of a method, if methods are named.

    Raises:
        TrainingRefused: a method has no run.
    """
    every = repeated_runs()
    if methods is None:
        return every
    names = [name.strip() for name in methods.split(",")]
    if unknown := [name for name in names if name not in {run.method for run in every}]:
        known = ", ".join(dict.fromkeys(run.method for run in every))
        raise TrainingRefused(f"{unknown[0]!r} has no run: --methods takes {known}")
    return [run for run in every if run.method in names and run.has_own_strength]
