"""`rlcm vllm-args` prints words that a shell takes apart at spaces."""

from __future__ import annotations

import json

import pytest

from rlcm_serve.commands.service import _in_one_word


@pytest.mark.parametrize("value", [{"mode": 0}, [1, {"a b": "c"}], {"method": "draft_model"}])
def test_json_is_written_without_blanks_between_its_parts(value: object) -> None:
    word = _in_one_word(json.dumps(value, indent=2))
    assert json.loads(word) == value
    assert word == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("argument", ["--max-num-seqs", "{no json}", "/a folder/x", "[", "{}"])
def test_other_arguments_stay_as_they_are(argument: str) -> None:
    assert _in_one_word(argument) == argument
