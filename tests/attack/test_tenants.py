"""What one key can find out about others, or take from them."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.attack.target import Target
from tests.served import QUESTION

pytestmark = pytest.mark.attack


def _cached(target: Target, text: str, key: int) -> int:
    """Prompt tokens that came from the cache."""
    response = target.send(json.dumps({"problem": text, "alpha": 0.1}).encode(), key=key)
    assert response.status_code == 200, response.text
    return int(response.json()["usage"]["cached_prompt_tokens"])


def test_the_prefix_cache_does_not_tell_what_other_keys_asked(target: Target) -> None:
    secret = f"{uuid.uuid4()} A dial shows 3. " + "A up 5. B down 3. " * 40 + QUESTION
    assert _cached(target, secret, key=0) == 0
    assert _cached(target, secret, key=0) > 100, "a key finds its own prompt"
    assert [_cached(target, secret, key=key) for key in (1, 2)] == [0, 0]
