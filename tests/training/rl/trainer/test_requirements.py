"""Versions and signatures are checked before anything else."""

from __future__ import annotations

from typing import Any

import pytest
from trl import GRPOTrainer

from training.errors import TrainingRefused
from training.rl.trainer.requirements import check_signatures, check_versions


def test_what_is_installed_is_what_is_pinned() -> None:
    check_versions()
    check_signatures(GRPOTrainer)


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"trl": "1.16.1", "vllm": "0.31.0"}, "trl is 1.16.1.*'trl==1.16.0'"),
        ({"trl": "1.16.0", "vllm": "0.32.0"}, "vllm is 0.32.0.*'vllm==0.31.0'"),
        ({"trl": "1.16.0", "vllm": "0.310.0"}, "vllm is 0.310.0"),
        ({"trl": "1.16.0"}, "vllm is not installed"),
        ({"vllm": "0.31.0"}, "trl is not installed"),
    ],
)
def test_another_version_is_refused(installed: dict[str, str], message: str) -> None:
    with pytest.raises(TrainingRefused, match=message):
        check_versions(installed)


@pytest.mark.parametrize("found", ["0.31.0", "0.31.1+cpu"])
def test_a_build_of_a_pinned_version_will_do(found: str) -> None:
    check_versions({"trl": "1.16.0", "vllm": found})


def test_a_method_that_takes_something_else_is_refused() -> None:
    class Changed(GRPOTrainer):  # type: ignore[misc]  # TRL comes without types
        def _calculate_rewards(self, samples: Any) -> Any:
            return samples

    with pytest.raises(TrainingRefused, match=r"Changed\._calculate_rewards is not that of TRL"):
        check_signatures(Changed)


def test_a_method_that_is_gone_is_refused() -> None:
    class Bare:
        pass

    with pytest.raises(TrainingRefused, match=r"Bare\._calculate_rewards"):
        check_signatures(Bare)
