from collections.abc import Sequence
from dataclasses import replace

import pytest

from calibration.metrics.estimates import Estimate
from studies.paper.report.claims import Verdict, claims, verdict_of
from studies.paper.report.results_index import ResultsIndex, benchmark_of
from studies.paper.report.votes import weights_gain
from studies.paper.result import Result

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("found", "sign", "zero", "verdict"),
    [
        (Estimate(0.1, 0.05, 0.2), 1, 0.0, HOLDS),
        (Estimate(0.1, 0.05, 0.2), -1, 0.0, FAILS),
        (Estimate(-0.1, -0.2, -0.05), -1, 0.0, HOLDS),
        (Estimate(0.1, -0.05, 0.2), 1, 0.0, UNDECIDED),
        (Estimate(0.1, 0.0, 0.2), 1, 0.0, UNDECIDED),
        (Estimate(-0.01, -0.015, 0.01), 1, -0.02, HOLDS),  # less is lost than may be
        (Estimate(-0.05, -0.07, -0.03), 1, -0.02, FAILS),
        (Estimate(-0.01, -0.03, 0.01), 1, -0.02, UNDECIDED),
        (Estimate(0.1), 1, 0.0, UNDECIDED),
        (Estimate(None), 1, 0.0, UNDECIDED),
    ],
)
def test_an_interval_decides_by_its_side(
    found: Estimate, sign: int, zero: float, verdict: Verdict
) -> None:
    assert verdict_of(found, sign, zero) is verdict


def told(results: Sequence[Result], claim: str) -> tuple[str, str]:
    """What was measured, and the verdict."""
    (block,) = (part for part in claims(index(results)).content if "| claim |" in str(part))
    (line,) = (line for line in str(block).splitlines() if line.startswith(f"| {claim}"))
    _, measured, verdict = line.strip("| ").rsplit(" | ", 2)
    return measured, verdict.strip("*")


def index(results: Sequence[Result]) -> ResultsIndex:
    return ResultsIndex({result.name: result for result in results})


def of(results: Sequence[Result], *names: str) -> list[Result]:
    return [next(result for result in results if result.name == name) for name in names]


def confident(result: Result, right: float, wrong: float) -> Result:
    """The same rollouts with another confidence."""
    confidence = tuple(
        tuple(right if one else wrong for one in own) for own in result.rollouts.right
    )
    return replace(result, rollouts=replace(result.rollouts, confidence=confidence))


@pytest.mark.slow
def test_a_clear_difference_holds_and_its_reverse_fails(every_result: Sequence[Result]) -> None:
    sure, vague = (
        [confident(r, *levels) for r in of(every_result, "grpo-0", "grpo-1")]
        for levels in ((1.0, 0.0), (0.0, 1.0))
    )
    rlcm = [confident(r, 0.8, 0.2) for r in of(every_result, "rlcm-0.1-0", "rlcm-0.1-1")]
    measured, verdict = told([*vague, *rlcm], "RLCM's ECE is lower than GRPO's (")
    assert verdict == "holds"
    assert measured.endswith("2 of 2 seeds this way")
    measured, verdict = told([*sure, *rlcm], "RLCM's ECE is lower than GRPO's (")
    assert verdict == "fails"
    assert measured.endswith("0 of 2 seeds this way")


def test_a_run_that_keeps_every_answer_keeps_its_accuracy(every_result: Sequence[Result]) -> None:
    (grpo, rlcm) = of(every_result, "grpo-0", "rlcm-0.1-0")
    twin = replace(rlcm, rollouts=grpo.rollouts)
    measured, verdict = told([grpo, twin], "RLCM keeps GRPO's accuracy")
    assert (measured, verdict) == ("accuracy +0.000 (0.000 to 0.000), one seed", "holds")
    wrong = tuple(tuple(0 for _ in own) for own in grpo.rollouts.right)
    worse = replace(rlcm, rollouts=replace(grpo.rollouts, right=wrong))
    assert told([grpo, worse], "RLCM keeps GRPO's accuracy")[1] == "fails"


