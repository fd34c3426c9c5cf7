"""Model cards in Markdown, from the templates of this package."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

_ENVIRONMENT = Environment(
    loader=PackageLoader("training"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def card(template: str, **values: Any) -> str:
    """The text of a card; `template` is the name of its file, without `.md.j2`."""
    return _ENVIRONMENT.get_template(f"{template}.md.j2").render(values)
