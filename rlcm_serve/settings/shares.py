"""Shares of answers that are drawn for audit, for single keys and kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

_FORMS = (
    "key:ID=SHARE or kind:NAME=SHARE, such as key:9f2c01ab=0.5 or kind:geometry=0.2, with an id of "
    "`rlcm keys list` and a share from 0 to 1"
)
_IDS = {"key": re.compile("[0-9a-f]{8}"), "kind": re.compile("(?s).+")}


@dataclass(frozen=True, slots=True)
class AuditShares:
    """The share of answers that is drawn, which a key or a kind may have for itself.

    Attributes:
        default: of all others.
        of_key: by id of the key; it goes before that of a kind.
        of_kind: by name of the kind.
    """

    default: float
    of_key: dict[str, float] = field(default_factory=dict)
    of_kind: dict[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, default: float, others: Sequence[str] = ()) -> Self:
        """The shares of the settings `audit_share` and `audit_shares`.

        Raises:
            ValueError: an entry is malformed; the message names it.
        """
        shares = cls(default)
        tables = {"key": shares.of_key, "kind": shares.of_kind}
        for entry in others:
            name, _, number = entry.rpartition("=")
            what, _, whose = name.partition(":")
            try:
                share = float(number)
            except ValueError:
                share = -1.0
            if what not in _IDS or not _IDS[what].fullmatch(whose) or not 0 <= share <= 1:
                raise ValueError(f"audit_shares has {entry!r}: give {_FORMS}")
            tables[what][whose] = share
        return shares

    def of(self, key_id: str | None, kind: str | None) -> float:
        """The share of the answers to a key's questions of a kind."""
        if key_id is not None and key_id in self.of_key:
            return self.of_key[key_id]
        if kind is not None and kind in self.of_kind:
            return self.of_kind[kind]
        return self.default
