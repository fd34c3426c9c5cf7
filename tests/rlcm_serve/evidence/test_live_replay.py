"""A certificate replayed on the readings of live answers."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import Certificate, ExitPolicy, ExitReason
from rlcm_serve.core import Question, Reading, Rollout, Sample, Solution
from rlcm_serve.evidence import live_replay
from rlcm_serve.evidence.chains import chains_in, segments_of
from rlcm_serve.evidence.live_replay import ReplayedLevel, replay_records
from rlcm_serve.evidence.log import EvidenceLog
from rlcm_serve.evidence.records import Answered, new_id
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.evidence.test_evidence import records
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate

SURE = ExitPolicy(lambda_high=0.9)
GIVES_UP = ExitPolicy(lambda_low=0.2, patience=16, lambda_high=0.9)


def sample(exit_: ExitReason, *confidences: float) -> Sample:
    """A sample with a reading every 16 tokens; the last one is final where no policy stopped."""
    last = len(confidences) - 1
    readings = tuple(
        Reading(16 * (at + 1), c, is_final=exit_.is_own_end and at == last)
        for at, c in enumerate(confidences)
    )
    return Sample(Rollout((1,) * 16 * len(confidences), "hm", exit_, readings), "7", 3)


def answered(*samples: Sample, engine: str = "m0", alpha: float = 0.1) -> Answered:
    solution = Solution(
        answer="7",
        confidence=0.5,
        exit=ExitReason.NATURAL,
        samples=samples,
        policy=ExitPolicy(),
        guarantee=None,
        no_guarantee_reason="none",
    )
    fingerprint = fingerprint_of(replace(IDENTITY, model=engine))
    question = Question("?", alpha, samples=len(samples))
    return Answered(new_id(), None, question, solution, None, fingerprint)


def kept(folder: Path, *answers: Answered) -> Path:
    async def keep() -> None:
        with closing(EvidenceLog(folder)) as log:
            for one in answers:
                await log.keep(one)

    asyncio.run(keep())
    return folder


def level_of(policy: ExitPolicy, folder: Path, *answers: Answered) -> ReplayedLevel:
    (level,) = replay_records(certificate({0.1: policy}), kept(folder, *answers)).levels
    return level


def test_a_policy_that_stops_earlier_saves_what_came_after(tmp_path: Path) -> None:
    whole = answered(sample(ExitReason.BUDGET, 0.3, 0.95, 0.95, 0.99))
    assert level_of(SURE, tmp_path, whole) == ReplayedLevel(
        0.1, questions=1, samples=1, tokens=64, tokens_at_least=32, known=1
    )


def test_a_final_reading_is_no_checkpoint(tmp_path: Path) -> None:
    found = level_of(SURE, tmp_path, answered(sample(ExitReason.NATURAL, 0.3, 0.95)))
    assert (found.tokens_at_least, found.known, found.undecided) == (32, 1, 0)


def test_what_is_given_up_is_declined(tmp_path: Path) -> None:
    unsure = answered(sample(ExitReason.BUDGET, 0.1, 0.1, 0.1))
    found = level_of(GIVES_UP, tmp_path, unsure)
    assert (found.tokens_at_least, found.known, found.declined) == (16, 1, 1)
    answers = replace(GIVES_UP, answer_on_low=True)
    assert level_of(answers, tmp_path / "again", unsure).declined == 0


def test_a_sample_that_was_stopped_before_says_only_how_long_it_was(tmp_path: Path) -> None:
    stopped = answered(sample(ExitReason.HIGH, 0.3, 0.8))
    assert level_of(SURE, tmp_path, stopped) == ReplayedLevel(
        0.1, questions=1, samples=1, undecided=1, tokens=32, tokens_at_least=32
    )


def test_the_policy_that_answered_gives_what_happened(tmp_path: Path) -> None:
    happened = answered(sample(ExitReason.HIGH, 0.3, 0.8, 0.9))
    found = level_of(SURE, tmp_path, happened)
    assert (found.tokens, found.tokens_at_least, found.undecided) == (48, 48, 0)


def test_answers_of_another_engine_and_with_other_samples_are_left_out(tmp_path: Path) -> None:
    one = sample(ExitReason.BUDGET, 0.3, 0.95)
    folder = kept(tmp_path, answered(one), answered(one, engine="m1"), answered(one, one))
    found = replay_records(certificate({0.1: SURE}), folder)
    assert (found.others, found.levels[0].questions) == (2, 1)


def test_the_unfinished_line_of_a_killed_process_ends_its_own_chain_alone(tmp_path: Path) -> None:
    one = answered(sample(ExitReason.BUDGET, 0.3, 0.95))
    kept(tmp_path, one)
    (segment,) = tmp_path.glob("*/*.jsonl")
    with segment.open("a") as file:
        file.write('{"kind":"ans')
    assert level_of(SURE, tmp_path, one).questions == 2


def test_a_record_that_was_changed_is_named(tmp_path: Path) -> None:
    kept(tmp_path, answered(sample(ExitReason.BUDGET, 0.3, 0.95)))
    assert records(tmp_path)
    (segment,) = tmp_path.glob("*/*.jsonl")
    segment.write_text(segment.read_text().replace("0.95", "0.15"))
    with pytest.raises(ValueError, match="it was changed"):
        replay_records(certificate({0.1: SURE}), tmp_path)


def test_a_segment_that_the_service_deletes_in_the_meantime_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = answered(sample(ExitReason.BUDGET, 0.3, 0.95))
    kept(tmp_path, one)
    kept(tmp_path, one)

    def listed(chain: Path) -> list[Path]:
        segments = segments_of(chain)
        if chain == chains_in(tmp_path)[0]:
            segments[0].unlink()
        return segments

    monkeypatch.setattr(live_replay, "segments_of", listed)
    found = replay_records(certificate({0.1: SURE}), tmp_path)
    assert found.levels[0].questions == 1


def test_the_command_says_it_in_words(tmp_path: Path, rlcm: Rlcm) -> None:
    made: Certificate = certificate({0.05: None, 0.1: SURE})
    made.save(tmp_path / "c.json")
    folder = kept(tmp_path / "e", answered(sample(ExitReason.BUDGET, 0.3, 0.95, 0.95, 0.99)))
    status, said, _ = rlcm(f"replay {tmp_path}/c.json {folder} --live")
    assert status == 0
    assert (
        "alpha 0.1: 50.0% fewer reasoning tokens on 1 questions; 0 of 1 samples would have thought "
        "on; abstentions on 0 of 1" in " ".join(said.split())
    )


def test_a_folder_that_does_not_exist_is_said(tmp_path: Path, rlcm: Rlcm) -> None:
    certificate({0.1: SURE}).save(tmp_path / "c.json")
    status, said, error = rlcm(f"replay {tmp_path}/c.json {tmp_path}/none --live")
    assert (status, said) == (1, "")
    assert f"there is no folder {tmp_path}/none: give the folder of records" in error


def test_a_folder_without_records_is_no_quiet_service(tmp_path: Path, rlcm: Rlcm) -> None:
    certificate({0.1: SURE}).save(tmp_path / "c.json")
    (tmp_path / "empty").mkdir()
    status, said, error = rlcm(f"replay {tmp_path}/c.json {tmp_path}/empty --live")
    assert (status, said) == (1, "")
    assert f"{tmp_path}/empty holds no record: give the service's evidence_folder" in error
