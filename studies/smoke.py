"""`--smoke`, an option of every study: the same code on a tiny input."""

from __future__ import annotations

import argparse

SMOKE = "Run on a tiny input, within a minute, and write nothing into the repository."


def study_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the first line of a study's docstring, and `--smoke`."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help=SMOKE)
    return parser
