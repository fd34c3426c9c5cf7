"""The colours of pages and figures, by role, for light paper and for dark."""

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
"""Colours by role: as figures are drawn, on light paper, and their replacements on dark paper."""


def css_variables() -> str:
    """The colours of page and figures as CSS; print is always light."""
    light = "".join(f"--{role}: {color};" for role, (color, _) in THEME.items())
    dark = "".join(f"--{role}: {color};" for role, (_, color) in THEME.items())
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    )
