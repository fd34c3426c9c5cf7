"""`rlcm report paper`. Heavy imports are made inside: this module is imported with every `rlcm`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def paper(
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path(
        "studies/results/paper"
    ),
    page: Annotated[
        Path, typer.Option(help="Page whose blocks are replaced; made if it does not exist.")
    ] = Path("docs/studies/paper-at-toy-scale.md"),
) -> None:
    """The paper's tables and figures, from what `rlcm train paper` left."""
    from studies.paper.report.write import write_report

    Console().print(f"{write_report(results, page)}", markup=False, highlight=False, soft_wrap=True)
