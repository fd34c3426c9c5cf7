"""The guarantee of an answer in a header, for clients that drop the fields they do not know."""

from __future__ import annotations

from rlcm_serve.core import Guarantee

HEADER = "x-rlcm-guarantee"
NONE = "none"


def guarantee_header(guarantee: Guarantee | None) -> dict[str, str]:
    """The header of a response: the risk, its level, delta and the certificate; or `none`."""
    if guarantee is None:
        return {HEADER: NONE}
    parts = {
        "risk": guarantee.risk,
        "alpha": f"{guarantee.alpha_certified:g}",
        "delta": f"{guarantee.delta:g}",
        "certificate": guarantee.certificate,
    }
    return {HEADER: "; ".join(f"{name}={value}" for name, value in parts.items())}
