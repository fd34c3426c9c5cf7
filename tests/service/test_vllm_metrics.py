"""vLLM's own metrics at `/metrics`, as routers in front of several services read them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.served import serving

pytestmark = pytest.mark.slow

ROUTED_BY = {
    "vllm:num_requests_waiting",
    "vllm:num_requests_running",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
}
"""What Gateway API's inference extension, llm-d and vLLM's production stack read."""
BODY = {"problem": "A dial shows 3. A up 5. B down 1. What does it show now?", "alpha": 0.1}


def values(url: str) -> dict[str, dict[str, float]]:
    """Of each sample: the values of vLLM's series, by the model's name."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        for one in family.samples:
            if one.name.startswith("vllm:"):
                found.setdefault(one.name, {})[one.labels.get("model_name", "")] = one.value
    return found


def test_vllms_metrics_stand_beside_ours_under_the_name_that_clients_use(tmp_path: Path) -> None:
    with serving(tmp_path, "--served-model-name", "walks") as service:
        reply = httpx.post(f"{service.url}/solve", json=BODY, timeout=60).json()
        found = values(service.url)
    assert set(found) >= ROUTED_BY
    assert set(found["vllm:num_requests_running"]) == {"walks"}
    assert found["vllm:num_requests_waiting"] == {"walks": 0}
    (sample,) = reply["samples"]
    assert found["vllm:generation_tokens_total"]["walks"] >= sample["reasoning_tokens"] > 0


def test_they_can_be_left_out(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-vllm-metrics") as service:
        assert values(service.url) == {}
