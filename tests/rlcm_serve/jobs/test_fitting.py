import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from calibration import Certificate, CertifiedLevel, read_traces, verify
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.errors import CalibrationError
from calibration.report.build_data import build_report_data
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.errors import RequestRefused, WorkerFailed
from rlcm_serve.jobs import fit_worker
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.jobs.fitting import Extended, Fitted, fit, require_verified
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.job import CalibrationRequest
from tests.rlcm_serve.jobs.problem_engine import ProblemEngine, problems
from tests.rlcm_serve.scripted_engine import IDENTITY
from tests.served import set_traps

pytestmark = pytest.mark.slow

REQUEST = CalibrationRequest(alphas=(0.2,))


@pytest.fixture(scope="module")
def recordings() -> list[RecordedRollout]:
    async def record() -> list[RecordedRollout]:
        with AnswerGrader() as grader:
            recorder = Recorder(ProblemEngine(), grader)
            return [await recorder.record(problem, 0) for problem in problems(40)]

    return asyncio.run(record())


def fitted(recordings: list[RecordedRollout], request: CalibrationRequest = REQUEST) -> Fitted:
    return asyncio.run(fit(iter(recordings), fingerprint_of(IDENTITY), request, "2026-01-12"))


def test_a_fit_is_that_of_the_command_line(
    recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    result = fitted(recordings)
    (tmp_path / "t.parquet").write_bytes(result.traces)
    traces = read_traces(tmp_path / "t.parquet")
    assert (traces.n_problems, traces.fingerprint) == (40, fingerprint_of(IDENTITY))
    assert result.certificate is not None
    assert (result.certificate.created, result.refusal) == ("2026-01-12", None)
    (level,) = result.certificate.levels
    assert isinstance(level, CertifiedLevel)
    assert (level.share_answered, level.risk) == (0.8, 0.0)
    assert verify(result.certificate, traces) == []


def test_what_lies_in_the_folder_it_runs_in_is_not_imported(
    recordings: list[RecordedRollout], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_traps(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert fitted(recordings).certificate is not None


def test_a_process_that_cannot_start_is_a_fault(
    recordings: list[RecordedRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(WorkerFailed, match="ended with status 1"):
        fitted(recordings)


def test_traces_stay_where_nothing_can_be_fitted(
    recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    result = fitted(recordings[:5])
    assert (result.certificate, result.report) == (None, None)
    assert "5 problems or groups to test on" in (result.refusal or "")
    (tmp_path / "t.parquet").write_bytes(result.traces)
    assert read_traces(tmp_path / "t.parquet").n_problems == 5


def test_recordings_that_cannot_be_replayed_are_refused(recordings: list[RecordedRollout]) -> None:
    readings = recordings[0].readings
    unread = structs.replace(
        recordings[0], readings=(structs.replace(readings[0], confidence=float("nan")),)
    )
    with pytest.raises(CalibrationError, match="confidence is nan") as refused:
        fitted([unread, *recordings[1:]])
    assert "/tmp" not in str(refused.value)


def test_a_certificate_must_follow_from_its_traces(
    recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    result = fitted(recordings)
    assert result.certificate is not None
    (tmp_path / "t.parquet").write_bytes(result.traces)
    asyncio.run(require_verified(result.certificate, tmp_path / "t.parquet"))
    (level,) = result.certificate.levels
    flattering = replace(level, expected_tokens=1.0)
    forged = replace(result.certificate, levels=(flattering,))
    with pytest.raises(RequestRefused, match=r"expected_tokens is 1\.0 in the certificate, 40\.8"):
        asyncio.run(require_verified(forged, tmp_path / "t.parquet"))
    (tmp_path / "t.parquet").write_bytes(b"no Parquet")
    with pytest.raises(RequestRefused, match=r"traces\.parquet is not Parquet") as refused:
        asyncio.run(require_verified(result.certificate, tmp_path / "t.parquet"))
    assert str(tmp_path) not in str(refused.value)


def test_report_data_are_those_of_the_command_line(
    recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    result = fitted(recordings)
    assert result.certificate is not None
    (tmp_path / "t.parquet").write_bytes(result.traces)
    expected = build_report_data(result.certificate, read_traces(tmp_path / "t.parquet"))
    assert result.report == expected
    verified = asyncio.run(require_verified(result.certificate, tmp_path / "t.parquet"))
    assert verified == expected


@pytest.fixture
def shared(recordings: list[RecordedRollout], tmp_path: Path) -> Certificate:
    """A certificate in which half of the problems have a label; its traces are in `t.parquet`."""
    (tmp_path / "t.parquet").write_bytes(fitted(recordings).traces)
    traces = read_traces(tmp_path / "t.parquet")
    pilot_P = np.arange(40) < 20
    pilot, tested = traces.select(pilot_P), traces.select(~pilot_P)
    design = sequential_design(tested, 20, alphas=(0.2,), order=pilot, label_share=0.5)
    table = pq.read_table(tmp_path / "t.parquet")
    theirs = pc.is_in(table["problem_id"], pa.array(tested.problem_ids))
    pq.write_table(table.filter(theirs), tmp_path / "t.parquet")
    return certify_sequential(tested, design, order=pilot)


def test_a_certificate_with_a_share_of_labels_is_verified_and_has_report_data(
    shared: Certificate, tmp_path: Path
) -> None:
    found = asyncio.run(require_verified(shared, tmp_path / "t.parquet"))
    assert found is not None
    assert 0 < found.calibration.n_problems < 20


def test_a_job_cannot_extend_a_certificate_with_a_share_of_labels(
    shared: Certificate, recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    extended = Extended(shared, (tmp_path / "t.parquet").read_bytes())
    request = replace(REQUEST, extends="cal_1", sequential=True)
    how = fingerprint_of(IDENTITY), request, "2026-01-12"
    new = [structs.replace(one, problem_id=f"new {one.problem_id}") for one in recordings[:20]]
    refused = asyncio.run(fit(iter(new), *how, extended=extended))
    assert refused.certificate is None
    assert "which no job draws: add problems with `rlcm extend`" in (refused.refusal or "")


def test_a_certificate_is_valid_without_report_data(
    recordings: list[RecordedRollout],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise CalibrationError("too dark to see")

    result = fitted(recordings)
    assert result.certificate is not None
    result.certificate.save(tmp_path / fit_worker.CERTIFICATE)
    (tmp_path / fit_worker.TRACES).write_bytes(result.traces)
    monkeypatch.setattr("calibration.report.build_data.build_report_data", refuse)
    fit_worker.recompute(tmp_path)
    assert (tmp_path / fit_worker.DIFFERENCES).read_text() == "[]"
    assert not (tmp_path / fit_worker.REPORT_DATA).exists()
    said = f"no report data for certificate {result.certificate.id}: too dark to see"
    assert said in capsys.readouterr().err


def children() -> set[str]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


@contextmanager
def killing(processes: int) -> Iterator[set[str]]:
    """Kills this process's next children; gives the set of those it has killed."""
    killed: set[str] = set()
    before, over = children(), threading.Event()

    def kill() -> None:
        while len(killed) < processes and not over.wait(0.001):
            for pid in children() - before - killed:
                os.kill(int(pid), signal.SIGKILL)
                killed.add(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_a_fit_whose_process_is_killed_is_repeated(recordings: list[RecordedRollout]) -> None:
    with killing(1) as killed:
        assert fitted(recordings).certificate is not None
    assert len(killed) == 1


def test_a_fit_of_kinds_goes_over_what_a_killed_attempt_left(
    recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    kinds = [
        structs.replace(one, problem_id=f"{one.problem_id}{kind}", kind=kind)
        for kind in "ab"
        for one in recordings
    ]
    lines = [json.dumps(one.to_json()) + "\n" for one in kinds]
    (tmp_path / fit_worker.RECORDINGS).write_text("".join(lines))
    fingerprint = json.dumps(fingerprint_of(IDENTITY).to_json())
    (tmp_path / fit_worker.FINGERPRINT).write_text(fingerprint)
    job = {"request": replace(REQUEST, by="kind").to_json(), "created": "2026-01-12"}
    (tmp_path / fit_worker.REQUEST).write_text(json.dumps(job))
    for _ in range(2):
        fit_worker.fit(tmp_path)
    made = (tmp_path / fit_worker.KINDS).glob(f"*/{fit_worker.CERTIFICATE}")
    assert sorted(str(Certificate.load(one).about) for one in made) == ["a", "b"]


def test_a_second_kill_is_an_error(recordings: list[RecordedRollout]) -> None:
    with killing(2) as killed, pytest.raises(WorkerFailed, match=r"status -9.*try again"):
        fitted(recordings)
    assert len(killed) == 2


def limited(recordings: list[RecordedRollout], limits: FitLimits) -> Fitted:
    fingerprint = fingerprint_of(IDENTITY)
    return asyncio.run(fit(iter(recordings), fingerprint, REQUEST, "2026-01-12", limits))


def test_a_fit_that_takes_too_long_is_ended(recordings: list[RecordedRollout]) -> None:
    before = children()
    with pytest.raises(RequestRefused, match=r"more than 0\.05 s: .*fit_timeout_s"):
        limited(recordings, FitLimits(seconds=0.05))
    assert children() == before


def test_a_fit_that_takes_too_much_memory_is_ended(
    recordings: list[RecordedRollout], tmp_path: Path
) -> None:
    """One rollout has many readings, and many rollouts have one: all in a grid of 20 GB."""
    many, ids = 50_000, [f"p{number:05d}" for number in range(50_000)]
    table = pa.table(
        {
            "problem_id": ["p"] * many + ids,
            "rollout": [0] * 2 * many,
            "tokens": [*range(many), *[1] * many],
            "is_final": [False] * (many - 1) + [True] * (many + 1),
            "confidence": [0.5] * 2 * many,
            "correct": [True] * 2 * many,
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    certificate = fitted(recordings).certificate
    assert certificate is not None
    traces, limits = tmp_path / "t.parquet", FitLimits(memory=2 * 2**30)
    with pytest.raises(RequestRefused, match=r"than 2147483648 bytes .*fit_memory_bytes") as error:
        asyncio.run(require_verified(certificate, traces, limits))
    assert error.value.field == "traces"
    with pytest.raises(RequestRefused, match="100000 rows unpacked, over the limit of 99999"):
        asyncio.run(require_verified(certificate, traces, FitLimits(rows=99_999)))


def test_a_cancelled_fit_ends_its_process(recordings: list[RecordedRollout]) -> None:
    async def run() -> None:
        before = children()
        work = asyncio.create_task(
            fit(iter(recordings), fingerprint_of(IDENTITY), REQUEST, "2026-01-12")
        )
        while not children() - before:  # noqa: ASYNC110, nobody tells of a process
            await asyncio.sleep(0.001)
        work.cancel()
        await asyncio.wait({work})
        assert work.cancelled()
        assert children() == before

    asyncio.run(run())
