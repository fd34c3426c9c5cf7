import pytest

from rlcm_serve.errors import RequestRefused
from studies.paper.report.page import replace_blocks, skeleton

PAGE = """# Title

Prose.
<!-- begin one -->
old
<!-- end one -->
More, with <!-- begin nothing --> in a line.

<!-- begin two -->
<!-- end two -->
Last."""


def test_blocks_are_replaced_and_nothing_else() -> None:
    found = replace_blocks(PAGE, {"two": "second\n\nlines", "one": r"\1 new"})
    assert found == PAGE.replace("old", r"\1 new").replace(
        "<!-- begin two -->\n", "<!-- begin two -->\nsecond\n\nlines\n"
    )


def test_replacing_twice_is_replacing_once() -> None:
    texts = {"one": "1", "two": "2"}
    once = replace_blocks(PAGE, texts)
    assert replace_blocks(once, texts) == once


def test_a_skeleton_has_every_block() -> None:
    page = skeleton({"one": "The first", "two": "The second"}, "A study")
    assert page.startswith("# A study\n")
    assert "## The first\n\n<!-- begin one -->" in page
    assert "\ntext\n" in replace_blocks(page, {"one": "text", "two": ""})


@pytest.mark.parametrize(
    ("page", "texts", "message"),
    [
        (PAGE, {"one": ""}, "the page has a block 'two', and there are only one"),
        (PAGE, {"one": "", "two": "", "six": ""}, "has no block 'six': add <!-- begin six -->"),
        ("", {"one": ""}, "has no block 'one'"),
        (PAGE + "\n<!-- begin one -->\n", {"one": "", "two": ""}, "has the block 'one' twice"),
        ("<!-- begin one -->\n", {"one": ""}, "ends inside the block 'one'"),
        (
            "<!-- begin one -->\n<!-- begin two -->\n<!-- end two -->\n<!-- end one -->",
            {"one": "", "two": ""},
            "has <!-- begin two --> where another block begins or ends",
        ),
        (
            "<!-- end one -->\n<!-- begin one -->\n<!-- end one -->",
            {"one": ""},
            "has <!-- end one --> where another block",
        ),
        (
            "<!-- begin one -->\n<!-- end one -->\n<!-- end two -->",
            {"one": ""},
            "has <!-- end two --> where another block",
        ),
    ],
)
def test_a_page_with_other_blocks_is_refused_by_their_name(
    page: str, texts: dict[str, str], message: str
) -> None:
    with pytest.raises(RequestRefused) as refused:
        replace_blocks(page, texts)
    assert message in str(refused.value)
