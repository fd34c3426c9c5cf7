"""Tables and figures in Markdown, and numbers in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Plate
from calibration.report_kit.tables import Rank
from calibration.report_kit.wording import excludes_zero, number, number_interval, signed

NOT_RUN: Final = "not run yet"


@dataclass(frozen=True, slots=True)
class Block:
    """The content between `<!-- begin NAME -->` and `<!-- end NAME -->`.

    Attributes:
        name: of the block.
        content: Markdown and figures, in order.
    """

    name: str
    content: tuple[str | Plate, ...]

    @property
    def plates(self) -> tuple[Plate, ...]:
        """Its figures."""
        return tuple(part for part in self.content if isinstance(part, Plate))

    def markdown(self, figures: str) -> str:
        """The block as Markdown; `figures` is the folder of the figures, relative to the page."""
        parts = (part if isinstance(part, str) else _shown(part, figures) for part in self.content)
        return "\n\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """A table; the first `names` columns are text, the others are numbers."""
    ruled = ["---" if column < names else "---:" for column in range(len(head))]
    lines = [head, ruled, *rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def in_full(estimate: Estimate, digits: int = 3, rank: Rank = "") -> str:
    """A number, with its interval below in small type, if there is one."""
    return _over(ranked_text(number(estimate, digits), rank), number_interval(estimate, digits))


def difference(estimate: Estimate, digits: int = 3) -> str:
    """A difference with its sign and its interval; bold if the interval excludes 0."""
    text = signed(estimate, digits)
    bold = f"**{text}**" if excludes_zero(estimate) else text
    return _over(bold, number_interval(estimate, digits))


def ranked_text(text: str, rank: Rank) -> str:
    """The text in bold if it is the best, underlined if it is the second best."""
    return {"best": f"**{text}**", "second": f"<u>{text}</u>", "": text}[rank]


def folded(title: str, text: str) -> str:
    """Text that opens with a click on its title."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def _over(text: str, small: str) -> str:
    return f"{text}<br><sub>{small}</sub>" if small else text


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _shown(plate: Plate, figures: str) -> str:
    alt = plate.caption.alt.replace("[", "(").replace("]", ")")
    text = f"*{plate.caption.title}.* {plate.caption.text}"
    return f"![{alt}]({figures}/{plate.name}.png)\n\n{text}"
