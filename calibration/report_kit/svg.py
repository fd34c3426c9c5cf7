"""Figures as files and as elements of a page that may be light, dark or printed."""

import io
import re
from xml.etree import ElementTree

from markupsafe import Markup
from matplotlib.figure import Figure

from calibration.report_kit.palette import THEME

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_ROLES = {light: role for role, (light, _) in THEME.items()}


def png(figure: Figure) -> bytes:
    """The figure on light paper, 160 dots per inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return buffer.getvalue()


def inline_svg(figure: Figure, name: str, alt: str) -> Markup:
    """The figure as an element of a page, in the page's own colours.

    Args:
        figure: drawn in the light colours of `THEME`.
        name: unique on the page; the ids within the figure begin with it.
        alt: what it shows, for readers who cannot see it.
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
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _slim(element: ElementTree.Element) -> None:
    """Drop what nobody sees: names of groups, white space, digits below a hundredth."""
    if element.tag == f"{{{_SVG}}}g":
        element.attrib.pop("id", None)
    for key in {"d", "x", "y"} & element.attrib.keys():
        rounded = _DECIMALS.sub(lambda number: f"{float(number[0]):.2f}", element.attrib[key])
        element.attrib[key] = " ".join(rounded.split())
    for part in ("text", "tail"):
        if not (getattr(element, part) or "").strip():
            setattr(element, part, None)


def _adapt(element: ElementTree.Element, name: str) -> None:
    """Make ids and references unique to this figure; replace colours by the page's variables."""
    for key, value in element.attrib.items():
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{_XLINK}}}href" and value.startswith("#"):
            value = f"#{name}-{value[1:]}"
        elif key == "style":
            value = re.sub("#[0-9a-f]{6}", _variable, value)
        element.attrib[key] = value.replace("url(#", f"url(#{name}-")


def _variable(found: re.Match[str]) -> str:
    role = _ROLES.get(found[0])
    return f"var(--{role})" if role else found[0]
