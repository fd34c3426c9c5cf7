"""The folder of a run on veRL, which all nodes must see: settings, problems, the agent loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibration.files import write_text
from training.rl.inputs import RunInputs, begin
from training.rl.problems import TrainingProblems
from training.verl.overrides import AGENT_LOOPS, HELD_OUT, PROBLEMS
from training.verl.recipe import TABLE

_LOOPS = f"""\
- name: {TABLE}
  _target_: training.verl.agent_loop.ForcedAnswersLoop
"""


def write_folder(inputs: RunInputs, out: Path) -> None:
    """Writes what the processes of the run read.

    Raises:
        TrainingRefused: as `begin`.
    """
    begin(inputs, out)
    write_text(out / AGENT_LOOPS, _LOOPS)
    _write_problems(inputs, inputs.problems, out / PROBLEMS, held_out=False)
    if inputs.held_out is not None:
        _write_problems(inputs, inputs.held_out, out / HELD_OUT, held_out=True)


def _write_problems(
    inputs: RunInputs, problems: TrainingProblems, path: Path, held_out: bool
) -> None:
    """Problems with the columns that veRL's `RLHFDataset` and reward managers read."""
    import pyarrow as arrow
    from pyarrow import parquet

    rows = problems.rows(inputs.settings.data, inputs.settings.chosen.asks_confidence)
    table: list[dict[str, Any]] = [
        {
            "prompt": row["prompt"],
            "data_source": problems.source,
            "reward_model": {"style": "rule", "ground_truth": row["answer"]},
            "extra_info": {"index": index, "id": row["id"], "held_out": held_out},
        }
        for index, row in enumerate(rows)
    ]
    parquet.write_table(arrow.Table.from_pylist(table), path)
