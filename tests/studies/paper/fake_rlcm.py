"""A replacement for `rlcm` that writes the output files of its stages at once.

It logs every command in `calls.jsonl` beside itself; a stage whose name is in `failing` ends with
status 3 and half of its work done.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path


def main() -> None:
    """Reads its command line."""
    here, told = Path(sys.argv[0]).parent, sys.argv[1:]
    with (here / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(told) + "\n")
    stage = {"rl": "training", "probe": "probe"}.get(told[1], "evaluation")
    options = dict(pairwise(told))
    sys.stdout.write(f"{stage} begins\n")
    failing = here / "failing"
    fails = failing.exists() and failing.read_text() == stage
    if stage == "training":
        out = Path(options["--out"])
        out.mkdir(parents=True, exist_ok=True)
        (out / "model.safetensors").touch()
        made = out / "training.json"
    elif stage == "probe":
        made = Path(options["--model"]) / "probe" / "config.json"
    else:
        made = Path(options["--out"]) / "metrics.json"
    made.parent.mkdir(parents=True, exist_ok=True)
    if fails:
        sys.exit("the machine is out of luck")
    steps = [
        {"accuracy": 0.5, "step_time": 2.0, "probe/bce": None},
        {"accuracy": 0.123456789, "step_time": 3.0},
    ]
    facts = {
        "command": "rlcm train rl",
        "commit": "c0ffee",
        "seconds": 5.0,
        "settings": {"steps": 2},
        "curves": steps,
    }
    made.write_text(json.dumps(facts))


main()
