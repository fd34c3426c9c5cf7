"""Adds pages that are not written in `docs/`: those that are generated, and the changelog."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

GENERATED = Path("build/reference")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page in sorted(GENERATED.glob("*.md")):
        files.append(
            File.generated(config, f"reference/{page.name}", content=page.read_text("utf-8"))
        )
    changelog = Path("CHANGELOG.md").read_text("utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files
