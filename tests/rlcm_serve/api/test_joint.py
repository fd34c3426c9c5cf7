"""What holds jointly with the levels, over HTTP."""

from __future__ import annotations

from pathlib import Path

from tests.rlcm_serve.api.serving import serving
from tests.rlcm_serve.scripted_engine import Script
from tests.rlcm_serve.solving.test_joint import with_joint


async def test_the_answer_and_the_certificate_have_it(tmp_path: Path) -> None:
    made = with_joint()
    made.save(tmp_path / "c.json")
    sure = Script(confidences=(0.97,), c_end=0.98)
    async with serving(sure, certificates=[tmp_path / "c.json"]) as running:
        promised = (await running.solve()).json()["guarantee"]
        (listed,) = (await running.client.get("/certificates")).json()["certificates"]
    assert promised["bounds"] == {"declined": 0.45}
    assert promised["next_questions"]["questions"] == 100
    said = "At the same time, the service abstains on at most 45% of all questions"
    assert said in promised["statement"]
    assert listed["joint"]["delta"] == 0.15
    assert listed["joint"]["bounds"] == [
        {"risk": "declined", "at_most": 0.45, "bounds": [0.45, 0.45]}
    ]
    assert listed["joint"]["next"]["most"] == [promised["next_questions"]["most"], 29]
