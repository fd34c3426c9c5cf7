"""gpt-oss and Qwen3 through the real engine: exits, forced answers, own answers, streamed text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from calibration import ExitPolicy, ExitReason
from rlcm_serve.core import Signal
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.prompts import FORCED_ANSWER
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.profiles.profile import Profile
from tests.rlcm_serve.engine.asking import forced_answers, generation, think, user
from tests.rlcm_serve.engine.thinking.families import FAMILIES
from tests.rlcm_serve.engine.thinking.memorised import memorise

pytestmark = pytest.mark.engine

INTERVAL = 16
ASKED, AT_ONCE = "1 + 1?", "Say 7."
THOUGHT, OWN, OWN_AT_ONCE = "One and one makes 2, no more.", "It is \\boxed{2}.", "\\boxed{7}!"
VARIED = "\\boxed{4}?"
AFTER_FORCING = "3} by force."
EXIT_AT_ONCE = ExitPolicy(lambda_high=0.0)


@dataclass(frozen=True)
class Spoken:
    """The markup of one family: what opens thinking, leads to the answer, and ends it."""

    family: str
    format: str
    opening: str
    closing: str
    at_once: str
    end: str
    forced: str
    forced_from_nothing: str
    variables: dict[str, str | bool]
    varied: str
    """What the model samples under these variables of its template, and its own answer in it."""

    def completions(self, tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, str]]:
        """What the model must know, with its own and with forced answers."""

        def prompt(question: str, **variables: str | bool) -> str:
            turns = [{"role": "user", "content": question}]
            text: str = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **variables
            )
            return text

        thinking = tokenizer.encode(self.opening + THOUGHT)
        cut = tokenizer.decode(thinking[:INTERVAL])
        return [
            (prompt(ASKED), self.opening + THOUGHT + self.closing + OWN + self.end),
            (prompt(AT_ONCE), self.at_once + OWN_AT_ONCE + self.end),
            (prompt(ASKED) + cut + self.forced + FORCED_ANSWER, AFTER_FORCING + self.end),
            (prompt(ASKED, **self.variables), self.varied + VARIED + self.end),
            (prompt(ASKED) + self.forced_from_nothing + FORCED_ANSWER, AFTER_FORCING + self.end),
        ]


GPT_OSS = Spoken(
    family="gpt-oss",
    format="openai_gptoss",
    opening="<|channel|>analysis<|message|>",
    closing="<|end|><|start|>assistant<|channel|>final<|message|>",
    at_once="<|channel|>final<|message|>",
    end="<|return|>",
    forced="<|end|><|start|>assistant<|channel|>final<|message|>",
    forced_from_nothing="<|channel|>final<|message|>",
    variables={"reasoning_effort": "high"},
    varied=(
        "<|channel|>analysis<|message|>Twice.<|end|><|start|>assistant<|channel|>final<|message|>"
    ),
)
QWEN3 = Spoken(
    family="qwen3",
    format="deepseek_r1",
    opening="<think>",
    closing="</think>",
    at_once="",
    end="<|im_end|>",
    forced="\n</think>\n",
    forced_from_nothing="<think>\n\n</think>\n",
    variables={"enable_thinking": False},
    varied="",
)


@dataclass(frozen=True)
class Serving:
    """A running engine and the markup that its model speaks."""

    engine: VllmEngine
    spoken: Spoken


@pytest.fixture(scope="module", params=[GPT_OSS, QWEN3], ids=lambda spoken: spoken.family)
async def serving(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Serving]:
    spoken: Spoken = request.param
    # The last special token of gpt-oss's family is the one of a tool call.
    tokenizer = FAMILIES[spoken.family].tokenizer()
    tokenizer.eos_token = spoken.end
    folder: Path = tmp_path_factory.mktemp(spoken.family)
    memorise(folder, tokenizer, spoken.completions(tokenizer))
    engine = VllmEngine(
        EngineSettings(
            model=str(folder),
            interval=INTERVAL,
            max_tokens=160,
            answer_max_tokens=24,
            profiles=(Profile("varied", variables=spoken.variables),),
            confidence=Signal.SEQUENCE_PROBABILITY.value,
        )
    )
    await engine.start()
    yield Serving(engine, spoken)
    engine.stop()


async def test_a_sample_that_ends_by_itself_has_text_without_markup(serving: Serving) -> None:
    told = await think(serving.engine, ASKED, text=True)
    rollout = told.rollout
    assert rollout.exit is ExitReason.NATURAL
    assert rollout.text == THOUGHT
    assert rollout.answer_text == OWN
    thought = "".join(delta.text for delta in told.deltas if not delta.is_answer)
    answer = "".join(delta.text for delta in told.deltas if delta.is_answer)
    assert (thought, answer) == (THOUGHT, OWN)

    tokenizer = FAMILIES[serving.spoken.family].tokenizer()
    length = len(tokenizer.encode(serving.spoken.opening + THOUGHT))
    assert len(rollout.tokens) == length, "its tokens have the markup that was sampled"
    assert [reading.tokens for reading in told.checkpoints] == [
        *range(INTERVAL, length, INTERVAL),
        length,
    ], "nothing is read in the answer"
    assert told.checkpoints[-1].is_final


async def test_after_an_exit_the_answer_is_forced_where_answers_are(serving: Serving) -> None:
    engine = serving.engine
    told = await think(engine, ASKED, EXIT_AT_ONCE)
    assert told.rollout.exit is ExitReason.HIGH
    assert len(told.rollout.tokens) == INTERVAL
    assert told.rollout.answer_text is None
    prompt = engine.prompt(user(ASKED))
    (forced,) = await forced_answers(engine, prompt, told.rollout.tokens, generation(engine))
    assert forced.text == AFTER_FORCING, "the model knows this only behind its own markup"
    assert engine.identity.forced_suffix == serving.spoken.forced + FORCED_ANSWER


async def test_an_answer_is_forced_before_the_first_token(serving: Serving) -> None:
    engine = serving.engine
    (forced,) = await forced_answers(engine, engine.prompt(user(ASKED)), (), generation(engine))
    assert forced.text == AFTER_FORCING


async def test_an_answer_without_thinking_is_not_lost(serving: Serving) -> None:
    told = await think(serving.engine, AT_ONCE, text=True)
    assert told.rollout.exit is ExitReason.NATURAL
    assert told.rollout.answer_text == OWN_AT_ONCE
    assert told.text == OWN_AT_ONCE
    assert told.checkpoints[-1].is_final


async def test_a_profile_with_other_variables_has_its_own_format(serving: Serving) -> None:
    reasoner = serving.engine.under("varied")
    told = await think(reasoner, ASKED, text=True)
    assert told.rollout.exit is ExitReason.NATURAL
    assert told.rollout.answer_text == VARIED
    forced = serving.spoken.forced if serving.spoken.varied else "\n"
    assert reasoner.identity.forced_suffix == forced + FORCED_ANSWER
    assert told.rollout.text == ("Twice." if serving.spoken.varied else VARIED)


async def test_the_entropy_is_that_of_the_answers_first_token(serving: Serving) -> None:
    engine = serving.engine
    entropy = await engine.entropy_after(engine.prompt(user(ASKED)), (), generation(engine))
    assert entropy is not None
    assert entropy >= 0
