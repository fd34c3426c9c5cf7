"""What a model's files say: each fault is found, named, and comes with a remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlcm_serve.engine.diagnosis.findings import Findings, Refused, Verdict
from rlcm_serve.engine.diagnosis.model import examine_model
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.profiles.profile_file import load_profile


def examine(folder: Path | str, **settings: object) -> Findings:
    findings = Findings()
    try:
        examine_model(EngineSettings(model=str(folder), **settings), findings)  # type: ignore[arg-type]
    except Refused:
        assert not findings.can_be_served
    return findings


def about(findings: Findings, topic: str) -> str:
    (found,) = [one for one in findings.found if one.topic == topic]
    return f"{found.verdict}: {found.text} -> {found.remedy}"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "copied"
    shutil.copytree(EMBEDDED_MODEL, folder)
    return folder


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_the_embedded_model_is_described() -> None:
    findings = examine("embedded")
    assert findings.can_be_served
    assert {one.verdict for one in findings.found} == {Verdict.FINE}
    assert "510 and 511" in about(findings, "stop ids")
    assert "deepseek_r1 (detected): '</think>' ends the thinking" in about(
        findings, "thinking format"
    )
    probe = about(findings, "probe")
    assert "reads state and tokens, by default every 32 tokens; AUROC 0." in probe
    assert "of at most 960" in about(findings, "generation")


def test_a_wrong_probe_is_not_the_models_fault(tmp_path: Path) -> None:
    findings = examine("embedded", probe=tmp_path / "nope")
    assert "is not a probe's folder" in about(findings, "probe")
    assert "rlcm train probe" in about(findings, "probe")
    assert "fine" in about(findings, "model")


def test_a_model_without_a_probe_is_refused_unless_confidence_is_of_the_tokens(
    copied: Path,
) -> None:
    shutil.rmtree(copied / "probe")
    shutil.rmtree(copied / "familiarity")
    findings = examine(copied)
    assert not findings.can_be_served
    assert "rlcm train probe" in about(findings, "probe")
    assert about(findings, "familiarity").startswith("note: no reading")
    served = examine(copied, confidence="tail")
    assert served.can_be_served
    assert "tail, from the probabilities" in about(served, "confidence")


def no_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def unsure_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
    )


def no_spare_ids(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    last = max(*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"]))
    edit_config(folder, vocab_size=last + 1)


def other_probe(folder: Path) -> None:
    edit_config(folder, hidden_size=128)


@pytest.mark.parametrize(
    ("spoil", "topic", "says"),
    [
        (no_template, "chat template", "add chat_template.jinja"),
        (no_tokenizer, "tokenizer", "copy the tokenizer's files there"),
        (unsure_template, "thinking format", "name the format with `--thinking FORMAT`"),
        (no_spare_ids, "stop ids", "enlarge the embedding by two rows"),
        (other_probe, "model", "train a probe for it"),
    ],
)
def test_a_fault_is_refused_with_a_remedy(
    copied: Path, spoil: Callable[[Path], None], topic: str, says: str
) -> None:
    spoil(copied)
    findings = examine(copied)
    assert not findings.can_be_served
    assert about(findings, topic).startswith("refused: ")
    assert says in about(findings, topic)


def test_a_budget_without_room_for_a_prompt_is_refused() -> None:
    findings = examine("embedded", max_tokens=2048)
    assert not findings.can_be_served
    assert "--max-tokens" in about(findings, "context")


def test_the_profiles_of_the_folder_are_served_too(copied: Path) -> None:
    own = copied / "profiles"
    own.mkdir()
    (own / "support.toml").write_text('name = "support"\nsystem = "Be brief."\n')
    (own / "legal.toml").write_text('name = "legal"\nsystem = "Be exact."\n')
    findings, given = Findings(), load_profile(own / "legal.toml")
    settings = EngineSettings(str(copied), profiles=(replace(given, system="Be kind."),))
    served = examine_model(settings, findings).settings.profiles
    assert [(one.name, one.system) for one in served] == [
        ("support", "Be brief."),
        ("legal", "Be kind."),
    ]
    assert "fine" in about(findings, "profile support")
    (own / "twice.toml").write_text('name = "legal"\n')
    assert "both named 'legal': rename one" in about(examine(copied), "profiles")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    assert "holds no config.json" in about(examine(tmp_path), "model")
    assert "no model folder" in about(examine(tmp_path / "none"), "model")
