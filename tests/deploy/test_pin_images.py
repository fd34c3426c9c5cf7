"""`make pin-images` against a registry on loopback: tokens, digests, and files left alone."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
OF_THE_PROJECT = {
    "library/python:3.11-slim-bookworm",
    "prom/prometheus:v3.5.0",
    "grafana/grafana:12.0.2",
}


class Registry(ThreadingHTTPServer):
    """Speaks the HTTP API of registries, version 2, with tokens as Docker Hub has them.

    Attributes:
        manifests: `repository:tag` -> what is sent for it.
        stated: the digest in the header; None states the true one.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.manifests: dict[str, bytes] = {}
        self.stated: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/token":
            (scope,) = parse_qs(url.query)["scope"]
            self.answer(200, json.dumps({"token": f"for {scope}"}).encode())
            return
        repository, tag = url.path.removeprefix("/v2/").split("/manifests/")
        scope = f"repository:{repository}:pull"
        if self.headers["Authorization"] != f"Bearer for {scope}":
            challenge = f'Bearer realm="{self.server.url}/token",service="double",scope="{scope}"'
            self.answer(401, b"{}", {"WWW-Authenticate": challenge})
            return
        manifest = self.server.manifests.get(f"{repository}:{tag}")
        if manifest is None:
            self.answer(404, b"{}")
            return
        assert "image.index" in self.headers["Accept"]
        digest = self.server.stated or f"sha256:{sha256(manifest).hexdigest()}"
        self.answer(200, manifest, {"Docker-Content-Digest": digest})

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def index(name: str) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": [{"of": name}]}).encode()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        server.manifests = {name: index(name) for name in OF_THE_PROJECT}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Copies of the files that name images."""
    return [
        Path(shutil.copy(ROOT / name, tmp_path)) for name in ("Dockerfile", "deploy/compose.yaml")
    ]


def pin(files: list[Path], docker_hub: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(ROOT / "deploy/pin_images.py")]
    return subprocess.run(
        [*script, "--docker-hub", docker_hub, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def texts(files: list[Path]) -> list[str]:
    return [file.read_text() for file in files]


def test_every_image_gets_its_digest_and_keeps_its_tag(
    registry: Registry, files: list[Path]
) -> None:
    before = texts(files)
    ran = pin(files, registry.url)
    assert (ran.returncode, ran.stderr) == (0, "")
    dockerfile, compose = after = texts(files)
    python = f"python:3.11-slim-bookworm@sha256:{_digest('library/python:3.11-slim-bookworm')}"
    assert dockerfile.count(f"FROM {python} AS ") == 2
    assert f"image: prom/prometheus:v3.5.0@sha256:{_digest('prom/prometheus:v3.5.0')}\n" in compose
    assert f"image: grafana/grafana:12.0.2@sha256:{_digest('grafana/grafana:12.0.2')}\n" in compose
    assert [re.sub("@sha256:[0-9a-f]{64}", "", text) for text in after] == before


def _digest(name: str) -> str:
    return sha256(index(name)).hexdigest()


def test_a_tag_that_moved_gets_its_new_digest(registry: Registry, files: list[Path]) -> None:
    pin(files, registry.url)
    moved = index("another build")
    registry.manifests["prom/prometheus:v3.5.0"] = moved
    assert pin(files, registry.url).returncode == 0
    compose = files[1].read_text()
    assert f"prom/prometheus:v3.5.0@sha256:{sha256(moved).hexdigest()}\n" in compose
    assert _digest("prom/prometheus:v3.5.0") not in compose


@pytest.mark.parametrize("fault", ["missing", "other digest", "a web page", "no registry"])
def test_without_every_digest_nothing_changes(
    registry: Registry, files: list[Path], fault: str
) -> None:
    before = texts(files)
    url = registry.url
    if fault == "missing":
        del registry.manifests["prom/prometheus:v3.5.0"]
    elif fault == "other digest":
        registry.stated = f"sha256:{'0' * 64}"
    elif fault == "a web page":
        registry.manifests["prom/prometheus:v3.5.0"] = b"<html>Sign in</html>"
    else:
        url = "http://127.0.0.1:1"
    ran = pin(files, url)
    assert ran.returncode == 1
    assert re.match(r"\S+:\S+: http://127\.0\.0\.1\S+ ", ran.stderr)
    assert ran.stderr.endswith("No file was changed.\n")
    assert texts(files) == before


def test_a_registry_in_the_name_is_the_one_asked(registry: Registry, tmp_path: Path) -> None:
    registry.manifests["team/base:1.2"] = index("team/base:1.2")
    dockerfile = tmp_path / "Dockerfile"
    host = registry.url.removeprefix("http://")
    dockerfile.write_text(f"FROM {host}/team/base:1.2 AS base\nFROM base AS cpu\nFROM scratch\n")
    assert pin([dockerfile], "http://127.0.0.1:1").returncode == 0
    digest = _digest("team/base:1.2")
    assert dockerfile.read_text() == (
        f"FROM {host}/team/base:1.2@sha256:{digest} AS base\nFROM base AS cpu\nFROM scratch\n"
    )
