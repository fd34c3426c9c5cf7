"""Markers: whole words, the longest phrase, every phrase of the paper."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcm_serve.evaluation.measuring.markers import (
    CATEGORY_OF,
    INDICATORS,
    PHRASES,
    Category,
    by_category,
    count,
    count_all,
)


def found(text: str) -> dict[str, int]:
    return {
        phrase: number
        for phrase, number in zip(INDICATORS, count(text).tolist(), strict=True)
        if number
    }


def by_hand(text: str) -> list[str]:
    """The phrases of a text, by trying each of them at every place: slow, and plainly right."""
    text = " ".join(text.lower().replace("’", "'").split())
    ranked = sorted(INDICATORS, key=len, reverse=True)
    place, phrases = 0, []
    while place < len(text):
        hit = next((p for p in ranked if _is_at(text, place, p.lower())), None)
        place += len(hit) if hit else 1
        phrases += [hit] if hit else []
    return phrases


def _is_at(text: str, place: int, phrase: str) -> bool:
    before, after = text[:place], text[place + len(phrase) :]
    return (
        text.startswith(phrase, place)
        and not re.search(r"\w$", before)
        and not re.match(r"\w", after)
    )


def test_the_list_is_the_papers() -> None:
    assert [len(PHRASES[category]) for category in Category] == [15, 25, 8]
    assert len(set(INDICATORS)) == 48
    assert CATEGORY_OF["I can't"] == "knowledge-gap"


@pytest.mark.parametrize("phrase", INDICATORS)
def test_each_phrase_is_found_as_itself(phrase: str) -> None:
    for written in (phrase, phrase.upper(), phrase.replace("'", "’"), phrase.replace(" ", "\n ")):
        assert found(f"So, {written}. Then") == {phrase: 1}
        assert phrase not in found(f"x{written} {written}y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm not sure", {"I'm not sure": 1}),
        ("We are not sure", {"not sure": 1}),
        ("It seems to work. He seems to", {"it seems": 1, "seems to": 1}),
        ("unlikely, likely", {"unlikely": 1, "likely": 1}),
        ("Wait, wait... WAIT!", {"wait": 3}),
        ("waiting, awaits, mighty", {}),
        ("Hmm—maybe", {"hmm": 1, "maybe": 1}),
        ("Let me think. I think", {"let me think": 1, "I think": 1}),
        ("I\u2019m unsure", {"I'm unsure": 1}),
        ("wait_time", {}),
        ("", {}),
    ],
)
def test_words_count_whole_and_once(text: str, expected: dict[str, int]) -> None:
    assert found(text) == expected


@given(
    st.lists(
        st.sampled_from([*INDICATORS, "it", "to", "like", "not", "I'm", ",", "x", "’", "_", "\n"])
    ),
    st.sampled_from([" ", "  ", "\n"]),
)
def test_counts_are_those_of_a_search_by_hand(words: list[str], between: str) -> None:
    text = between.join(words)
    counted = [phrase for phrase, number in found(text).items() for _ in range(number)]
    assert counted == sorted(by_hand(text), key=INDICATORS.index)


def test_many_texts_and_their_categories() -> None:
    texts = ["Wait. Perhaps not.", "nothing", "I can't. Actually, maybe, hmm"]
    count_TI = count_all(texts)
    assert count_TI.shape == (3, 48)
    assert (count_TI == np.stack([count(text) for text in texts])).all()
    assert by_category(count_TI).tolist() == [[1, 1, 0], [0, 0, 0], [2, 1, 1]]
    assert count_all([]).shape == (0, 48)
    assert by_category(count_all([])).shape == (0, 3)
