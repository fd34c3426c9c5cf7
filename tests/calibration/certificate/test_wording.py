import pytest

from calibration import Promise, PValue, Risk
from calibration.certificate.wording import at_most, covers, does_not_cover
from calibration.simulation.groups import Average, Groups
from calibration.simulation.risks import ERROR, REGRET, SELECTIVE

SIMULTANEOUS, POINTWISE = Promise.SIMULTANEOUS, Promise.POINTWISE


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        (SELECTIVE, "of the questions it answers, at most a share alpha gets a wrong answer"),
        (ERROR, "of all questions, at most a share alpha gets a wrong answer. "),
        (REGRET, "where the same samples at full budget give the right one"),
        (Risk.custom("cost", lambda outcomes: outcomes.tokens_DT), "mean of the loss 'cost'"),
    ],
)
def test_what_is_bounded(risk: Risk, words: str) -> None:
    said = covers(risk, 0.05, SIMULTANEOUS, PValue.BINOMIAL)
    assert said.startswith(
        "With probability at least 95% over the random choice of the calibration"
    )
    assert words in said


@pytest.mark.parametrize(
    ("delta", "words"),
    [(1e-6, "99.9999%"), (1e-9, "99.9999999%"), (1e-15, "99.9999999999999%")],
)
def test_no_guarantee_is_certain(delta: float, words: str) -> None:
    said = covers(SELECTIVE, delta, SIMULTANEOUS, PValue.BINOMIAL)
    assert said.startswith(f"With probability at least {words} over")


def test_the_two_promises() -> None:
    together = covers(ERROR, 0.1, SIMULTANEOUS, PValue.BETTING)
    assert "all certified levels simultaneously, so alpha may be chosen after seeing" in together
    assert "but not by the question itself or by an earlier ask of it" in together
    alone = covers(ERROR, 0.1, POINTWISE, PValue.BETTING)
    assert "each level separately, so alpha must be chosen before seeing" in alone


@pytest.mark.parametrize("kind", PValue)
def test_only_the_asymptotic_test_is_called_so(kind: PValue) -> None:
    said = covers(ERROR, 0.1, SIMULTANEOUS, kind)
    assert ("in the limit of many problems (the test is asymptotic)" in said) == (
        kind is PValue.CLT
    )


def test_groups() -> None:
    said = covers(ERROR, 0.1, POINTWISE, PValue.BETTING)
    assert "over new problems from the same distribution" in said
    assert "group" not in said
    by_size = Groups(max_size=4)
    said = covers(ERROR, 0.1, POINTWISE, PValue.BETTING, groups=by_size)
    assert "over new problems from the same distribution" in said
    assert "groups of at most 4, drawn independently; each problem counts the same" in said
    assert "groups of more than 4 problems" in does_not_cover(ERROR, groups=by_size)
    alike = Groups(Average.GROUPS)
    said = covers(ERROR, 0.1, POINTWISE, PValue.BETTING, groups=alike)
    assert "over new groups of problems (each group counts the same, whatever its size)" in said
    assert any("average over problems" in line for line in does_not_cover(ERROR, groups=alike))


def test_the_wording_names_what_is_not_covered() -> None:
    for risk in (SELECTIVE, ERROR, REGRET):
        listed = does_not_cover(risk)
        for part in (
            "another distribution",
            "changed prompt",
            "multi-turn",
            "single question",
            "again",
        ):
            assert sum(part in line for line in listed) == 1
    assert "questions that the service declines to answer" in does_not_cover(SELECTIVE)
    assert "questions that the service declines to answer" not in does_not_cover(REGRET)


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (0.19447, "19.5%"),
        (0.6984, "69.9%"),
        (0.07, "7%"),
        (0.4, "40%"),
        (1.0, "100%"),
        (0.9996, "100%"),
        (3.2101e-5, "0.00322%"),
        (0.0, "0%"),
    ],
)
def test_a_bound_is_never_stated_below_what_is_shown(bound: float, words: str) -> None:
    assert at_most(bound) == words
