"""Runs the blocks of a page in order, as a reader would type them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.settings import load_settings
from tests.docs.markdown import Block

ADDRESS = "localhost:8000"
SECONDS = 300
"""Time limit of one block."""
RUN = ("sh", "python")
SHOWN = ("json", "text", "toml")
"""Languages of blocks that are shown and not run: answers, outputs, settings."""
CLIENTS = Path(__file__).parents[2] / ".clients"
"""Packages that some blocks import, apart from the environment: `make clients` installs them."""
IMPORTS_CLIENT = re.compile(r"^(import|from) (instructor|langchain_openai|litellm)\b", re.MULTILINE)
COMMAND = re.compile(r"(\$ )?(curl|make|pip|python3?|rlcm|docker) ")
BY_ANSWER = ("tally", "certified_alphas")
"""Members whose keys or length depend on the answer."""


class Reader:
    """Runs the blocks of a page in one folder.

    Args:
        folder: where all of it happens.
        address: of a service, host and port, which stands in for the one of the docs.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        programs = Path(sys.executable).parent
        self._environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
            "COLUMNS": "120",
        }

    def read(self, blocks: Sequence[Block]) -> None:
        """Runs the block, or compares a shown block after a `curl` with the actual response.

        Raises:
            AssertionError: a block failed, or shows something else; the message says which.
        """
        printed = ""
        for block in blocks:
            if block.not_run is not None:
                printed = ""
            elif block.language in RUN:
                ran = self._run(block)
                printed = ran if "curl" in block.text else ""
            elif block.language == "toml":
                self._set(block)
            else:
                check_shown(block, printed)
                printed = ""

    def _run(self, block: Block) -> str:
        text = block.text.replace(ADDRESS, self._address)
        environment = self._environment
        if block.language == "python":
            if IMPORTS_CLIENT.search(text):
                if not CLIENTS.is_dir():
                    pytest.skip(f"{block}: no .clients, which `make clients` installs")
                environment = environment | {
                    "PYTHONPATH": str(CLIENTS),
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                }
            file = self._folder / f"line_{block.line}.py"
            file.write_text(text)
            command = [sys.executable, file.name]
        else:
            command = ["bash", "-euo", "pipefail", "-c", text]
        ran = subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert ran.returncode == 0, (
            f"{block} ends with status {ran.returncode}:\n{text}\n{ran.stdout}\n{ran.stderr}"
        )
        return ran.stdout

    def _set(self, block: Block) -> None:
        file = self._folder / f"line_{block.line}.toml"
        file.write_text(block.text)
        load_settings({}, file)


def check_shown(block: Block, printed: str) -> None:
    """Compares a shown block with the output of the block before it, if there is one."""
    if block.language == "text":
        events, real = _events(block.text), _events(printed)
        assert events <= real or not real, f"{block} shows {events - real}, there are {real}"
        return
    shown = json.loads(block.text)
    if printed:
        differences = compare_keys(shown, json.loads(printed))
        assert not differences, f"{block} does not show what came back: {differences}"


def compare_keys(shown: Any, real: Any, at: str = "") -> list[str]:
    """The places where two JSON documents differ in members; values are not compared."""
    if isinstance(shown, dict) and isinstance(real, dict):
        found = [f"{at}.{name} is not there" for name in shown.keys() - real.keys()]
        found += [f"{at}.{name} is not shown" for name in real.keys() - shown.keys()]
        for name in (shown.keys() & real.keys()) - {*BY_ANSWER}:
            found += compare_keys(shown[name], real[name], f"{at}.{name}")
        return found
    if isinstance(shown, list) and isinstance(real, list):
        # One item of each kind.
        return compare_keys(shown[0], real[0], f"{at}[0]") if shown and real else []
    return []


def _events(stream: str) -> set[str]:
    return set(re.findall(r"^event: (\w+)", stream, re.MULTILINE))
