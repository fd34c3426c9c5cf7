"""Which kind of question a certificate is for, among several that hold together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from calibration.errors import CalibrationError
from calibration.traces.traces import Traces

POOLED_SHARE = 0.25
"""Share of delta for the certificate of all kinds together.

It does not depend on the sample, and the kinds divide the rest equally. How many kinds have enough
labels does depend on the sample: on how many problems of each kind were drawn. Given these numbers,
the groups of one kind are still independent draws of that kind, so each kind's test holds; for this
a group has one kind only. The test of all kinds together is valid before these numbers are known,
and not given them, so its share must not depend on them.
"""
_NAMED = 5
"""Kinds that a sentence names."""


def delta_of_each(delta: float, kinds: int) -> float:
    """The share of delta that the certificate of one of so many kinds may spend."""
    return delta * (1 - POOLED_SHARE) / kinds


def group_of_several(problems: Iterable[tuple[str | None, str | None]]) -> str | None:
    """Says which group has problems of several kinds; None if each group has one kind.

    Args:
        problems: the group and the kind of each; None for a problem without one.
    """
    kind_of: dict[str, str | None] = {}
    for group, kind in problems:
        if group is not None and (other := kind_of.setdefault(group, kind)) != kind:
            return (
                f"the group {group!r} has problems of the kinds {other!r} and {kind!r}, and a "
                "group must have one kind"
            )
    return None


@dataclass(frozen=True, slots=True)
class Kind:
    """Which questions a certificate is for. It holds together with the certificates of its peers.

    With probability at least 1 - delta over the draw of the calibration problems, no certificate
    among them breaks its promise: that of each kind in `certified`, and the pooled one for all
    kinds. This does not cover kinds that were declared after looking at labels, and a question of
    one kind that is asked as another.

    Attributes:
        by: the column of the traces that holds the kinds.
        name: the kind; None for questions of all kinds, mixed as in the calibration.
        certified: the kinds with certificates of their own, sorted.
        pooled: the kinds with too few labels for one, sorted.
        delta: the probability with which any of these certificates may fail.
    """

    by: str
    name: str | None
    certified: tuple[str, ...]
    pooled: tuple[str, ...]
    delta: float

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in self.certified:
            raise CalibrationError(
                f"the kind {self.name!r} is not among those with certificates of their own, "
                f"{named(self.certified)}: name it there"
            )

    @property
    def own_delta(self) -> float:
        """The share of delta that this certificate may spend."""
        if self.name is None:
            return self.delta * POOLED_SHARE
        return delta_of_each(self.delta, len(self.certified))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The kind from its values in a certificate file.

        Raises:
            CalibrationError, KeyError, TypeError: a value is missing, unknown or out of range.
        """
        lists = {field: tuple(values[field]) for field in ("certified", "pooled")}
        return cls(**{**values, **lists})

    def select(self, traces: Traces) -> Traces:
        """The problems that the certificate is about.

        Raises:
            CalibrationError: the traces have no kinds, or no problem of this kind.
        """
        if self.name is None:
            return traces
        if traces.kinds is None:
            raise CalibrationError(
                f"the traces have no kinds, and the certificate is for {self.by} {self.name!r}: "
                f"read them with their column {self.by!r}"
            )
        return traces.of_kind(self.name)


def named(kinds: Sequence[str]) -> str:
    """The names of kinds for a sentence; of many, the first few."""
    shown = ", ".join(repr(kind) for kind in kinds[:_NAMED])
    more = len(kinds) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