def lower_by(result: Result, shifts: Sequence[float]) -> Result:
    """ECE at each budget, shifted, with a narrow interval."""
    (benchmark,) = result.measures.benchmarks
    budgets = []
    for at, shift in zip(benchmark.budgets, shifts, strict=True):
        ece = 0.3 - shift
        budgets.append(replace(at, ece={result.source: Estimate(ece, ece - 0.01, ece + 0.01)}))
    measured = replace(benchmark, budgets=tuple(budgets))
    return replace(result, measures=replace(result.measures, benchmarks=(measured,)))


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [
        ([0.1] * 10, "holds"),
        ([0.1] * 9 + [-0.005], "undecided at this scale"),  # not lower, but not clearly above
        ([0.1] * 9 + [-0.1], "fails"),
    ],
)
def test_every_budget_counts(
    every_result: Sequence[Result], shifts: Sequence[float], verdict: str
) -> None:
    grpo, rlcm = of(every_result, "grpo-0", "rlcm-0.1-0")
    pair = [lower_by(grpo, [0.0] * 10), lower_by(rlcm, shifts)]
    measured, found = told(pair, "RLCM's ECE is lower than GRPO's at every budget")
    assert found == verdict
    lower = sum(shift > 0 for shift in shifts)
    assert measured == f"lower at this many of the 10 budgets: seed 0: {lower}"


def test_lambda_matters_little_only_if_every_interval_is_narrow(
    every_result: Sequence[Result],
) -> None:
    names = ("rlcm-0.1-0", "rlcm-0.05-0", "rlcm-0.3-0", "rlcm-0.5-0")
    own, *others = of(every_result, *names)
    claim = "RLCM does not depend much on λ"
    assert told([own, *others], claim)[1] != "holds"  # few problems, wide intervals
    own = confident(own, 1.0, 0.0)
    twins = [replace(other, rollouts=own.rollouts) for other in others]
    assert told([own, *twins], claim)[1] == "holds"
    measured, verdict = told([own, *twins[:-1]], claim)
    assert verdict == "undecided at this scale"
    assert measured.endswith("λ = 0.5: not run yet")
    far = confident(twins[-1], 0.0, 1.0)
    assert told([own, *twins[:-1], far], claim)[1] == "fails"


def test_tokens_count_only_where_both_are_certified(every_result: Sequence[Result]) -> None:
    grpo, rlcm = of(every_result, "grpo-0", "rlcm-0.1-0")
    (benchmark,) = rlcm.measures.benchmarks

    def spending(share: float) -> Result:
        theirs = {
            (c.risk, c.alpha, c.origin.certificate): c.tokens for c in benchmark_of(grpo).controlled
        }
        controlled = tuple(
            replace(c, tokens=share * spent)
            if (spent := theirs.get((c.risk, c.alpha, c.origin.certificate)))
            else c
            for c in benchmark.controlled
        )
        measured = replace(benchmark, controlled=controlled)
        return replace(rlcm, measures=replace(rlcm.measures, benchmarks=(measured,)))

    claim = "RLCM spends fewer tokens than GRPO at equal targets of the risk `error`"
    assert told([grpo, spending(0.9)], claim)[1] == "holds"
    measured, verdict = told([grpo, spending(1.1)], claim)
    assert verdict == "fails"
    assert measured.endswith("fewer in 0 of 5 targets and seeds")
    bare = replace(benchmark, controlled=())
    none = replace(rlcm, measures=replace(rlcm.measures, benchmarks=(bare,)))
    assert told([grpo, none], claim) == (
        "no target is certified for both",
        "undecided at this scale",
    )


def test_weights_gain_where_they_break_the_majority(every_result: Sequence[Result]) -> None:
    """Two wrong answers alike against one right: only sure rightness wins, and a tie is a half."""
    result = of(every_result, "grpo-0")[0]
    votes = replace(
        result.rollouts,
        problems=("a", "b"),
        parts=("", ""),
        confidence=((0.9, 0.1, 0.1), (0.5, 0.5, 0.1)),
        right=((1, 0, 0), (1, 0, 0)),
        answer_class=((0, 1, 1), (0, 1, -1)),
    )
    assert weights_gain([replace(result, rollouts=votes)]).tolist() == [[1.0, 0.0]]


def test_votes_are_compared_among_runs_with_the_most_rollouts(
    every_result: Sequence[Result],
) -> None:
    claim = "Weighing votes by confidence gains more under RLCM than under GRPO (§5.2, n = "
    few, many = of(every_result, "grpo-1", "rlcm-0.1-1"), of(every_result, "grpo-0", "rlcm-0.1-0")
    for found, n in (few, 4), (many, 16), ([*few, *many], 16):
        measured, _ = told(found, f"{claim}{n})")
        assert measured.endswith("one seed")
    assert told([*few, *many], f"{claim}16)") == told(many, f"{claim}16)")
    assert told([*few, many[0]], f"{claim}16)") == ("not run yet", "not run yet")
