"""The caller of a request, with scopes and limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from enum import StrEnum

from rlcm_serve.errors import RequestRefused


class Scope(StrEnum):
    """What a key allows. `admin` includes the others."""

    SOLVE = "solve"
    LABEL = "label"
    METRICS = "metrics"
    ADMIN = "admin"


def scopes_of(names: Collection[str]) -> frozenset[Scope]:
    """The scopes with these names.

    Raises:
        RequestRefused: a name is not a scope.
    """
    for name in names:
        if name not in list(Scope):
            raise RequestRefused("scopes", f"the scope is {name!r}: give {', '.join(Scope)}")
    return frozenset(map(Scope, names))


_MOST = 2**63 - 1
_MOST_AT_ONCE = 2**31 - 1
"""Largest values that the columns hold: of most limits, and of `max_n` and `max_running`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one key; None leaves the limit of the service.

    Attributes:
        max_n: samples of one question.
        max_tokens: thinking budget of one sample, in tokens.
        max_body_bytes: size of one request in bytes, including uploads.
        timeout_s: seconds for one question.
        max_running: questions at the same time, including those that wait.
        requests_per_minute: questions and batches that may begin in a minute.
        tokens_per_minute: tokens of all questions in a minute, prompts included.
        weight: share of a busy service relative to other keys, which have 1.
    """

    max_n: int | None = None
    max_tokens: int | None = None
    max_body_bytes: int | None = None
    timeout_s: float | None = None
    max_running: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    weight: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise RequestRefused(
                    field.name, f"{field.name} is {value}: give more than 0, or leave it out"
                )
            most = _MOST_AT_ONCE if field.name in ("max_n", "max_running") else _MOST
            if value is not None and value > most:
                raise RequestRefused(
                    field.name, f"{field.name} is {value}: give at most {most}, or leave it out"
                )


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    Attributes:
        key_id: None if the service needs no key.
        scopes: what the key allows.
        limits: of the key.
        cache_group: keys of one group share cached prefixes; None shares with no other key.
    """

    key_id: str | None
    scopes: frozenset[Scope]
    limits: Limits = NO_LIMITS
    cache_group: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller has this scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def sees(self, owner: str | None) -> bool:
        """Whether the caller may know of what the key `owner` started; None: no key did."""
        return self.may(Scope.ADMIN) or (owner is not None and owner == self.key_id)

    def may_label(self, owner: str | None) -> bool:
        """Whether the caller may label answers to the key `owner`; None: no key asked."""
        return self.may(Scope.LABEL) or self.sees(owner)


ANYONE = Caller(None, frozenset(Scope))
"""Every caller of a service without keys."""
STRANGER = Caller(None, frozenset())
"""A caller without a key at a service that needs one; may see public pages only."""
