import numpy as np
import pytest

from training.errors import TrainingRefused
from training.familiarity.fit import FamiliarityFit, fit_familiarity, split_problems

IDS = [f"p{number}" for number in range(2200)]
ALONE: list[str | None] = [None] * len(IDS)


def test_half_of_the_problems_rank_and_the_others_fit_the_score() -> None:
    reference, ranking = split_problems(IDS, ALONE, FamiliarityFit())
    assert len(reference) == len(ranking) == 1100
    assert not {*reference} & {*ranking}
    assert split_problems(IDS, ALONE, FamiliarityFit(seed=1))[0] != reference


def test_a_group_is_on_one_side_and_ranks_with_one_problem() -> None:
    groups: list[str | None] = [f"g{number // 2}" for number in range(len(IDS))]
    reference, ranking = split_problems(IDS, groups, FamiliarityFit())
    assert len(reference) == 1100
    assert len(ranking) == 550
    assert not {groups[at] for at in reference} & {groups[at] for at in ranking}
    assert len({groups[at] for at in ranking}) == 550


@pytest.mark.parametrize(
    ("count", "epsilon", "said"),
    [(1900, 0.005, r"950 for the score .* need 1000 and 460"), (2200, 0.002, "1000 and 1151")],
)
def test_too_few_problems_are_refused(count: int, epsilon: float, said: str) -> None:
    with pytest.raises(TrainingRefused, match=said):
        split_problems(IDS[:count], ALONE[:count], FamiliarityFit(epsilon=epsilon))


@pytest.mark.parametrize("name", ["epsilon", "confidence"])
def test_a_share_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(TrainingRefused, match=f"{name} is 1.5"):
        FamiliarityFit(**{name: 1.5})


def test_a_fit_flags_what_is_far_and_passes_what_is_near() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(len(IDS), 12)).astype(np.float32)
    fitted = fit_familiarity(states, IDS, ALONE)
    new = rng.normal(size=(5000, 12)).astype(np.float32)
    assert (fitted.p_values(new) <= fitted.config.cutoff).mean() < 0.006
    assert (fitted.p_values(new + 8) <= fitted.config.cutoff).all()
    assert fitted.config.cutoff == 3 / 1101


def test_states_that_are_not_finite_are_refused() -> None:
    states = np.full((len(IDS), 3), np.nan, np.float32)
    with pytest.raises(TrainingRefused, match="not finite"):
        fit_familiarity(states, IDS, ALONE)
