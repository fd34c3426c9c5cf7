"""How figures look, and how they get onto a page that may be light, dark or printed."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree

from matplotlib import style
from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1f2429", "#5a646e", "#d9dee3", "#fdfdfe"
BLUE, ORANGE, TINT = "#0a5ca8", "#b84a0b", "#fbeee5"
GREEN, PURPLE, TEAL = "#2b7a3d", "#6f3fa8", "#0b7480"
ROSE, GOLD, BROWN = "#b02467", "#806000", "#6d4c3d"

THEME = {
    "ink": (INK, "#e4e9ee"),
    "muted": (MUTED, "#9fabb6"),
    "grid": (GRID, "#39424b"),
    "paper": (PAPER, "#14181d"),
    "blue": (BLUE, "#6db3f2"),
    "orange": (ORANGE, "#f29a63"),
    "tint": (TINT, "#2b211b"),
    "green": (GREEN, "#79c98a"),
    "purple": (PURPLE, "#bf9df0"),
    "teal": (TEAL, "#58cad3"),
    "rose": (ROSE, "#f28bb9"),
    "gold": (GOLD, "#d9bb55"),
    "brown": (BROWN, "#c8a794"),
}
"""Colours by role: as figures are drawn, on light paper, and what takes their place on dark."""

WIDTH = 7.2
"""Width of every figure, inches."""

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "figure.facecolor": PAPER,
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
    "svg.fonttype": "path",  # the page looks the same whatever fonts its reader has
    "svg.hashsalt": "rlcm",  # and is the same whenever it is made
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}


@contextmanager
def settings() -> Iterator[None]:
    """Draw and save within it: the look of a report, whatever the user's own settings are.

    It sets matplotlib's settings, which all threads share, and puts them back.
    """
    with style.context(["default", _SETTINGS]):
        yield


def css_variables() -> str:
    """The colours of page and figures as CSS; print is always light."""
    light = "".join(f"--{role}: {color};" for role, (color, _) in THEME.items())
    dark = "".join(f"--{role}: {color};" for role, (_, color) in THEME.items())
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    )


def png(figure: Figure) -> bytes:
    """The figure on light paper, 160 dots per inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return buffer.getvalue()


def inline_svg(figure: Figure, name: str, alt: str) -> str:
    """The figure as an element of a page, in the page's own colours.

    Args:
        figure: drawn in the light colours of `THEME`.
        name: unique on the page; ids are made of it.
        alt: what it shows, for those who cannot see it.
    """
    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", facecolor="none", metadata=no_metadata)
    root = ElementTree.fromstring(buffer.getvalue())
    for size in ("width", "height"):
        del root.attrib[size]
    ids: set[str] = set()
    for element in root.iter():
        _slim(element)
        _adapt(element, name)
        # Panels that look the same have images of the same id, which nothing refers to.
        if "id" in element.attrib and element.attrib["id"] in ids:
            del element.attrib["id"]
        ids.add(element.attrib.get("id", ""))
    title = ElementTree.Element(f"{{{_SVG}}}title", id=f"{name}-alt")
    title.text = alt
    root.insert(0, title)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-alt"}
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _slim(element: ElementTree.Element) -> None:
    """Without what nobody sees: names of groups, white space, hundredths of a hundredth."""
    if element.tag == f"{{{_SVG}}}g":
        element.attrib.pop("id", None)
    for key in {"d", "x", "y"} & element.attrib.keys():
        rounded = _DECIMALS.sub(lambda number: f"{float(number[0]):.2f}", element.attrib[key])
        element.attrib[key] = " ".join(rounded.split())
    for part in ("text", "tail"):
        if not (getattr(element, part) or "").strip():
            setattr(element, part, None)


def _adapt(element: ElementTree.Element, name: str) -> None:
    """Ids, and what points to them, to ones used only here; colours to the page's variables."""
    for key, value in element.attrib.items():
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{_XLINK}}}href" and value.startswith("#"):
            value = f"#{name}-{value[1:]}"
        elif key == "style":
            value = re.sub("#[0-9a-f]{6}", _variable, value)
        element.attrib[key] = value.replace("url(#", f"url(#{name}-")


def _variable(found: re.Match[str]) -> str:
    for role, (light, _) in THEME.items():
        if found[0] == light:
            return f"var(--{role})"
    return found[0]
