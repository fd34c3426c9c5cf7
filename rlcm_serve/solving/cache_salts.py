"""Who shares the engine's prefix cache.

A request that finds its prefix in the cache starts faster, and reports `cached_prompt_tokens`. So
whoever shares the cache with others can find out, prefix by prefix, what they asked. The salt is
part of the hash of a prompt's first block, and with it of every later block. Two requests share
blocks only if their salts are equal. The blocks hold the same numbers under any salt.
"""

from __future__ import annotations

import hmac
import secrets


class CacheSalts:
    """The salts of one process, whose cache dies with it: so its secret may die with it too.

    Without the secret, a salt cannot be computed from the id of a key, which is no secret.

    Args:
        shared: all callers share the cache.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self._shared = shared
        self._secret = secrets.token_bytes(32)

    def of(self, key_id: str | None, group: str | None = None) -> str:
        """The salt of a key, the same for all keys of a group; callers without keys share one."""
        if self._shared:
            owner = "all"
        elif group is not None:
            owner = f"group {group}"
        else:
            owner = f"key {key_id}"
        return hmac.digest(self._secret, owner.encode(), "sha256").hex()
