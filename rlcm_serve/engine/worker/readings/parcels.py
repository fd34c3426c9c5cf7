"""What a worker's copy of a slot has that the front end lacks, as bytes by field."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_ALWAYS = ("count", "finished", "final_tokens", "final_confidence", "final_signals", "final_inputs")
_OF_PROMPT = ("prompted", "prompt")
_OF_READINGS = ("confidence", "signals", "inputs")

Parcel = dict[str, bytes]
"""Bytes of a slot's fields; vLLM's own messages carry it."""


class Wanted(NamedTuple):
    """What the front end asks of one slot.

    Attributes:
        slot: its number.
        ticket: of the request; a slot that another request has is not sent.
        taken: readings that the front end has; they are not sent again.
        figures: whether the figures of all tokens are sent.
    """

    slot: int
    ticket: int
    taken: int = 0
    figures: bool = False


def pack(row: np.void, wanted: Wanted) -> Parcel | None:
    """What the front end lacks of a slot; None if the slot is not the request's."""
    if row["ticket"] != wanted.ticket:
        return None
    names = row.dtype.names or ()
    whole = (*_ALWAYS, *(_OF_PROMPT if wanted.taken == 0 else ()))
    parcel = {name: row[name].tobytes() for name in whole if name in names}
    fresh = slice(wanted.taken, int(row["count"]))
    parcel |= {name: row[name][fresh].tobytes() for name in _OF_READINGS if name in names}
    if wanted.figures and "figures" in names:
        observed = int(row["observed"])
        parcel |= {"observed": row["observed"].tobytes()}
        parcel |= {"figures": row["figures"][:observed].tobytes()}
    return parcel


def unpack(row: np.void, wanted: Wanted, parcel: Parcel) -> None:
    """Writes into the front end's slot what `pack` found."""
    for name, sent in parcel.items():
        field = row.dtype[name]
        values = np.frombuffer(sent, field.base)
        if name in _OF_READINGS or name == "figures":
            values = values.reshape(-1, *field.shape[1:])
            start = wanted.taken if name in _OF_READINGS else 0
            row[name][start : start + len(values)] = values
        else:
            row[name] = values.reshape(field.shape) if field.shape else values[0]
