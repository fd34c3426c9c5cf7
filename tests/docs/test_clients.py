"""Clients that people use, as they are, with a real service: what they ask for and what they keep.

LiteLLM, LangChain and instructor are in `.clients` (make clients), apart from the environment:
LiteLLM needs another version of `openai`. So each runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import CLIENTS
from tests.served import QUESTION, Served

pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif(not CLIENTS.is_dir(), reason="no .clients: `make clients` installs them"),
]

_BEFORE = """
import json, sys
from pydantic import BaseModel

url, question = sys.argv[1:]
model, messages = "embedded", [{"role": "user", "content": question}]

class Dial(BaseModel):
    value: int

def tell(**said):
    print(json.dumps(said))

"""


def told(served: Served, script: str, tmp_path: Path) -> dict[str, Any]:
    """What a script tells at its end."""
    file = tmp_path / "client.py"
    file.write_text(_BEFORE + script)
    environment = os.environ | {"PYTHONPATH": str(CLIENTS), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    ran = subprocess.run(
        [sys.executable, file, f"{served.url}/v1", QUESTION],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def require_guarantee(said: str, certificate: str) -> None:
    assert said.startswith("risk=selective; alpha=0.1; delta=0.1; certificate=")
    assert said.endswith(certificate)


def test_litellm_keeps_the_guarantee(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
import litellm
asked = dict(model=f"openai/{model}", api_base=url, api_key="none", messages=messages)
whole = litellm.completion(**asked, extra_body={"alpha": 0.1})
chunks = list(litellm.completion(**asked, stream=True))
tell(
    content=whole.choices[0].message.content,
    answer=whole.rlcm["answer"],
    header=whole._response_headers["x-rlcm-guarantee"],
    certificate=whole.system_fingerprint,
    streamed="".join(chunk.choices[0].delta.content or "" for chunk in chunks),
)
""",
        tmp_path,
    )
    require_guarantee(found["header"], found["certificate"])
    assert found["answer"] in found["content"]
    assert "\\boxed{" in found["streamed"]


def test_litellm_asks_for_responses(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
import litellm
asked = dict(model=f"openai/{model}", api_base=url, api_key="none", input=question)
whole = litellm.responses(**asked)
events = [event.type.value for event in litellm.responses(**asked, stream=True)]
tell(text=whole.output[-1].content[0].text, answer=whole.rlcm["answer"], last=events[-1])
""",
        tmp_path,
    )
    assert found["answer"] in found["text"]
    assert found["last"] == "response.completed"


def test_langchain_has_the_guarantee_in_its_metadata(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model=model, base_url=url, api_key="none", include_response_headers=True)
message = chat.invoke(question)
streamed = None
for chunk in chat.stream(question):
    streamed = chunk if streamed is None else streamed + chunk
tell(content=message.content, metadata=message.response_metadata,
     streamed=streamed.content, streamed_metadata=streamed.response_metadata)
""",
        tmp_path,
    )
    for name in ("metadata", "streamed_metadata"):
        header = found[name]["headers"]["x-rlcm-guarantee"]
        require_guarantee(header, found[name]["system_fingerprint"])
    assert "\\boxed{" in found["content"]
    assert "\\boxed{" in found["streamed"]


def test_langchain_has_it_of_a_response_too(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
from langchain_openai import ChatOpenAI
asked = dict(model=model, base_url=url, api_key="none", include_response_headers=True)
chat = ChatOpenAI(**asked, use_responses_api=True)
message, streamed = chat.invoke(question), None
for chunk in chat.stream(question):
    streamed = chunk if streamed is None else streamed + chunk
dial = chat.with_structured_output(Dial, method="json_schema").invoke(question)
tell(header=message.response_metadata["headers"]["x-rlcm-guarantee"],
     streamed_header=streamed.response_metadata["headers"]["x-rlcm-guarantee"],
     kinds=[block["type"] for block in message.content], value=dial.value)
""",
        tmp_path,
    )
    assert found["header"] == found["streamed_header"]
    require_guarantee(found["header"], found["header"].rpartition("=")[2])
    assert found["kinds"] == ["reasoning", "text"]
    assert isinstance(found["value"], int)


def test_langchain_gets_structured_output(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model=model, base_url=url, api_key="none")
got = {
    method: chat.with_structured_output(Dial, method=method, include_raw=True).invoke(question)
    for method in ("json_schema", "json_mode")
}
raw = got["json_mode"]["raw"].content
tell(value=got["json_schema"]["parsed"].value, object=json.loads(raw))
""",
        tmp_path,
    )
    assert isinstance(found["value"], int)
    assert isinstance(found["object"], dict)


def test_instructor_gets_its_model_in_json_mode(served: Served, tmp_path: Path) -> None:
    """The instructions that it adds are new to the model, which often finds no answer then."""
    found = told(
        served,
        """
import instructor, openai
client = instructor.from_openai(
    openai.OpenAI(base_url=url, api_key="none"), mode=instructor.Mode.JSON_SCHEMA
)
for seed in range(10):
    try:
        dial, completion = client.chat.completions.create_with_completion(
            model=model, messages=messages, response_model=Dial, seed=seed
        )
        break
    except instructor.core.IncompleteOutputException:
        pass
tell(value=dial.value, why=completion.rlcm["no_guarantee_reason"], openai=openai.__version__)
""",
        tmp_path,
    )
    assert isinstance(found["value"], int)
    assert "its response_format is not that of the profile 'default'" in found["why"]
    assert found["openai"].startswith("2."), "the version beside it is tested elsewhere"


def test_openai_parses_a_model(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
import openai
client = openai.OpenAI(base_url=url, api_key="none")
completion = client.chat.completions.parse(model=model, messages=messages, response_format=Dial)
message = completion.choices[0].message
tell(value=message.parsed.value, content=message.content)
""",
        tmp_path,
    )
    assert json.loads(found["content"]) == {"value": found["value"]}


def test_openai_parses_a_response_and_sends_it_back(served: Served, tmp_path: Path) -> None:
    found = told(
        served,
        """
import openai
client = openai.OpenAI(base_url=url, api_key="none")
first = client.responses.parse(model=model, input=question, text_format=Dial)
second = client.responses.create(model=model, input=[*messages, *first.output, *messages])
with client.responses.stream(model=model, input=question) as stream:
    final = stream.get_final_response()
tell(value=first.output_parsed.value, why=second.rlcm["no_guarantee_reason"],
     certificate=final.rlcm["guarantee"]["certificate"], openai=openai.__version__)
""",
        tmp_path,
    )
    assert isinstance(found["value"], int)
    assert "several turns" in found["why"]
    assert found["certificate"]
    assert found["openai"].startswith("2."), "the version beside it is tested elsewhere"
