"""Examples of the exit rule, which `page/tests/rule.test.js` holds the page's own rule to.

`python -m tests.calibration.policy.test_page_vectors` writes them anew.
"""

import json
import math
import random
from pathlib import Path
from typing import Any

from calibration import INITIAL_STATE, ExitPolicy, answers_at_end, step

FILE = Path(__file__).parents[3] / "page/tests/rule-vectors.json"
COUNT = 80
STEP = 32
UNREAD = 0.1
"""Share of readings that are no number; JSON has null for them."""


def test_the_examples_are_current() -> None:
    assert FILE.read_text() == written(), f"run python -m {__name__}"


def written() -> str:
    """The content of the file: an example a line."""
    random_ = random.Random(0)
    lines = (json.dumps(_example(random_), separators=(",", ":")) for _ in range(COUNT))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _example(random_: random.Random) -> dict[str, Any]:
    """One rollout under one policy, up to its exit or its end."""
    policy = _policy(random_)
    readings = [_reading(random_) for _ in range(random_.randint(1, 9))]
    *checkpoints, end = readings
    shown = [None if math.isnan(one) else one for one in readings]
    found: dict[str, Any] = {"policy": policy.to_scalars(), "step": STEP, "readings": shown}
    state = INITIAL_STATE
    for number, confidence in enumerate(checkpoints, start=1):
        state, reason = step(policy, state, STEP * number, confidence)
        if reason is not None:
            return found | {"exit": reason.value, "tokens": STEP * number}
    return found | {"exit": None, "answers": answers_at_end(policy, state, end)}


def _reading(random_: random.Random) -> float:
    return math.nan if random_.random() < UNREAD else round(random_.random(), 3)


def _policy(random_: random.Random) -> ExitPolicy:
    rises = random_.random() < 0.3
    return ExitPolicy(
        lambda_low=random_.choice((-1.0, 0.2, 0.35)),
        patience=random_.choice((0, 64, 96)),
        lambda_high=random_.choice((0.8, 0.95, 1.01)),
        lambda_answer=random_.choice((0.0, 0.3, 0.5, 0.7)),
        low_rise=0.3 if rises else 0.0,
        low_slope=0.05 if rises else 0.0,
        low_shift=96.0 if rises else 0.0,
        smoothing=random_.choice((0.0, 0.5, 0.9)),
    )


if __name__ == "__main__":
    FILE.write_text(written())
