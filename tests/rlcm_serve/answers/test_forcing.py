"""One rule for the answer of a rollout, under every profile."""

from dataclasses import replace

import pytest

from calibration import ExitReason
from rlcm_serve.answers.extraction import extractor_named
from rlcm_serve.answers.forcing import ExtractedAnswers, answer_rollout
from rlcm_serve.core import GenerationSettings, Reading, Rollout
from rlcm_serve.profiles.profile import Profile
from tests.rlcm_serve.scripted_engine import FORCED_TOKENS, SUFFIX_TOKENS, Script, ScriptedEngine

BOXED = Profile(name="boxed")
LINE = Profile(name="line", extractor="answer-line")
NUMBER = Profile(name="number", extractor=r"regex:Result (\d+)")
FIELD = Profile(name="field", extractor="json:value")
TEXT = Profile(name="text", extractor="text")
OWN_TOKENS = 9


async def answered(
    profile: Profile,
    own: str | None,
    continued: str = "",
    *,
    complete: bool = True,
    own_complete: bool = True,
) -> ExtractedAnswers:
    opening = extractor_named(profile.extractor).opening
    script = Script(continued={opening: continued}, complete=complete)
    engine = ScriptedEngine(script, profiles=[profile]).under(profile.name)
    end = Reading(4, 0.9, is_final=True)
    rollout = Rollout((0,) * 4, "hm", ExitReason.NATURAL, (end,), own, OWN_TOKENS if own else 0)
    rollout = replace(rollout, answer_complete=own_complete)
    how = GenerationSettings(engine.identity.budget, engine.identity.sampling)
    return await answer_rollout(engine, (1, 2), rollout, how)


@pytest.mark.parametrize(
    ("profile", "own", "answer"),
    [
        (LINE, "3 + 5 = 8.\nAnswer: 8", "8"),
        (NUMBER, "Result 7, no: Result 8", "8"),
        (FIELD, '```json\n{"value": 8}\n```', "8"),
        (TEXT, "Eight.", "Eight."),
    ],
)
async def test_a_text_with_an_answer_is_kept_whole(profile: Profile, own: str, answer: str) -> None:
    found = await answered(profile, f"\n\n{own}\n")
    assert found == ExtractedAnswers((answer,), own, OWN_TOKENS, 0)


@pytest.mark.parametrize(
    ("profile", "continued", "answer", "text"),
    [
        (LINE, " 8\nSo it is", "8", "Answer: 8"),
        (NUMBER, "Result 8.", "8", "Result 8."),
        (FIELD, '8, "why": "3', "8", '{"value": 8}'),
    ],
)
async def test_without_one_the_answer_is_forced_after_the_models_own_text(
    profile: Profile, continued: str, answer: str, text: str
) -> None:
    forced = ExtractedAnswers((answer,), text, FORCED_TOKENS, SUFFIX_TOKENS, forced=True)
    assert await answered(profile, None, continued) == forced
    found = await answered(profile, "Hm.", continued)
    assert found == forced._replace(text=f"Hm.\n\n{text}", tokens=OWN_TOKENS + FORCED_TOKENS)


@pytest.mark.parametrize(
    ("profile", "continued"),
    [(LINE, " 8"), (NUMBER, "Result 8"), (FIELD, "8"), (TEXT, "Eight")],
)
async def test_an_answer_that_was_cut_off_is_none(profile: Profile, continued: str) -> None:
    found = await answered(profile, None, continued, complete=False)
    assert (found.answers, found.text, found.is_cut) == ((None,), None, True)
    whole = await answered(profile, None, continued)
    assert (whole.answers[0] is None, whole.is_cut) == (False, False)


@pytest.mark.parametrize(
    ("profile", "own", "continued"),
    [
        (LINE, "3 + 5 = 1250.\nAnswer: 12", " 1250\n"),
        (NUMBER, "Result 12", "Result 1250."),
        (FIELD, '{"steps": {"value": 12}, "value": 12', '1250, "why": "3"'),
        (TEXT, "Twelve hundred and", "1250"),
    ],
)
async def test_an_answer_of_the_models_own_that_was_cut_off_is_forced(
    profile: Profile, own: str, continued: str
) -> None:
    found = await answered(profile, own, continued, own_complete=False)
    assert (found.answers, found.suffix_tokens) == (("1250",), SUFFIX_TOKENS)
    assert found.tokens == OWN_TOKENS + FORCED_TOKENS
    assert found.text is not None
    assert found.text.startswith(f"{own}\n\n")


@pytest.mark.parametrize(
    ("profile", "own", "answer"),
    [
        (BOXED, r"It is \boxed{12}. So 5", "12"),
        (LINE, "Answer: 12\nSo", "12"),
        (LINE, "Answer: 12\n", "12"),
        (NUMBER, "Result 12.", "12"),
        (NUMBER, "Result 12\n", "12"),
        (FIELD, '{"value": 12} is', "12"),
    ],
)
async def test_an_answer_that_ends_before_the_text_is_cut_off_counts(
    profile: Profile, own: str, answer: str
) -> None:
    found = await answered(profile, own, own_complete=False)
    assert found == ExtractedAnswers((answer,), own.strip(), OWN_TOKENS, 0)
