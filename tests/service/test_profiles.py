"""A prompt profile from its file to a guarantee: collect, fit, serve, ask, as users do it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

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


def rlcm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RLCM, *words], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a profile, its traces and its certificate."""
    here = tmp_path_factory.mktemp("profile")
    (here / "dials.toml").write_text(PROFILE)
    problems = [
        {"id": f"p{number}", "problem": one.question, "answer": one.answer}
        for number, one in enumerate(sample_problems(Split.VALIDATION, 24, seed=3, levels=(1,)))
    ]
    (here / "problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in problems))
    data = ("--data", "problems.jsonl", "--out", "traces.parquet", "--engine-log", "collect.log")
    collected = rlcm(here, "collect", "--profile", "dials.toml", *data)
    assert collected.returncode == 0, collected.stderr
    # At such a risk a few problems suffice, however the model reads a system prompt.
    levels = ("--risk", "error", "--alpha", "0.98", "--delta", "0.5")
    certificate = ("traces.parquet", "--out", "dials.json", "--profile", "dials.toml")
    fitted = rlcm(here, "fit", *certificate, *levels)
    assert fitted.returncode == 0, fitted.stdout + fitted.stderr
    return here


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    certificates = ("--certificate", "dials.json", "--certificate", str(SHIPPED))
    with serving(folder, "--profile", "dials.toml", *certificates) as running:
        yield running


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def asked(served: Served, **body: Any) -> dict[str, Any]:
    question = {} if "messages" in body else {"problem": QUESTION}
    settings = {"alpha": 0.99, "risk": "error"} | question | body
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
    certificate = Certificate.load(folder / "dials.json")
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
    assert "give one of default, dials" in response.json()["detail"]


def test_an_openai_client_chooses_the_profile_by_the_name_of_the_model(
    served: Served, folder: Path
) -> None:
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["embedded", "embedded:dials"]
    reply = client.chat.completions.create(
        model="embedded:dials",
        messages=[{"role": "user", "content": QUESTION}],
        extra_body={"alpha": 0.99, "risk": "error"},
    )
    certificate = Certificate.load(folder / "dials.json")
    assert reply.rlcm["guarantee"]["certificate"] == certificate.id  # type: ignore[attr-defined]
    with pytest.raises(openai.NotFoundError, match="use 'embedded', 'embedded:dials'"):
        client.models.retrieve("embedded:dails")


def test_a_certificate_says_which_profile_it_is_for(served: Served, folder: Path) -> None:
    kept = served.client.get("/certificates").json()["certificates"]
    ids = {
        Certificate.load(folder / "dials.json").id: ["dials"],
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
