"""Labels of answers whose profile has changed since, and references that break a grader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibration import ExitPolicy
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.grading.base import KeyedGrader
from rlcm_serve.answers.profile_graders import verdicts_as_given
from rlcm_serve.errors import ProfileRefused
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.settings import Settings
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.api.serving import serving
from tests.rlcm_serve.api.test_monitoring import answered, feedback
from tests.rlcm_serve.scripted_engine import Script, certificate, under

pytestmark = pytest.mark.anyio
POLICY = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)
MATH = Profile(name="tutor", system="Be brief.")
EXACT = Profile(name="tutor", system="Be brief.", grader="exact")


class Floats(KeyedGrader):
    """A grader that cannot read every reference, and does not say so beforehand."""

    name = "floats 1"

    def check_reference(self, reference: str) -> None: ...

    def key(self, answer: str) -> str:
        return answer

    def is_right(self, answer: str, reference: str) -> bool:
        return float(answer) == float(reference)


def settings(folder: Path) -> Settings:
    database = f"sqlite:///{folder}/rlcm.db"
    return Settings(state=folder, database=database, audit_share=1, audit_texts=True)


def saved(folder: Path, profile: Profile) -> Path:
    path = folder / "certificate.json"
    certificate({0.1: POLICY}, fingerprint=fingerprint_of(under(profile))).save(path)
    return path


async def test_an_answer_is_judged_by_the_grader_of_its_certificate(tmp_path: Path) -> None:
    """The profile has another one by now, under which .5 is not one half."""
    half = Script(c_end=0.6, own=r"It is \boxed{1/2}.")
    files = [saved(tmp_path, MATH)]
    async with serving(
        half, certificates=files, settings=settings(tmp_path), profiles=[MATH]
    ) as running:
        given = (await running.solve(profile="tutor")).json()
        assert (given["answer"], bool(given["guarantee"])) == ("1/2", True)
    async with serving(half, settings=settings(tmp_path), profiles=[EXACT]) as running:
        said = await feedback(running, {"id": given["id"], "reference": "0.5"})
        (row,) = await answered(running)
    assert (said["refused"], row.right) == ([], True)


async def test_answers_under_a_renamed_profile_can_still_be_labelled(tmp_path: Path) -> None:
    renamed, files = Profile(name="teacher", system="Be brief."), [saved(tmp_path, MATH)]
    ids: list[str] = []
    for c_end in (0.2, 0.6):
        async with serving(
            Script(c_end=c_end), certificates=files, settings=settings(tmp_path), profiles=[MATH]
        ) as running:
            asked = await running.solve(profile="tutor", problem=f"Question at {c_end}?")
            ids.append(asked.json()["id"])
    async with serving(
        certificates=files, settings=settings(tmp_path), profiles=[renamed]
    ) as running:
        skipped = await feedback(running, {"id": ids[0], "skip": True})
        said = await feedback(running, *({"id": id_, "reference": "7"} for id_ in ids))
        declined, right = await answered(running)
    (refused,) = skipped["refused"]
    assert refused["why"] == "skip: the service abstained, so no test waits for a label"
    assert (said["refused"], said["labelled"]) == ([], 2)
    assert (declined.answered, declined.labelled is None) == (False, False)
    assert right.right is True


async def test_an_answer_whose_grader_is_not_here_asks_for_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Profile(name="tutor", grader=f"{__name__}:Floats")
    async with serving(settings=settings(tmp_path), profiles=[own]) as running:
        given = (await running.solve(profile="tutor")).json()
    monkeypatch.setattr(Floats, "name", "floats 2")
    async with serving(settings=settings(tmp_path), profiles=[own]) as running:
        said = await feedback(running, {"id": given["id"], "reference": "7"})
        again = await feedback(running, {"id": given["id"], "right": True})
    (refused,) = said["refused"]
    assert f"its grader was '{own.grader} floats 1', and here is" in refused["why"]
    assert refused["why"].endswith("send right instead")
    assert again["labelled"] == 1


async def test_a_reference_that_breaks_a_grader_lets_the_other_labels_pass(tmp_path: Path) -> None:
    own = Profile(name="tutor", grader=f"{__name__}:Floats")
    async with serving(settings=settings(tmp_path), profiles=[own]) as running:
        asked = [await running.solve(profile="tutor", problem=f"Question {n}?") for n in range(3)]
        ids = [one.json()["id"] for one in asked]
        labels: list[dict[str, Any]] = [{"reference": "7"}, {"reference": "seven"}, {"right": True}]
        said = await feedback(
            running, *({"id": id_} | label for id_, label in zip(ids, labels, strict=True))
        )
        rows = await answered(running)
    (refused,) = said["refused"]
    assert refused["id"] == ids[1]
    assert "ValueError: could not convert string to float: 'seven'" in refused["why"]
    assert [row.right for row in rows] == [True, None, True]


def test_a_grader_of_another_release_is_named_as_such() -> None:
    with pytest.raises(ProfileRefused, match=r"^its grader was 'rlcm-math 1', which is not here$"):
        verdicts_as_given("rlcm-math 1", MATH, AnswerGrader())
