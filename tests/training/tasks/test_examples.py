"""`examples.json` of the page is what `python -m training.tasks.examples` writes."""

import re
from collections import Counter

from rlcm_serve.page.assets import STATIC
from training.tasks.examples import PER_LEVEL, page_examples, to_text
from training.tasks.problems import FAMILIES, LEVELS, Split, split_of


def test_the_file_is_what_the_command_writes() -> None:
    written = (STATIC / "examples.json").read_text(encoding="utf-8")
    assert written == to_text(page_examples())


def test_there_are_some_of_every_family_and_level_and_none_was_trained_on() -> None:
    families = page_examples()["families"]
    assert [family["name"] for family in families] == list(FAMILIES)
    questions = []
    for family in families:
        assert [level["level"] for level in family["levels"]] == list(LEVELS)
        for level in family["levels"]:
            assert len(level["questions"]) == PER_LEVEL
            for question in level["questions"]:
                assert (
                    len(re.findall(r"\b[A-Z](?= )", question[2:])) >= LEVELS[level["level"]].steps
                )
                questions.append(question)
    assert max(Counter(questions).values()) == 1
    assert {split_of(question) for question in questions} == {Split.TEST}
