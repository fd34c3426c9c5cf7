"""Paths that begin with ~, which no shell has expanded."""

from pathlib import Path
from typing import TypeVar

_Value = TypeVar("_Value")


def at_home(value: _Value) -> _Value:
    """A leading ~ is the user's folder, also where no shell has seen it.

    Raises:
        ValueError: there is no such user.
    """
    if isinstance(value, str | Path) and str(value).startswith("~"):
        try:
            return type(value)(Path(value).expanduser())
        except RuntimeError:
            user = str(value).split("/")[0]
            said = f"there is no user {user}: give a path that begins with /"
            raise ValueError(said) from None
    return value
