"""What monitors read as the loss of an answer, from its labels and its shadow run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from rlcm_serve.monitoring.losses import (
    GRACE,
    MISSING,
    Disagreements,
    RegretLosses,
    SeenAnswer,
    SeenShadow,
    is_tested,
)

DUE = 1000.0


def seen(
    *,
    disagrees: bool | None = True,
    right: bool | None = False,
    full_right: bool | None = None,
    ended: bool = True,
) -> SeenAnswer:
    run = SeenShadow(0.2, True, DUE, 50.0 if ended else None, disagrees, full_right)
    labelled = None if right is None else 60.0
    return SeenAnswer(1.0, 1, True, 0.9, True, 0.05, DUE, right, labelled, shadow=run)


def test_disagreement_is_at_least_the_regret_of_each_answer() -> None:
    for disagrees, right, full_right in product((True, False), repeat=3):
        if not disagrees and right != full_right:
            continue  # one answer is not both
        answer = seen(disagrees=disagrees, right=right, full_right=full_right)
        regret, is_missing = RegretLosses().loss(answer)
        assert regret == (full_right and not right)
        assert not is_missing
        most, _ = Disagreements("regret").loss(answer)
        assert most is not None
        assert regret is not None
        assert most >= regret


def test_regret_waits_for_the_run_then_for_the_labels_that_it_needs() -> None:
    losses = RegretLosses()
    waits = {
        "running": (seen(ended=False, disagrees=None), True),
        "agrees": (seen(disagrees=False, right=None), False),
        "differs": (seen(right=None), True),
        "given is right": (seen(right=True), False),
        "given is wrong": (seen(), True),  # the full budget's answer may be right
        "full is right": (seen(full_right=True), False),
        "both are wrong": (seen(full_right=False), False),
    }
    assert {name: losses.waits(one, 100.0) for name, (one, _) in waits.items()} == {
        name: wanted for name, (_, wanted) in waits.items()
    }
    assert not any(losses.waits(one, DUE + GRACE + 1) for one, _ in waits.values())


def test_regret_waits_for_the_label_of_a_full_answer_where_none_could_be_read() -> None:
    """Calibration counts a lost answer as lost, also where the early exit had none to read."""
    losses, unread = RegretLosses(), replace(seen(right=None), answered=False)
    in_time = replace(unread, labelled=60.0)
    waits = {
        "differs": (unread, True),
        "agrees: no answer either": (
            replace(seen(disagrees=False, right=None), answered=False),
            False,
        ),
        "a reference alone": (in_time, True),
        "graded": (replace(in_time, shadow=seen(full_right=True).shadow), False),
    }
    assert {name: losses.waits(one, 100.0) for name, (one, _) in waits.items()} == {
        name: wanted for name, (_, wanted) in waits.items()
    }
    assert not any(losses.waits(one, DUE + GRACE + 1) for one, _ in waits.values())
    for full_right in (True, False):
        graded = replace(in_time, shadow=seen(full_right=full_right).shadow)
        assert losses.loss(graded) == (float(full_right), False)
    assert losses.loss(in_time) == losses.loss(unread) == MISSING


def test_what_nobody_can_tell_is_missing() -> None:
    assert RegretLosses().loss(seen()) == MISSING
    assert RegretLosses().loss(seen(disagrees=None)) == MISSING
    assert Disagreements("regret").loss(seen(disagrees=None)) == MISSING


def test_a_label_is_tested_where_the_monitor_reads_it() -> None:
    plain = replace(seen(right=True), shadow=None)
    tested = {
        "of the answer": ("error", plain, True),
        "without a draw": ("error", replace(plain, audited=False), False),
        "too late": ("error", replace(plain, labelled=DUE + 1), False),
        "none": ("error", replace(plain, right=None, labelled=None), False),
        "of an abstention": ("error", replace(plain, answered=False), False),
        "regret of one": ("regret", replace(seen(full_right=True), answered=False), True),
        "regret without a run": ("regret", plain, False),
        "regret, the answer is right": ("regret", seen(right=True), True),
        "regret, which is right": ("regret", seen(full_right=True), True),
        "regret, neither is said to be right": ("regret", seen(), False),
        "regret, the run has no result": ("regret", seen(disagrees=None), False),
    }
    assert {name: is_tested(risk, one) for name, (risk, one, _) in tested.items()} == {
        name: wanted for name, (*_, wanted) in tested.items()
    }


def test_both_draws_use_one_number_so_both_happen_with_the_smaller_share() -> None:
    assert RegretLosses().share(seen()) == 0.05
    assert Disagreements("error").share(seen()) == 0.2
