"""`rlcm doctor` prints findings, and its exit status says whether the model can be served."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from tests.rlcm_serve.command_line import Rlcm

pytestmark = pytest.mark.engine

DOCTOR = "doctor --engine-log engine.log"
NGRAM = '{"method":"ngram","num_speculative_tokens":3}'


def topics(out: str) -> dict[str, dict[str, Any]]:
    return {one["topic"]: one for one in json.loads(out)["findings"]}


def test_a_self_test_of_the_embedded_model_passes_and_its_certificates_fit(tmp_path: Path) -> None:
    # In a process of its own, whose output vLLM's loggers do not share with pytest.
    rlcm = str(Path(sys.executable).parent / "rlcm")
    done = subprocess.run(
        [rlcm, *DOCTOR.split(), "--self-test", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    out = done.stdout
    found = json.loads(out)
    assert (done.returncode, found["can_be_served"]) == (0, True)
    assert found["self_test"]["reference"] == "transformers"
    assert found["self_test"]["worst_state"] < 1e-4
    said = topics(out)
    assert said["model runner"]["text"] in ("V1 on cpu", "V2 on cpu")
    assert "readings compared with transformers" in said["self-test"]["text"]
    assert said["certificates"]["verdict"] == "fine"


def test_what_vllm_cannot_do_under_exit_control_is_refused_with_the_reason(rlcm: Rlcm) -> None:
    status, out, _ = rlcm(f"{DOCTOR} -- --speculative-config {NGRAM}")
    assert status == 1
    assert "lets no exit rule act on" in " ".join(out.split())
    assert "The model cannot be served like this." in out


def test_the_context_of_the_arguments_counts(rlcm: Rlcm) -> None:
    status, out, _ = rlcm(f"{DOCTOR} --json -- --max-model-len 900")
    assert status == 1
    said = topics(out)["context of vLLM"]
    assert "thinking (960)" in said["text"]
    assert "--max-tokens" in said["remedy"]


def test_a_model_without_its_option_is_told_the_option(rlcm: Rlcm) -> None:
    status, out, _ = rlcm("doctor qwen3")
    assert status == 1
    assert "'qwen3' is no option; for a model use `rlcm ... --model qwen3`" in " ".join(out.split())


def test_an_architecture_that_vllm_lacks_is_refused(rlcm: Rlcm, tmp_path: Path) -> None:
    folder = tmp_path / "unknown"
    shutil.copytree(EMBEDDED_MODEL, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["NoSuchModel"]}))
    status, out, _ = rlcm(f"{DOCTOR} --model {folder} --json")
    assert status == 1
    assert topics(out)["architecture"]["verdict"] == "refused"
