"""Equality and classes of canonical forms."""

import random
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.answers.canonical.form import Form, equal, group
from rlcm_serve.answers.canonical.reading import canonical
from tests.rlcm_serve.answers.canonical.pairs import read_pairs

ANSWERS = sorted({text for pair in read_pairs() for text in (pair.answer, pair.other)})
FORMS = [form for form in map(canonical, ANSWERS) if form is not None]
VALUES = ["5", "5.0", "100", "1", r"\frac12", "x+1", "(1,2)", "1,2"]
FRAMES = [
    "{}",
    "x={}",
    "y={}",
    "{} cm",
    "{} m",
    "{} apples",
    r"\${}",
    "z = {} m",
    r"{}^\circ",
    "{} cents",
]
framed = st.builds(
    lambda frame, value: frame.format(value), st.sampled_from(FRAMES), st.sampled_from(VALUES)
)
related = st.sampled_from(["y=2x+3", "2x-y+3=0", "2x+3", "4x-2y=-6", "f(x)=2x+3", "x=5", "2x=10"])
forms = st.lists(framed | related | st.sampled_from(ANSWERS), max_size=30).map(
    lambda texts: [form for form in map(canonical, texts) if form is not None]
)


def partition(classes: list[int], members: list[Form]) -> set[frozenset[str]]:
    return {
        frozenset(form.key for form, number in zip(members, classes, strict=True) if number == at)
        for at in classes
    }


@settings(max_examples=300)
@given(forms)
def test_equality_is_symmetric_and_each_form_equals_itself(members: list[Form]) -> None:
    for one in members:
        assert equal(one, one)
        for other in members:
            assert equal(one, other) == equal(other, one)
            if one.key == other.key:
                assert equal(one, other)
            elif one.is_rigid and other.is_rigid:
                assert not equal(one, other)


@settings(max_examples=300)
@given(forms, st.randoms(use_true_random=False))
def test_classes_do_not_depend_on_the_order(members: list[Form], chance: random.Random) -> None:
    expected = partition(group(members), members)
    shuffled = members[:]
    chance.shuffle(shuffled)
    assert partition(group(shuffled), shuffled) == expected


@settings(max_examples=300)
@given(forms)
def test_all_members_of_a_class_are_equal(members: list[Form]) -> None:
    classes = group(members)
    for one, at in zip(members, classes, strict=True):
        for other, there in zip(members, classes, strict=True):
            assert equal(one, other) or at != there
            assert at == there or one.key != other.key


@settings(max_examples=300)
@given(forms)
def test_forms_that_equal_none_of_the_others_change_no_class(members: list[Form]) -> None:
    linked: list[list[Form]] = []
    for form in members:
        near = [each for each in linked if any(equal(form, other) for other in each)]
        linked = [each for each in linked if each not in near] + [[form, *chain(*near)]]
    apart = set().union(*(partition(group(each), each) for each in linked))
    assert partition(group(members), members) == apart


def test_the_classes_of_all_development_answers_have_equal_members_only() -> None:
    by_class: dict[int, list[Form]] = {}
    for form, number in zip(FORMS, group(FORMS), strict=True):
        by_class.setdefault(number, []).append(form)
    assert len(by_class) > 200
    for members in by_class.values():
        assert all(equal(one, other) for one in members for other in members)


def test_ten_thousand_units_are_grouped_in_a_second() -> None:
    members = [Form("5", unit=f"things{at}", quantity=f"5 things{at}") for at in range(10_000)]
    assert len({*group([*members, Form("5")])}) == 10_001
