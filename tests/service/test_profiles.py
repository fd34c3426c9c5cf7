"""A prompt profile from its file to a guarantee: collect, fit, serve, ask, as users do it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from calibration import Certificate
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from tests.served import QUESTION, RLCM, Served, serving
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.slow

SYSTEM = "You read dials."
SHIPPED = EMBEDDED_MODEL / CERTIFICATE_FOLDER / "selective-1.json"
PROFILE = f"""
system = "{SYSTEM}"
template = "Dials: {{problem}}"
max_tokens = 96
top_k = 40
"""
SCHEMA = {
    "type": "object",
    "properties": {"value": {"type": "integer", "minimum": 0, "maximum": 999}},
    "required": ["value"],
    "additionalProperties": False,
}
JSON_PROFILE = """
max_tokens = 96
answer_max_tokens = 16
extractor = "json:value"
schema = "value.json"
"""
LOOSE = {"alpha": 0.5, "risk": "regret"}


def rlcm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RLCM, *words], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two profiles, their traces and their certificates."""
    here = tmp_path_factory.mktemp("profile")
    (here / "dials.toml").write_text(PROFILE)
    (here / "json.toml").write_text(JSON_PROFILE)
    (here / "value.json").write_text(json.dumps(SCHEMA))
    problems = [
        {"id": f"p{number}", "problem": one.question, "answer": one.answer}
        for number, one in enumerate(sample_problems(Split.VALIDATION, 24, seed=3, levels=(1,)))
    ]
    (here / "problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in problems))
    certify(here, "dials", "traces.parquet")
    certify(here, "json", "json.parquet")
    return here


def certify(here: Path, profile: str, traces: str) -> None:
    asked = ("--profile", f"{profile}.toml")
    data = ("--data", "problems.jsonl", "--out", traces, "--engine-log", f"{profile}.log")
    collected = rlcm(here, "collect", *asked, *data)
    assert collected.returncode == 0, collected.stderr
    # The model was shown neither prompt nor JSON, so its answers may all be wrong; what early exits
    # cost is bounded all the same.
    levels = ("--risk", "regret", "--alpha", "0.5", "--delta", "0.5")
    fitted = rlcm(here, "fit", traces, "--out", f"{profile}-certificate.json", *asked, *levels)
    assert fitted.returncode == 0, fitted.stdout + fitted.stderr


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    files = ("dials-certificate.json", "json-certificate.json", str(SHIPPED))
    certificates = [word for file in files for word in ("--certificate", file)]
    profiles = ("--profile", "dials.toml", "--profile", "json.toml")
    with serving(folder, *profiles, *certificates) as running:
        yield running


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def asked(served: Served, **body: Any) -> dict[str, Any]:
    question = {} if "messages" in body else {"problem": QUESTION}
    settings = LOOSE | question | body
    reply: dict[str, Any] = served.client.post("/solve", json=settings).json()
    return reply


@pytest.mark.parametrize(
    "body",
    [
        {"profile": "dials"},
        {"messages": [system(SYSTEM), user(QUESTION)]},
        {"messages": [system(SYSTEM), user(f"Dials: {QUESTION}")]},
        {"messages": [user(f"Dials: {QUESTION}")], "profile": "dials"},
    ],
)
def test_a_question_under_the_profile_has_its_guarantee(
    served: Served, folder: Path, body: dict[str, Any]
) -> None:
    reply = asked(served, **body)
    certificate = Certificate.load(folder / "dials-certificate.json")
    assert reply["no_guarantee_reason"] is None
    assert reply["guarantee"]["certificate"] == certificate.id
    assert reply["profile"] == "dials"
    assert reply["usage"]["reasoning_tokens"] <= 96
    lengths = {
        asked(served, **other)["usage"]["prompt_tokens"] for other in (body, {"profile": "dials"})
    }
    assert len(lengths) == 1, "the model reads the same prompt"


def test_a_question_without_a_profile_has_the_guarantee_of_the_model(served: Served) -> None:
    reply = served.solve().json()
    assert reply["guarantee"]["certificate"] == Certificate.load(SHIPPED).id
    assert reply["profile"] == "default"


def test_another_system_prompt_has_no_guarantee_and_hears_what_to_do(served: Served) -> None:
    question = {"messages": [system("You are kind."), user(QUESTION)]}
    reply = served.client.post("/solve", json={"alpha": 0.1} | question).json()
    assert reply["guarantee"] is None
    assert "put it into a profile" in reply["no_guarantee_reason"]


def test_a_profile_that_is_not_served_is_refused_with_the_list(served: Served) -> None:
    response = served.solve(profile="dails")
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "profile"
    assert "give one of default, dials, json" in response.json()["detail"]


def test_an_openai_client_chooses_the_profile_by_the_name_of_the_model(
    served: Served, folder: Path
) -> None:
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
    names = ["embedded", "embedded:dials", "embedded:json"]
    assert [model.id for model in client.models.list()] == names
    reply = client.chat.completions.create(
        model="embedded:dials",
        messages=[{"role": "user", "content": QUESTION}],
        extra_body=LOOSE,
    )
    certificate = Certificate.load(folder / "dials-certificate.json")
    assert reply.rlcm["guarantee"]["certificate"] == certificate.id  # type: ignore[attr-defined]
    with pytest.raises(
        openai.NotFoundError, match="use 'embedded', 'embedded:dials', 'embedded:json'"
    ):
        client.models.retrieve("embedded:dails")


class Value(BaseModel):
    value: int


def test_answers_under_the_schema_of_a_profile_are_certified(served: Served, folder: Path) -> None:
    certificate = Certificate.load(folder / "json-certificate.json")
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
    asked_: dict[str, Any] = {"model": "embedded:json", "extra_body": LOOSE}
    messages: Any = [user(QUESTION)]
    chat = client.chat.completions.create(messages=messages, **asked_)
    parsed = client.chat.completions.parse(messages=messages, response_format=Value, **asked_)
    response = client.responses.parse(input=QUESTION, text_format=Value, **asked_)
    solved = asked(served, profile="json", **LOOSE)
    content = json.loads(chat.choices[0].message.content or "")
    assert list(content) == ["value"]
    assert 0 <= content["value"] <= 999
    for rlcm_, value in (
        (chat.rlcm, content["value"]),  # type: ignore[attr-defined]
        (solved, json.loads(solved["text"])["value"]),
    ):
        assert rlcm_["answer"] == str(value)
        assert rlcm_["guarantee"]["certificate"] == certificate.id
    # The model that pydantic makes of it is another schema than the profile's.
    for told, found in (
        (parsed.rlcm, parsed.choices[0].message.parsed),  # type: ignore[attr-defined]
        (response.rlcm, response.output_parsed),  # type: ignore[attr-defined]
    ):
        assert isinstance(found, Value)
        assert "which has another schema" in told["no_guarantee_reason"]


def test_a_certificate_says_which_profile_it_is_for(served: Served, folder: Path) -> None:
    kept = served.client.get("/certificates").json()["certificates"]
    ids = {
        Certificate.load(folder / "dials-certificate.json").id: ["dials"],
        Certificate.load(folder / "json-certificate.json").id: ["json"],
        Certificate.load(SHIPPED).id: ["default"],
    }
    assert {one["id"]: one["profiles"] for one in kept} == ids
    now = served.client.get("/overview").json()["certificates"]
    assert {one["id"]: one["profiles"] for one in now} == ids


def test_traces_of_one_profile_are_not_fitted_for_another(folder: Path) -> None:
    (folder / "other.toml").write_text(PROFILE.replace("dials", "meters"))
    certificate = ("traces.parquet", "--out", "other.json", "--profile", "other.toml")
    fitted = rlcm(folder, "fit", *certificate)
    assert fitted.returncode == 1
    assert "system_prompt: one here, another there" in fitted.stderr
    assert not (folder / "other.json").exists()


def test_a_variable_that_no_template_reads_is_refused_before_vllm_starts(folder: Path) -> None:
    (folder / "wrong.toml").write_text("variables = {enable_thinking = false}")
    data = ("--data", "problems.jsonl", "--out", "wrong.parquet", "--engine-log", "wrong.log")
    collected = rlcm(folder, "collect", "--profile", "wrong.toml", *data)
    assert collected.returncode == 1
    assert "never reads the variable 'enable_thinking'" in collected.stderr
    assert not (folder / "wrong.log").exists(), "vLLM was not started"
