"""Where a result says it comes from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from training import provenance

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the module, which is nowhere tracked yet."""
    path = Path(shutil.copy(provenance.__file__, tmp_path))
    monkeypatch.setattr(provenance, "__file__", str(path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return path


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*GIT, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_checkout_gives_its_commit_and_says_if_it_was_changed(module: Path) -> None:
    git(module.parent, "init", "-q")
    git(module.parent, "add", ".")
    git(module.parent, "commit", "-qm", "one")
    head = git(module.parent, "rev-parse", "HEAD")
    assert provenance.commit() == head
    module.write_text("changed")
    assert provenance.commit() == f"{head}+"


def test_an_installed_copy_below_another_checkout_gives_none(module: Path) -> None:
    assert provenance.commit() is None
    git(module.parent, "init", "-q")
    git(module.parent, "commit", "-q", "--allow-empty", "-m", "another")
    assert provenance.commit() is None


def test_without_git_there_is_no_commit(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(module.parent))
    assert provenance.commit() is None


def test_the_command_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/rlcm", "train", "rl", "--out", "my runs"])
    assert provenance.command() == "rlcm train rl --out 'my runs'"
