"""Writes the digest behind each image's tag: `NAME:TAG` becomes `NAME:TAG@sha256:...`.

`make pin-images` runs it on the Dockerfile and on the YAML files of this folder. Each registry is
asked for the manifest, and the digest is computed from what it sends. Run it again to follow a tag
that has moved. If one registry does not answer, no file changes and the exit status is 1.

It needs no package. It cannot log in: images that need a password keep their tag.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

ROOT = Path(__file__).parent.parent
OWN = "rlcm-serve"  # built here, so no registry has it
DOCKER_HUB = "https://registry-1.docker.io"
TIMEOUT = 15.0  # seconds for each answer

IMAGE = re.compile(
    r"^(?P<before>FROM |\s*(?:- )?(?:image|container): )"
    r"(?P<name>(?:[\w.-]+:\d+/)?[a-z0-9./_-]+):(?P<tag>[\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)",
    re.MULTILINE,
)
KINDS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
"""Indexes first: their digest stands for the image on every architecture."""


class RegistryError(Exception):
    """A registry gave no manifest of this image, or one that it contradicts."""


def images(text: str) -> set[tuple[str, str]]:
    """Name and tag of every image that a Dockerfile or a YAML file takes from a registry."""
    found = {(image["name"], image["tag"]) for image in IMAGE.finditer(text)}
    return {(name, tag) for name, tag in found if name != OWN}


def pinned(text: str, digests: Mapping[tuple[str, str], str]) -> str:
    """The text with the digest after each tag; a digest that stood there is replaced."""

    def pin(image: re.Match[str]) -> str:
        digest = digests.get((image["name"], image["tag"]))
        return f"{image['before']}{image['name']}:{image['tag']}@{digest}" if digest else image[0]

    return IMAGE.sub(pin, text)


def place(name: str, docker_hub: str) -> tuple[str, str]:
    """The registry's URL and the repository in it, by Docker's rules for names."""
    host, _, rest = name.partition("/")
    if rest and ("." in host or ":" in host or host == "localhost"):
        is_local = host.split(":")[0] in ("localhost", "127.0.0.1")
        return f"{'http' if is_local else 'https'}://{host}", rest
    return docker_hub, name if rest else f"library/{name}"


def digest_of(name: str, tag: str, docker_hub: str = DOCKER_HUB) -> str:
    """The digest (`sha256:...`) of what the registry sends for this tag.

    Raises:
        RegistryError: there is no answer, no such image, or the answer contradicts itself.
    """
    registry, repository = place(name, docker_hub)
    url = f"{registry}/v2/{repository}/manifests/{tag}"
    try:
        try:
            body, stated = _get(url, {"Accept": KINDS})
        except HTTPError as refusal:
            if refusal.code != 401:
                raise
            token = _token(refusal.headers.get("WWW-Authenticate", ""))
            body, stated = _get(url, {"Accept": KINDS, "Authorization": f"Bearer {token}"})
        manifest = json.loads(body)
    except (URLError, OSError, ValueError) as error:
        raise RegistryError(f"{name}:{tag}: {url} gave no manifest ({error})") from error
    if not isinstance(manifest, dict) or not {"manifests", "layers"} & manifest.keys():
        raise RegistryError(f"{name}:{tag}: {url} did not send the manifest of an image")
    digest = f"sha256:{sha256(body).hexdigest()}"
    if stated not in (None, digest):
        raise RegistryError(f"{name}:{tag}: {url} states {stated}, but sent {digest}")
    return digest


def _get(url: str, headers: Mapping[str, str]) -> tuple[bytes, str | None]:
    with urlopen(Request(url, headers=dict(headers)), timeout=TIMEOUT) as answer:
        return answer.read(), answer.headers.get("Docker-Content-Digest")


def _token(challenge: str) -> str:
    """The token for reading that a registry's challenge (`Bearer realm="...",...`) points to."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not challenge.startswith("Bearer ") or "realm" not in asked:
        raise ValueError("it wants a password")
    answer = json.loads(_get(f"{asked.pop('realm')}?{urlencode(asked)}", {})[0])
    return str(answer.get("token") or answer.get("access_token"))


def main() -> int:
    """Pins the images of all files, or of none."""
    parser = argparse.ArgumentParser(description="Write the digest behind each image's tag.")
    default = [ROOT / "Dockerfile", *sorted((ROOT / "deploy").rglob("*.y*ml"))]
    parser.add_argument("files", nargs="*", type=Path, default=default)
    parser.add_argument("--docker-hub", default=DOCKER_HUB, help="URL of Docker Hub or a mirror")
    options = parser.parse_args()
    texts = {path: path.read_text(encoding="utf-8") for path in options.files}
    wanted = sorted(set[tuple[str, str]]().union(*map(images, texts.values())))
    try:
        digests = {image: digest_of(*image, options.docker_hub) for image in wanted}
    except RegistryError as error:
        print(f"{error}. No file was changed.", file=sys.stderr)
        return 1
    for (name, tag), digest in digests.items():
        print(f"{name}:{tag}@{digest}")
    for path, text in texts.items():
        path.write_text(pinned(text, digests), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
