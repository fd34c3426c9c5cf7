"""What a certificate's fingerprint says of the confidence it was fitted on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from transformers import AutoTokenizer

from rlcm_serve.answers.extraction.named import extractor_named
from rlcm_serve.core import Signal
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.identity import default_text, identify, identify_under
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.solving.fingerprints import fingerprint_of

FILES = ModelFiles.read(EMBEDDED_MODEL)


@pytest.fixture(scope="module")
def text() -> ModelText:
    return ModelText(FILES, AutoTokenizer.from_pretrained(EMBEDDED_MODEL))


def identity(text: ModelText, confidence: str, interval: int | None = None) -> EngineIdentity:
    return identify(EngineSettings(confidence=confidence, interval=interval), FILES, text)


def test_each_confidence_has_a_fingerprint_of_its_own(text: ModelText) -> None:
    fingerprints = [fingerprint_of(identity(text, signal)) for signal in Signal]
    probes = [fingerprint.probe for fingerprint in fingerprints]
    assert len(set(probes)) == len(Signal)
    assert probes[0] == FILES.probe_digest()
    assert all(probe.startswith("signal:") for probe in probes[1:])
    for fingerprint in fingerprints[1:]:
        (difference,) = fingerprint.differences(fingerprints[0])
        assert difference.startswith("probe: ")


def test_what_a_signal_is_made_of_is_in_it(text: ModelText) -> None:
    assert identity(text, "tail").probe.endswith("window=128 half=10"), "the probe's interval: 32"
    assert identity(text, "tail", interval=500).probe.endswith("window=2000 half=10")


def test_the_thinking_format_has_its_canonical_name_whether_chosen_or_detected(
    text: ModelText,
) -> None:
    detected = identity(text, "probe")
    assert detected.thinking == "deepseek_r1"
    settings = EngineSettings(thinking="qwen3")
    chosen = identify(settings, FILES, default_text(settings, FILES, text.tokenizer))
    assert chosen == detected
    for profile in (Profile(name="one"), Profile(name="one", thinking="qwen3")):
        under = identify_under(profile, detected, text.under_profile(profile))
        assert under.thinking == "deepseek_r1"


def test_what_ends_a_text_besides_is_in_the_fingerprint(text: ModelText) -> None:
    own = text.tokenizer.eos_token_id
    assert identity(text, "probe").ends == "", "the embedded model has no other end"
    generation = {**FILES.generation, "eos_token_id": [7, own, 5]}
    files = replace(FILES, generation=generation)
    other = identify(EngineSettings(), files, ModelText(files, text.tokenizer))
    assert other.ends == "5,7"
    assert other.to_json()["ends"] == "5,7"
    differences = fingerprint_of(other).differences(fingerprint_of(identity(text, "probe")))
    assert [one.partition(":")[0] for one in differences] == ["ends"]


def test_an_extractor_of_ones_own_has_its_version_in_the_fingerprint(
    text: ModelText, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile(name="own", extractor="rlcm_serve.answers.extraction.boxed:BoxedExtractor")
    default = identity(text, "probe")
    under = identify_under(profile, default, text.under_profile(profile))
    assert fingerprint_of(under).extractor == profile.extractor
    monkeypatch.setattr(extractor_named(profile.extractor), "version", "2", raising=False)
    assert fingerprint_of(under).extractor == f"{profile.extractor} 2"


def test_what_is_recorded_besides_changes_nothing(text: ModelText) -> None:
    recording = identify(EngineSettings(record_signals=True), FILES, text)
    assert recording == identify(EngineSettings(), FILES, text)
