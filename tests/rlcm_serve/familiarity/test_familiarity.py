import json
from pathlib import Path

import numpy as np
import pytest

from rlcm_serve.errors import ModelRefused
from rlcm_serve.familiarity.familiarity import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    Familiarity,
    FamiliarityConfig,
)
from rlcm_serve.familiarity.score import StateScore

RNG = np.random.default_rng(5)


@pytest.fixture
def familiarity() -> Familiarity:
    states = RNG.normal(size=(1200, 6)).astype(np.float32)
    score = StateScore.fit(states[:200])
    config = FamiliarityConfig(6, 200, 1000, 0.005, 0.9, 2 / 1001)
    return Familiarity(config, score, np.sort(score.of(states[200:])))


def test_the_p_value_counts_the_ranking_problems_that_are_as_unfamiliar(
    familiarity: Familiarity,
) -> None:
    state = RNG.normal(size=6).astype(np.float32)
    (score,) = familiarity.score.of(state[None])
    expected = (1 + (familiarity.ranking_N >= score).sum()) / 1001
    assert familiarity.p_value(state) == expected
    assert familiarity.p_value(state * 100) == 1 / 1001
    assert familiarity.p_value(familiarity.score.mean_H) == 1


def test_ties_count_as_as_unfamiliar(familiarity: Familiarity) -> None:
    state = RNG.normal(size=6).astype(np.float32)
    (score,) = familiarity.score.of(state[None])
    tied = Familiarity(familiarity.config, familiarity.score, np.full(9, score))
    assert tied.p_value(state) == 1


def test_p_values_of_exchangeable_questions_are_uniform(familiarity: Familiarity) -> None:
    p_values = familiarity.p_values(RNG.normal(size=(20_000, 6)).astype(np.float32))
    for level in (0.01, 0.1, 0.5, 0.9):
        assert (p_values <= level).mean() == pytest.approx(level, abs=0.05)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_state_that_is_not_finite_is_unfamiliar(familiarity: Familiarity, value: float) -> None:
    state = np.zeros(6, np.float32)
    state[2] = value
    with np.errstate(invalid="ignore"):
        assert familiarity.p_value(state) == 1 / 1001


def test_it_survives_its_folder(familiarity: Familiarity, tmp_path: Path) -> None:
    familiarity.save(tmp_path / "familiarity")
    again = Familiarity.load(tmp_path / "familiarity")
    states = RNG.normal(size=(50, 6)).astype(np.float32)
    assert again.config == familiarity.config
    assert again.p_values(states).tolist() == familiarity.p_values(states).tolist()


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_a_folder_without_a_file_is_refused(
    familiarity: Familiarity, tmp_path: Path, name: str
) -> None:
    familiarity.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelRefused, match=rf"holds no {name}; delete it, and fit"):
        Familiarity.load(tmp_path)


def test_damaged_files_are_refused(familiarity: Familiarity, tmp_path: Path) -> None:
    familiarity.save(tmp_path)
    (tmp_path / WEIGHTS_FILE).write_bytes(b"no tensors")
    with pytest.raises(ModelRefused, match=r"cannot be read .*rlcm train familiarity"):
        Familiarity.load(tmp_path)
    sound = json.loads((tmp_path / CONFIG_FILE).read_text())
    for damaged in ('{"hidden_size": 6}', "{", "", json.dumps(sound | {"cutoff": "x"})):
        (tmp_path / CONFIG_FILE).write_text(damaged)
        with pytest.raises(ModelRefused, match="is not the configuration"):
            Familiarity.load(tmp_path)
    (tmp_path / CONFIG_FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(ModelRefused, match="is not the configuration"):
        Familiarity.load(tmp_path)
