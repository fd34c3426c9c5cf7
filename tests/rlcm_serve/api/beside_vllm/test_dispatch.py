"""Which requests to vLLM's server go to our application."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from rlcm_serve.api.beside_vllm.dispatch import Dispatch

CHAT = "/v1/chat/completions"


def echo(name: str, *paths: str) -> FastAPI:
    """An application that tells its name, and the body and path that it got."""
    app = FastAPI()

    async def tell(request: Request) -> dict[str, Any]:
        body = (await request.body()).decode()
        return {"app": name, "body": body, "path": request.scope["path"]}

    for path in paths:
        app.add_api_route(path, tell, methods=["GET", "POST"])
    return app


@pytest.fixture
def client() -> TestClient:
    """vLLM's application with its routes, and ours as the plugin attaches it: afterwards."""
    vllm = echo("vllm", CHAT, "/v1/responses", "/v1/models", "/health", "/metrics", "/solved")
    dispatch = Dispatch()
    vllm.add_middleware(dispatch.in_front_of)
    dispatch.app = echo("ours", CHAT, "/v1/responses", "/solve", "/certificates/{id}", "/metrics")
    return TestClient(vllm)


def test_a_route_of_the_same_path_that_is_attached_later_is_never_reached() -> None:
    """Why the plugin takes requests out before vLLM routes them."""
    vllm = echo("vllm", CHAT)
    vllm.include_router(echo("ours", CHAT).router)
    assert TestClient(vllm).post(CHAT, json={"alpha": 0.1}).json()["app"] == "vllm"


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
def test_a_request_is_ours_if_it_names_a_risk(client: TestClient, path: str) -> None:
    for body, app in {
        '{"alpha": 0.1}': "ours",
        r'{"\u0061lpha": 0.1}': "ours",
        '{"alpha": "none"}': "ours",  # which refuses it; vLLM would ignore it
        '{"alpha": null}': "vllm",
        '{"messages": "alpha"}': "vllm",
        '["alpha"]': "vllm",
        '{"alpha": 0.1': "vllm",
        "[" * 100_000: "vllm",
        "": "vllm",
    }.items():
        told = client.post(path, content=body).json()
        assert (told["app"], told["body"]) == (app, body)
    assert client.get(path).json()["app"] == "vllm"


def test_a_body_that_comes_in_parts_arrives_whole(client: TestClient) -> None:
    parts = [b'{"padding": "', b"x" * 2**20, b'", "alp', b'ha": 0.1}']
    told = client.post(CHAT, content=iter(parts)).json()
    assert (told["app"], told["body"]) == ("ours", b"".join(parts).decode())


@pytest.mark.parametrize(
    ("path", "app"),
    [
        ("/solve", "ours"),
        ("/certificates/1", "ours"),
        ("/solved", "vllm"),
        ("/v1/models", "vllm"),
        ("/health", "vllm"),
        ("/metrics", "vllm"),
        ("/rlcm/metrics", "ours"),
    ],
)
def test_other_requests_go_by_their_path(client: TestClient, path: str, app: str) -> None:
    assert client.get(path).json()["app"] == app


def test_what_is_missing_says_where_it_is(client: TestClient) -> None:
    for path in ("/calibrations", "/calibrations/1", "/overview", "/page/index.html"):
        response = client.get(path)
        assert response.status_code == 404
        assert response.json()["detail"] == f"{path} is not in `vllm serve`: use `rlcm serve`"


def test_under_a_root_path_the_same_requests_are_ours() -> None:
    vllm = echo("vllm", "/health")
    vllm.root_path = "/api"
    dispatch = Dispatch()
    vllm.add_middleware(dispatch.in_front_of)
    dispatch.app = echo("ours", "/solve", "/metrics")
    client = TestClient(vllm)
    for path in ("/api/solve", "/solve", "/api/rlcm/metrics"):
        found = client.get(path).json()
        assert found["app"] == "ours", path
        assert found["path"] in ("/solve", "/metrics"), "limits go by the path"
    assert client.get("/api/health").json()["app"] == "vllm"


def test_until_our_service_can_answer_every_request_is_vllms() -> None:
    vllm = echo("vllm", "/solve")
    vllm.add_middleware(Dispatch().in_front_of)
    assert TestClient(vllm).get("/solve").json()["app"] == "vllm"
