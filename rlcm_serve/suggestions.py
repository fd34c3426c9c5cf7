"""The known name that a misspelt one may stand for."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about an unknown name: take the known one nearest to it, or something else.

    Args:
        name: the unknown name.
        known: the names that exist.
        otherwise: what to do if none of them is near.
    """
    near = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise
