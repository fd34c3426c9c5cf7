import pytest

from rlcm_serve.answers.extraction.boxed import BoxedExtractor, last_boxed


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{7}.", "7"),
        (r"\boxed{6}, no: \boxed{ 7 }", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {7}", "7"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{\boxed{7}}", "7"),
        (r"} { \boxed{7}", "7"),
        (r"\boxed{7} and then \boxed{8", "7"),
        (r"\boxed{7", None),
        (r"\boxed{}", None),
        (r"\boxed 7", None),
        ("It is 7.", None),
        ("", None),
    ],
)
def test_the_last_balanced_box_is_the_answer(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("7}", "7"),
        (" 7 }.", "7"),
        (r"\frac{1}{2}}$. So \boxed{8}", r"\frac{1}{2}"),
        (r"\{1\}}", r"\{1\}"),
        ("7", None),
        (r"\frac{1}{2}", None),
        ("}", None),
        ("  }", None),
        ("", None),
    ],
)
def test_a_forced_answer_ends_where_its_box_closes(text: str, answer: str | None) -> None:
    assert BoxedExtractor().close(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"<answer>\boxed{8}</answer><confidence>0.9</confidence>", "8"),
        ("<answer>5</answer> no, <answer> 8 </answer>", "8"),
        (r"<answer>5</answer> so \boxed{8}", "8"),
        ("<answer></answer>", None),
        ("<answer>8", None),
        ("It is 8.", None),
    ],
)
def test_what_a_model_wrote_by_itself_is_in_its_last_box_or_else_its_last_tag(
    text: str, answer: str | None
) -> None:
    assert BoxedExtractor().find(text) == answer
