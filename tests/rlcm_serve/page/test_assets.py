import gzip
import os
from pathlib import Path

import pytest

from rlcm_serve.errors import NotFound
from rlcm_serve.page import Assets
from rlcm_serve.page.assets import MEDIA_TYPES, STATIC


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A page, and a secret beside it."""
    page = tmp_path / "static"
    (page / "js").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html>" + "<p>words</p>" * 100)
    (page / "js" / "main.js").write_text("export const x = 1;\n" * 50)
    (page / "tiny.css").write_text("p{}")
    (page / "font.woff2").write_bytes(b"\0" * 500)
    (page / "LICENSE").write_text("MIT " * 100)
    (page / ".hidden").write_text("secret")
    (page / "main.py").write_text("secret")
    (tmp_path / "secret.js").write_text("secret")
    (page / "link.js").symlink_to(tmp_path / "secret.js")
    (page / "out").symlink_to(tmp_path)
    return page


def test_files_are_typed_digested_and_compressed(folder: Path) -> None:
    assets = Assets(folder)
    script = assets.get("js/main.js")
    assert script.media_type == "text/javascript; charset=utf-8"
    assert script.content == (folder / "js" / "main.js").read_bytes()
    assert script.gzipped is not None
    assert gzip.decompress(script.gzipped) == script.content
    assert len(script.gzipped) < len(script.content) / 5
    assert assets.get("LICENSE").media_type == "text/plain; charset=utf-8"
    assert assets.get("index.html").digest != script.digest
    assert assets.get("js/main.js") is script, "it is read once"


def test_what_does_not_get_smaller_is_sent_as_it_is(folder: Path) -> None:
    assert Assets(folder).get("tiny.css").gzipped is None
    assert Assets(folder).get("font.woff2").gzipped is None, "fonts are compressed already"


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/",
            "js",
            "js/",
            "/index.html",
            "none.js",
            "js/none.js",
            "index.html/",
            "./index.html",
        ),
        *("../secret.js", "js/../../secret.js", "js/../index.html", "..", "%2e%2e/secret.js"),
        *("..\\secret.js", "js//main.js", "index.html\0", "index.html\0.js", "~/x.js", "C:x.js"),
        *(".hidden", "main.py", "link.js", "out/secret.js", "a" * 5000 + ".js", "ä.js"),
    ],
    ids=lambda path: repr(path[:20]),
)
def test_nothing_else_is_served(folder: Path, path: str) -> None:
    with pytest.raises(NotFound, match="the page has no file"):
        Assets(folder).get(path)


def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    assets = Assets(folder)
    before = assets.get("tiny.css")
    (folder / "tiny.css").write_text("p{color:red}")
    after = assets.get("tiny.css")
    assert after.content == b"p{color:red}"
    assert after.digest != before.digest
    (folder / "tiny.css").unlink()
    with pytest.raises(NotFound):
        assets.get("tiny.css")


def test_a_page_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Assets(tmp_path / "none").get("index.html")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_none(folder: Path) -> None:
    (folder / "tiny.css").chmod(0)
    with pytest.raises(NotFound):
        Assets(folder).get("tiny.css")


def test_every_file_of_the_page_is_served_but_for_types() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file() and path.suffix != ".ts"]
    assert files
    for path in files:
        found = Assets().get(path.relative_to(STATIC).as_posix())
        assert found.media_type == MEDIA_TYPES[path.suffix.lower()]
