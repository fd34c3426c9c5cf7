"""Who a request comes from, and what they may do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from enum import StrEnum

from rlcm_serve.errors import RequestRefused


class Scope(StrEnum):
    """What a key is for. `admin` includes `solve`."""

    SOLVE = "solve"
    ADMIN = "admin"


def scopes_of(names: Collection[str]) -> frozenset[Scope]:
    """The scopes of these names.

    Raises:
        RequestRefused: one is none.
    """
    for name in names:
        if name not in list(Scope):
            raise RequestRefused("scopes", f"the scope is {name!r}: give {' or '.join(Scope)}")
    return frozenset(map(Scope, names))


@dataclass(frozen=True, slots=True)
class Limits:
    """What one key may ask for; None is as much as the service allows anyone.

    Attributes:
        max_n: samples of one question.
        max_tokens: thinking budget of one sample, tokens.
        max_body_bytes: of one request, uploads included.
        timeout_s: seconds for one question.
        max_running: questions under way at a time, those that wait included.
    """

    max_n: int | None = None
    max_tokens: int | None = None
    max_body_bytes: int | None = None
    timeout_s: float | None = None
    max_running: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise RequestRefused(
                    field.name, f"{field.name} is {value}: give more than 0, or leave it out"
                )


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: `key_id` says with which key, None where none was needed."""

    key_id: str | None
    scopes: frozenset[Scope]
    limits: Limits = NO_LIMITS

    def may(self, scope: Scope) -> bool:
        """Whether the caller's key is for this."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


ANYONE = Caller(None, frozenset(Scope))
"""Every caller of a service that asks for no keys."""
STRANGER = Caller(None, frozenset())
"""A caller that showed no key where one is needed; it sees what is open to all."""
