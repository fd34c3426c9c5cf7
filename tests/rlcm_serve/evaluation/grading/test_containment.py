"""What is said to be open is what is open."""

import dataclasses

import pytest

from rlcm_serve.evaluation.grading import containment
from rlcm_serve.evaluation.grading.containment import Containment

ALL = Containment(namespaces=True, other_user=True, calls=True, files=True, watched=True)
LEAST = Containment(namespaces=False, other_user=False, calls=False, files=False, watched=False)


def test_the_kernels_flaws_are_never_covered() -> None:
    assert ALL.gaps() == (containment.KERNEL,)


@pytest.mark.parametrize(
    ("missing", "opened"),
    [
        (["namespaces"], {containment.ATTRIBUTES}),
        (["namespaces", "other_user"], {containment.ATTRIBUTES}),
        (["namespaces", "files"], {containment.FILES}),
        (["calls"], {containment.MEMORY}),
        (["watched"], {containment.WATCH}),
        (
            ["namespaces", "calls"],
            {containment.ATTRIBUTES, containment.NETWORK, containment.MEMORY},
        ),
    ],
)
def test_what_is_missing_opens_a_gap(missing: list[str], opened: set[str]) -> None:
    less = dataclasses.replace(ALL, **dict.fromkeys(missing, False))
    assert set(less.gaps()) == opened | {containment.KERNEL}


def test_with_nothing_everything_is_open_but_what_files_would_hide() -> None:
    every = {text for name, text in vars(containment).items() if name.isupper()}
    assert set(LEAST.gaps()) == every - {containment.ATTRIBUTES}
