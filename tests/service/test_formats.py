"""Thinking formats over HTTP: `rlcm serve` with models that speak as three families do.

Each model knows a few completions by heart, and has a profile that lets it think as the guide on
models and profiles writes it for the family.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from rlcm_serve.engine.prompts import FORCED_ANSWER
from tests.rlcm_serve.engine.thinking.families import FAMILIES
from tests.rlcm_serve.engine.thinking.memorised import memorise
from tests.served import Served, serving

pytestmark = pytest.mark.slow

SYSTEM, QUESTION, INTERVAL = "You are a tutor.", "1 + 1?", 16
THOUGHT, OWN, AT_ONCE = "One and one makes 2, no more.", "It is \\boxed{2}.", "\\boxed{7}!"
FULL_BUDGET = {"on_infeasible": "full_budget"}


@dataclass(frozen=True)
class Speech:
    """The markup of one family.

    Attributes:
        variables: of the template, which let the model think.
        opening: what the model samples before its thinking.
        closing: what it samples between its thinking and its answer.
        forced: what the service writes between cut thinking and a forced answer.
        alone: what the model samples before an answer without the variables.
        end: ends a completion.
    """

    family: str
    variables: dict[str, str | bool]
    opening: str
    closing: str
    forced: str
    alone: str
    end: str

    def save(self, folder: Path) -> Path:
        """A model that knows its completions, with the profile `tutor`."""
        tokenizer = FAMILIES[self.family].tokenizer()
        tokenizer.eos_token = self.end
        system = {"role": "system", "content": SYSTEM}
        user = {"role": "user", "content": QUESTION}

        def prompt(*turns: dict[str, str], **variables: str | bool) -> str:
            text: str = tokenizer.apply_chat_template(
                list(turns), tokenize=False, add_generation_prompt=True, **variables
            )
            return text

        thinks = prompt(system, user, **self.variables)
        cut = tokenizer.decode(tokenizer.encode(self.opening + THOUGHT)[:INTERVAL])
        completions = [
            (thinks, self.opening + THOUGHT + self.closing + OWN + self.end),
            (thinks + cut + self.forced + FORCED_ANSWER, "3} by force." + self.end),
            (prompt(user), self.alone + AT_ONCE + self.end),
        ]
        memorise(folder, tokenizer, completions)
        profiles = folder / "profiles"
        profiles.mkdir()
        variables = "\n".join(f"{name} = {json.dumps(v)}" for name, v in self.variables.items())
        text = f'system = "{SYSTEM}"\n[variables]\n{variables}\n'
        (profiles / "tutor.toml").write_text(text)
        return folder


FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
SPEECHES = [
    Speech(
        family="gpt-oss",
        variables={"reasoning_effort": "high"},
        opening="<|channel|>analysis<|message|>",
        closing=FINAL,
        forced=FINAL,
        alone="<|channel|>final<|message|>",
        end="<|return|>",
    ),
    Speech(
        family="qwen3",
        variables={"enable_thinking": True},
        opening="<think>",
        closing="</think>",
        forced="\n</think>\n",
        alone="<think></think>",
        end="<|im_end|>",
    ),
    Speech(
        family="deepseek-v3.1",
        variables={"thinking": True},
        opening="",
        closing="</think>",
        forced="\n</think>\n",
        alone="",
        end="<｜end▁of▁sentence｜>",
    ),
]


@dataclass(frozen=True)
class Spoken:
    """A service, an OpenAI client for it, and what its model speaks."""

    served: Served
    client: openai.OpenAI
    speech: Speech

    def chat(self, model: str = "DIR:tutor", **settings: Any) -> Any:
        messages: Any = [{"role": "user", "content": QUESTION}]
        extra = FULL_BUDGET | settings.pop("extra_body", {})
        return self.client.chat.completions.create(
            model=model, messages=messages, extra_body=extra, **settings
        )


@pytest.fixture(scope="module", params=SPEECHES, ids=lambda speech: speech.family)
def spoken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Spoken]:
    speech: Speech = request.param
    here = tmp_path_factory.mktemp(speech.family)
    speech.save(here / "DIR")
    budgets = ("--interval", str(INTERVAL), "--max-tokens", "160", "--answer-max-tokens", "24")
    confidence = ("--confidence", "sequence-probability")
    with serving(here, "--model", "DIR", *confidence, *budgets) as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
        yield Spoken(served, client, speech)


def test_a_chat_has_thinking_and_answer_apart_and_no_markup(spoken: Spoken) -> None:
    completion = spoken.chat()
    message = completion.choices[0].message
    assert (message.reasoning, message.content) == (THOUGHT, OWN)
    assert completion.choices[0].finish_reason == "stop"
    assert (completion.rlcm["answer"], completion.rlcm["exit"]) == ("2", "natural")
    assert completion.rlcm["profile"] == "tutor"


def test_a_stream_adds_up_to_the_same(spoken: Spoken) -> None:
    deltas = [chunk.choices[0].delta for chunk in spoken.chat(stream=True)]
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in deltas) == THOUGHT
    assert "".join(delta.content or "" for delta in deltas) == OWN


def test_so_do_a_response_and_its_stream(spoken: Spoken) -> None:
    asked: dict[str, Any] = {"model": "DIR", "instructions": SYSTEM, "input": QUESTION}
    response = spoken.client.responses.create(**asked, extra_body=FULL_BUDGET)
    with spoken.client.responses.stream(**asked, extra_body=FULL_BUDGET) as stream:
        streamed = stream.get_final_response()
    for one in (response, streamed):
        thinking = one.output[0]
        assert thinking.type == "reasoning"
        assert thinking.content is not None
        assert (thinking.content[0].text, one.output_text) == (THOUGHT, OWN)


def test_the_events_of_solve_mark_the_answer(spoken: Spoken) -> None:
    asked = {"problem": QUESTION, "alpha": 0.1, "profile": "tutor"} | FULL_BUDGET
    body = asked | {"stream": True, "stream_tokens": True}
    with spoken.served.client.stream("POST", "/solve", json=body) as sent:
        lines = [line.removeprefix("data: ") for line in sent.iter_lines() if "data: " in line]
    tokens = [event for line in lines if "is_answer" in (event := json.loads(line))]
    for is_answer, text in ((False, THOUGHT), (True, OWN)):
        assert "".join(one["text"] for one in tokens if one["is_answer"] is is_answer) == text


def test_after_the_budget_the_answer_is_forced_where_answers_are(spoken: Spoken) -> None:
    completion = spoken.chat(max_completion_tokens=INTERVAL)
    assert completion.choices[0].message.content == "\\boxed{3}", "known only behind the markup"
    assert THOUGHT.startswith(completion.choices[0].message.reasoning)
    assert (completion.rlcm["exit"], completion.rlcm["forced"]) == ("budget", True)


def test_without_the_profile_the_answer_comes_at_once(spoken: Spoken) -> None:
    completion = spoken.chat(model="DIR")
    assert completion.choices[0].message.content == AT_ONCE
    assert completion.rlcm["answer"] == "7"
