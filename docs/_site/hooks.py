"""Adds pages that are not written in `docs/`: those that are generated, and the changelog."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

GENERATED = Path("build/reference")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page in sorted(GENERATED.glob("*.md")):
        files.append(
            File.generated(config, f"reference/{page.name}", content=page.read_text("utf-8"))
        )
    changelog = within_site(Path("CHANGELOG.md").read_text("utf-8"))
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def within_site(markdown: str) -> str:
    """A page of the top folder as a page of the site: links to files outside `docs/` are text."""
    inside = markdown.replace("](docs/", "](")
    return re.sub(r"\[([^\]]+)\]\(deploy/[^)]*\)", r"\1", inside)
