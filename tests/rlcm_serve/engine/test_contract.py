"""What every engine refuses before it works on a conversation."""

from __future__ import annotations

import pytest

from rlcm_serve.core import Message, Role
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.scripted_engine import CONTEXT, LONGEST_TOKEN, ScriptedEngine

MOST = CONTEXT * LONGEST_TOKEN


def test_a_conversation_that_cannot_fit_is_refused_by_its_length() -> None:
    engine = ScriptedEngine()
    engine.require_room([Message(Role.USER, "a" * MOST)])
    engine.require_room([Message(Role.USER, "")] * CONTEXT)
    with pytest.raises(RequestRefused, match=f"has {MOST + 2} characters.* at most {MOST}: sho"):
        engine.require_room([Message(Role.USER, "a" * MOST), Message(Role.USER, "bc")])
    with pytest.raises(RequestRefused, match=f"has {CONTEXT + 1} messages.* at most {CONTEXT}: "):
        engine.require_room([Message(Role.USER, "")] * (CONTEXT + 1))
