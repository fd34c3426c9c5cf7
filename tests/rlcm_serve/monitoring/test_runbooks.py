"""Links of events lead to sections of the page of runbooks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlcm_serve.monitoring.records import EventKind, runbook_of

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "runbooks.md"


@pytest.mark.parametrize("what", EventKind)
def test_the_link_of_each_event_leads_to_a_section(what: EventKind) -> None:
    link = runbook_of(what, "https://docs.example.com/guides/runbooks.html#top")
    assert link is not None
    page, _, anchor = link.partition("#")
    assert page == "https://docs.example.com/guides/runbooks.html"
    assert anchor in [name.lower() for name in re.findall(r"^### (\w+)$", PAGE.read_text(), re.M)]
    assert runbook_of(what, None) is None
