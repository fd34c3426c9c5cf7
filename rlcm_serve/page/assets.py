"""The files of the page, with media type and digest, compressed once."""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from rlcm_serve.errors import NotFound

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
_TEXT = "; charset=utf-8"
MEDIA_TYPES = {
    ".html": f"text/html{_TEXT}",
    ".css": f"text/css{_TEXT}",
    ".js": f"text/javascript{_TEXT}",
    ".mjs": f"text/javascript{_TEXT}",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": f"text/plain{_TEXT}",
    ".md": f"text/plain{_TEXT}",
    "": f"text/plain{_TEXT}",  # licences
}
"""Media types by suffix; files with other suffixes are not served."""
_PACKED = frozenset({".png", ".ico", ".woff2"})
"""Suffixes of formats that are already compressed."""
_SEGMENT = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]*")


@dataclass(frozen=True, slots=True)
class Asset:
    """One file.

    Attributes:
        media_type: of its content.
        content: bytes of the file.
        gzipped: the content compressed with gzip; None if that saves nothing.
        digest: of the content.
    """

    media_type: str
    content: bytes
    gzipped: bytes | None
    digest: str


class Assets:
    """The files of a folder, by their path in it. Safe to use from any thread.

    A changed file is read again, so that the page can be edited while it is served.
    """

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int], Asset]] = {}

    def get(self, path: str) -> Asset:
        """The file at a path such as `css/base.css`.

        Raises:
            NotFound: the file does not exist or is not served.
        """
        try:
            file = self._find(path)
            stat = file.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            with self._lock:
                if path not in self._known or self._known[path][0] != version:
                    self._known[path] = (version, _prepared(file))
                return self._known[path][1]
        except OSError as error:
            raise _missing(path) from error

    def _find(self, path: str) -> Path:
        """Raises `NotFound` unless plain names lead to a file inside the folder, also by links."""
        segments = path.split("/")
        file = self._folder.joinpath(*segments) if all(map(_is_plain, segments)) else None
        if file is None or file.suffix.lower() not in MEDIA_TYPES or not file.is_file():
            raise _missing(path)
        if not file.resolve().is_relative_to(self._folder.resolve()):
            raise _missing(path)
        return file


def _is_plain(segment: str) -> bool:
    return _SEGMENT.fullmatch(segment) is not None


def _missing(path: str) -> NotFound:
    return NotFound(f"the page has no file {path[:80]!r}")


def _prepared(file: Path) -> Asset:
    return asset_of(file.read_bytes(), file.suffix.lower())


def asset_of(content: bytes, suffix: str) -> Asset:
    """Content that is served like a file with this suffix, one of `MEDIA_TYPES`."""
    gzipped = None if suffix in _PACKED else gzip.compress(content, mtime=0)
    return Asset(
        media_type=MEDIA_TYPES[suffix],
        content=content,
        gzipped=gzipped if gzipped is not None and len(gzipped) < len(content) else None,
        digest=hashlib.sha256(content).hexdigest()[:24],
    )
