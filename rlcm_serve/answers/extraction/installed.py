"""Objects of installed packages that profiles name: extractors and graders of one's own."""

from __future__ import annotations

import re
from copy import copy
from pkgutil import resolve_name
from typing import Any

from rlcm_serve.errors import ProfileRefused

ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""`module:object`, with dots in either."""


def installed(field: str, spec: str, kind: type) -> Any:
    """The object of an installed package: a copy, so that it may be given its name.

    Args:
        field: of the profile, in messages.
        spec: `module:object`, an object of this kind or a subclass of it.
        kind: what it must be.

    Raises:
        ProfileRefused: it cannot be loaded, or is something else.
    """
    try:
        found = resolve_name(spec)
        if isinstance(found, type) and issubclass(found, kind):
            found = found()
    except Exception as error:  # whatever the module or its class raises
        raise ProfileRefused(f"{field} is {spec!r}, which cannot be loaded: {error}") from error
    if not isinstance(found, kind):
        raise ProfileRefused(
            f"{field} is {spec!r}, which is no {kind.__name__}: derive its class from "
            f"{kind.__module__}.{kind.__name__}"
        )
    return copy(found)
