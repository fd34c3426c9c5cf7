from dataclasses import replace

import pytest

from calibration import CalibrationError, Fingerprint


def test_round_trip(fingerprint: Fingerprint) -> None:
    assert Fingerprint.from_json(fingerprint.to_json()) == fingerprint


def test_differences_are_named_one_by_one(fingerprint: Fingerprint) -> None:
    assert fingerprint.differences(fingerprint) == []
    other = replace(fingerprint, temperature=1.0, grader="exact 2")
    assert fingerprint.differences(other) == [
        "temperature: 0.8 here, 1.0 there",
        "grader: 'exact 1' here, 'exact 2' there",
    ]


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
