"""Files that are written completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.files import write_text


def test_a_file_that_cannot_be_written_leaves_nothing_and_is_named(tmp_path: Path) -> None:
    target = tmp_path / "certificate.json"
    target.mkdir()
    with pytest.raises(OSError, match=r"certificate\.json'") as found:
        write_text(target, "{}")
    assert "partial" not in str(found.value.filename)
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_is_replaced_has_the_new_text(tmp_path: Path) -> None:
    target = tmp_path / "certificate.json"
    for text in ("{}", "{ }"):
        write_text(target, text)
        assert target.read_text() == text
    assert list(tmp_path.iterdir()) == [target]
