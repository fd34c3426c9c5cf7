import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from calibration import CalibrationError, Fingerprint
from calibration.traces.fingerprint import EFFECTS, Effect

PAGE_PARTS = Path(__file__).parents[3] / "rlcm_serve/page/static/js/trust/fingerprint.js"


def test_round_trip(fingerprint: Fingerprint) -> None:
    assert Fingerprint.from_json(fingerprint.to_json()) == fingerprint


def test_differences_are_named_one_by_one(fingerprint: Fingerprint) -> None:
    assert fingerprint.differences(fingerprint) == []
    other = replace(fingerprint, temperature=1.0, grader="exact 2")
    assert fingerprint.differences(other) == [
        "temperature: 0.8 here, 1.0 there",
        "grader: 'exact 1' here, 'exact 2' there",
    ]


def test_a_profile_adds_parts_and_without_one_files_stay_as_they_were(
    fingerprint: Fingerprint,
) -> None:
    assert len(fingerprint.to_json()) == 13
    asked = replace(fingerprint, system_prompt="3f2a", top_k=20)
    assert set(asked.to_json()) - set(fingerprint.to_json()) == {"system_prompt", "top_k"}
    assert Fingerprint.from_json(asked.to_json()) == asked


def test_a_digest_of_a_text_is_not_shown_to_people(fingerprint: Fingerprint) -> None:
    asked, other = (
        replace(fingerprint, system_prompt="3f"),
        replace(fingerprint, system_prompt="4e"),
    )
    assert fingerprint.differences(asked) == ["system_prompt: none here, one there"]
    assert asked.differences(fingerprint) == ["system_prompt: one here, none there"]
    assert asked.differences(other) == ["system_prompt: one here, another there"]


def test_a_difference_is_refused_or_voids_or_warns_by_its_part(fingerprint: Fingerprint) -> None:
    other = replace(fingerprint, grader="exact 2", dtype="bfloat16", vllm="0.32")
    assert fingerprint.differing(other, (Effect.REFUSES,)) == ("grader",)
    assert fingerprint.differing(other, (Effect.VOIDS,)) == ("dtype",)
    assert fingerprint.differing(other, (Effect.WARNS,)) == ("vllm",)
    assert fingerprint.differences(other) == [
        "grader: 'exact 1' here, 'exact 2' there",
        "dtype: none here, 'bfloat16' there",
    ]
    assert set(EFFECTS) < {field.name for field in fields(Fingerprint)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": "0.8"}, "temperature is '0.8', not a float"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5, not a int"),
        ({"samples": True}, "samples is True, not a int"),
        ({"checkpoint_interval": 0}, "checkpoint_interval is 0: give 1 or more"),
        ({"vote": "loudest"}, "vote is 'loudest': give one of"),
    ],
)
def test_refuses(fingerprint: Fingerprint, changes: dict[str, object], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        replace(fingerprint, **changes)


def test_json_with_other_fields_is_refused(fingerprint: Fingerprint) -> None:
    plain = fingerprint.to_json()
    del plain["probe"]
    with pytest.raises(CalibrationError, match=r"missing or unknown fields \['colour', 'probe'\]"):
        Fingerprint.from_json({**plain, "colour": "red"})


def test_the_page_names_every_part_and_knows_which_change_rounding_alone() -> None:
    source = PAGE_PARTS.read_text()
    (named,) = re.findall(r"const PARTS = \{(.*?)\};", source, re.DOTALL)
    (rounding,) = re.findall(r"const ROUNDING = new Set\(\[(.*?)\]\)", source, re.DOTALL)
    assert set(re.findall(r"^ *(\w+):", named, re.MULTILINE)) == {
        f.name for f in fields(Fingerprint)
    }
    warned = {name for name, effect in EFFECTS.items() if effect is Effect.WARNS}
    assert set(re.findall(r'"(\w+)"', rounding)) == warned
