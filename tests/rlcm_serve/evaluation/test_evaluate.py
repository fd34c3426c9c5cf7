import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from calibration import ExitReason, Traces, certify, read_traces
from calibration.certificate.kinds import Kind
from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.early_exits import OracleExits, depth_auroc, oracle_distances
from calibration.metrics.estimates import Estimate
from calibration.traces.probe_readings import READINGS_FILE, write_seen_problems
from calibration.traces.table import Reading, Rollout
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.evaluation.datasets.loading import LoadedBenchmark
from rlcm_serve.evaluation.evaluate import (
    EvaluationPlan,
    grade,
    measure,
    record,
    with_other_problems,
)
from rlcm_serve.evaluation.grading import grader_named
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures
from rlcm_serve.evaluation.measuring.risk_control import fit_sources, replay_certificates
from rlcm_serve.evaluation.recorded import Recorded
from rlcm_serve.evaluation.run import Run
from rlcm_serve.evaluation.run_folder import RunFolder
from rlcm_serve.evaluation.sources import Source
from rlcm_serve.recording.concurrency import ROLLOUTS_AT_ONCE
from rlcm_serve.recording.offline import BuildRecorders, OpenRecorders
from rlcm_serve.recording.problems import LabelledProblem, digest_problems
from rlcm_serve.recording.recorder import FullBudgetRecorder, Recording
from rlcm_serve.recording.trained import seen_problems
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, ScriptedEngine

pytestmark = pytest.mark.slow

PROBLEMS = tuple(LabelledProblem(f"p{i:02}", f"Dial {i}. A up 5.", "8") for i in range(20))
BENCHMARK = LoadedBenchmark(
    name="dials",
    title="Dials",
    problems=PROBLEMS,
    parts={problem.id: f"level {i % 2}" for i, problem in enumerate(PROBLEMS)},
    grader=ExactGrader(),
    rollouts=3,
    digest=digest_problems(PROBLEMS),
)


def scripts(count: int = 60, seed: int = 7) -> list[Script]:
    """Rollouts whose confidence knows something of whether they are right."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        right = bool(rng.random() < 0.6)
        confidence = float(np.clip(rng.normal(0.7 if right else 0.4, 0.15), 0.01, 0.99))
        made.append(
            Script(
                confidences=(0.3, confidence),
                c_end=confidence,
                ends_at=int(rng.integers(20, 90)),
                own=rf"\boxed{{{8 if right else 5}}}",
                forced=("8}", "5}", "8}"),
                continued={r"<answer>\boxed{8}</answer><confidence>": "sure</confidence>"},
                signals={"sequence-probability": float(rng.random()), "tail": 0.5},
            )
        )
    return made


def plan_of(
    out: Path, benchmark: LoadedBenchmark = BENCHMARK, rollouts: int | None = None
) -> EvaluationPlan:
    return EvaluationPlan(
        EngineSettings(),
        [benchmark],
        Source.PROBE,
        frozenset(Source),
        rollouts,
        answers=3,
        out=out,
    )


def on(engine: ScriptedEngine) -> OpenRecorders:
    """Recorders on this engine."""

    @asynccontextmanager
    async def opened(
        _: EngineSettings, build: BuildRecorders[Recording], __: Console
    ) -> AsyncIterator[tuple[EngineIdentity, Sequence[FullBudgetRecorder[Recording]]]]:
        with build(engine) as recorders:
            yield engine.identity, recorders

    return opened


def record_on(engine: ScriptedEngine, to_do: EvaluationPlan) -> None:
    asyncio.run(record(to_do, Console(file=io.StringIO()), on(engine)))


def run(to_do: EvaluationPlan, engine: ScriptedEngine) -> None:
    """All but the start of an engine, and the figures."""
    console = Console(file=io.StringIO())
    record_on(engine, to_do)
    for benchmark in to_do.benchmarks:
        grade(benchmark, to_do, engine.identity, console)


def counts(path: Path) -> tuple[int, int]:
    """Problems and rollouts of the traces."""
    traces = read_traces(path / "dials" / "traces.parquet")
    return traces.n_problems, traces.n_rollouts


class Finished(NamedTuple):
    path: Path
    engine: ScriptedEngine
    printed: str
    measured: BenchmarkMeasures


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run with its figures and its report."""
    path, engine, printed = tmp_path_factory.mktemp("run") / "one", ScriptedEngine(*scripts()), ""
    run(plan_of(path), engine)
    console = Console(file=io.StringIO(), width=400)
    assert measure(plan_of(path), console).is_file()
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    (measured,) = Run.load(str(path)).measures.benchmarks
    return Finished(path, engine, printed, measured)


def test_the_figures_are_those_of_the_rollouts(finished: Finished) -> None:
    measured = finished.measured
    right = sum("8" in (script.own or "") for script in finished.engine.scripts)
    assert measured.n_rollouts == 60
    assert measured.accuracy.value == pytest.approx(right / 60)
    assert measured.natural == 1.0
    assert measured.unread == 0.0
    assert [part.name for part in measured.parts] == ["level 0", "level 1"]
    probe, *others = measured.sources
    assert probe.source == Source.PROBE
    assert {one.source for one in others} == {
        *(Source.SEQUENCE_PROBABILITY, Source.TAIL),
        *(Source.ANSWER_PROBABILITY, Source.AGREEMENT, Source.ENTROPY),
    }
    scored = Run.load(str(finished.path)).scored("dials", "probe")
    assert estimate_metrics(scored, ["ece"])["ece"] == probe.metrics["ece"]
    assert sum(probe.right) == right
    assert probe.votes.n == (1, 2, 3)
    assert [point.tokens for point in measured.budgets] == [16, 32, 48, 64, 80]
    assert {point.risk for point in measured.controlled} == {"selective", "error"}


def test_every_source_is_measured_before_the_end(finished: Finished) -> None:
    measured, recorded = (
        finished.measured,
        Recorded.read(finished.path / "dials" / "traces.parquet", Source.PROBE),
    )
    oracle = OracleExits.find(recorded.without_readings)
    assert measured.oracle_exit is not None
    assert measured.oracle_exit.share == measured.accuracy.value
    assert measured.oracle_exit.tokens == oracle.mean_tokens(recorded.without_readings)
    for found in measured.sources:
        traces = recorded.traces(Source(found.source))
        assert found.depth_auroc == depth_auroc(traces)
        assert tuple(found.oracle_distance.values()) == oracle_distances(traces, oracle)
    # Every forced answer is right, so the first checkpoint is the oracle exit.
    probe, agreement = measured.by_source(Source.PROBE), measured.by_source(Source.AGREEMENT)
    assert probe is not None
    assert agreement is not None
    assert probe.depth_auroc == Estimate(None)
    assert probe.oracle_distance["0.01"] == Estimate(0.0)  # all resamples agree
    assert (agreement.oracle_distance["0.01"].value or 0) > 0  # its readings cost tokens


@pytest.mark.parametrize("source", [Source.SEQUENCE_PROBABILITY, Source.AGREEMENT, Source.ENTROPY])
def test_the_oracle_does_not_depend_on_the_runs_own_source(
    source: Source, finished: Finished, tmp_path: Path
) -> None:
    run(replace(plan_of(tmp_path), source=source), ScriptedEngine(*scripts()))
    chosen, probe = (
        Recorded.read(path / "dials" / "traces.parquet", own)
        for path, own in ((tmp_path, source), (finished.path, Source.PROBE))
    )
    oracle = OracleExits.find(chosen.without_readings)
    assert finished.measured.oracle_exit is not None
    assert oracle.mean_tokens(chosen.without_readings) == finished.measured.oracle_exit.tokens
    for each in chosen.sources:
        distances = oracle_distances(chosen.traces(each), oracle)
        assert distances == oracle_distances(probe.traces(each), oracle)


def test_traces_graded_otherwise_than_the_service_does_are_not_servable(finished: Finished) -> None:
    assert not read_traces(finished.path / "dials" / "traces.parquet").servable
    assert counts(finished.path) == (20, 60)


def test_what_trained_the_probe_is_said_and_no_certificate_is_fitted_on_it(tmp_path: Path) -> None:
    trained = [LabelledProblem(f"own-{one.id}", f" {one.problem} ", "8") for one in PROBLEMS[:5]]
    (tmp_path / "probe").mkdir()
    write_seen_problems(tmp_path / "probe" / READINGS_FILE, seen_problems(trained))
    asked = replace(
        BENCHMARK, problems=tuple(replace(p, problem=f"{p.problem} Hm.") for p in PROBLEMS)
    )
    plan = replace(plan_of(tmp_path / "run", asked), request=" Hm.")
    plan = replace(plan, settings=EngineSettings(probe=tmp_path / "probe"))
    record_on(ScriptedEngine(*scripts()), plan)
    console = Console(file=io.StringIO(), width=400)
    grade(asked, plan, IDENTITY, console)
    assert read_traces(plan.folder.benchmark("dials").traces).fingerprint is None
    measure(plan, console)
    said = "5 of 20 problems trained the probe or chose its checkpoint (the first is 'p00')"
    assert f"warning: Dials: {said}" in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    made_by = json.loads(plan.folder.metrics_file.read_text())["made_by"]
    assert made_by["Dials, seen in training"].startswith(said)


@pytest.mark.parametrize("problems", [1, 5, 6])
def test_a_few_problems_are_measured_too(problems: int, tmp_path: Path) -> None:
    few = plan_of(tmp_path, replace(BENCHMARK, problems=PROBLEMS[:problems]), rollouts=2)
    run(few, ScriptedEngine(*scripts()))
    recorded = Recorded.read(tmp_path / "dials" / "traces.parquet", Source.PROBE)
    assert bool(list(fit_sources(recorded))) == (problems >= 6)
    others = list(fit_sources(recorded, alphas=(0.2,), risks=("regret",)))
    assert {(one.risk, one.alpha) for one in others} == ({("regret", 0.2)} if others else set())
    assert bool(others) == (problems >= 6)


def alike(familiarity_P: NDArray[np.float64] | None = None) -> Recorded:
    """300 problems, 4 in 10 of which are hopeless, with the same readings by two sources."""
    rng = np.random.default_rng(0)
    fingerprint = replace(
        fingerprint_of(IDENTITY), checkpoint_interval=32, max_tokens=512, familiarity_cutoff=0.01
    )
    rollouts = []
    for number in range(300):
        hard = rng.random() < 0.4
        readings = []
        for tokens in range(32, 513, 32):
            sure = rng.uniform(0.01, 0.08) if hard else 0.5 + tokens / 1100
            right = bool(rng.random() < sure)
            readings.append(Reading(tokens, float(sure), str(right), int(right), 2, right))
        rollouts.append(
            Rollout(f"{number:03d}", 0, ExitReason.BUDGET, tuple(readings[:-1]), readings[-1])
        )
    own = replace(Traces.from_rollouts(rollouts, fingerprint), familiarity_P=familiarity_P)
    none = np.zeros_like(own.tokens_RC)
    sources = (Source.PROBE, Source.TAIL)
    return Recorded(
        own,
        Source.PROBE,
        dict.fromkeys(sources, own.confidence_RC),
        dict.fromkeys(sources, none),
        own.answer_tokens_RC,
    )


def test_sources_with_the_same_readings_are_fitted_alike() -> None:
    found = list(fit_sources(alike(), alphas=(0.1, 0.2, 0.5)))
    probe, tail = (
        [one for one in found if one.source is each] for each in (Source.PROBE, Source.TAIL)
    )
    assert any(one.realised is not None for one in probe)
    assert [replace(one, source=Source.PROBE) for one in tail] == probe


def test_unfamiliar_problems_are_neither_fitted_on_nor_tested() -> None:
    p_values = np.where(np.arange(300) % 4 == 0, 0.001, 0.5)
    found = list(fit_sources(alike(p_values), alphas=(0.5,)))
    assert {one.n_problems + (one.origin.fitted_on or 0) for one in found} == {225}


def test_a_runs_own_source_may_say_nothing(tmp_path: Path) -> None:
    run(replace(plan_of(tmp_path), source=Source.VERBALIZED), ScriptedEngine(*scripts()))
    path = tmp_path / "dials" / "traces.parquet"
    recorded = Recorded.read(path, Source.VERBALIZED)
    assert recorded.missing(Source.VERBALIZED) == 1.0
    assert not read_traces(path).servable


def test_a_problem_that_does_not_fit_leaves_no_run_behind(tmp_path: Path) -> None:
    long = replace(BENCHMARK, problems=(LabelledProblem("p", "word " * 101, "8"),))
    with pytest.raises(RequestRefused, match=r"problem 'p'.*over 100 tokens"):
        run(plan_of(tmp_path, long), ScriptedEngine(*scripts()))
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_of_these_very_rollouts_is_left_out(tmp_path: Path) -> None:
    run(plan_of(tmp_path), ScriptedEngine(*scripts()))
    traces = replace(
        read_traces(tmp_path / "dials" / "traces.parquet"), fingerprint=fingerprint_of(IDENTITY)
    )
    fitted = certify(traces, risk="regret", alphas=(0.5,))
    others = certify(traces.split(0.5)[0], risk="regret", alphas=(0.5,))
    console = Console(file=io.StringIO(), width=400)
    assert list(with_other_problems([fitted, others], traces, console)) == [others]
    assert "fitted on these rollouts" in console.file.getvalue()  # type: ignore[attr-defined]


class Dying(ScriptedEngine):
    """Dies as a number of rollouts have begun."""

    def __init__(self, rollouts: int, made: Sequence[Script]) -> None:
        super().__init__(*made)
        self.left = rollouts

    async def check_health(self) -> None:
        self.dead = self.dead or len(self.policies) > self.left
        await super().check_health()


def test_a_run_that_was_interrupted_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    dying = Dying(ROLLOUTS_AT_ONCE + 50, scripts())
    with pytest.raises(EngineDead):
        record_on(dying, plan_of(tmp_path, rollouts=20))
    kept = folder.benchmark("dials").journal.read_text().splitlines()[1:]
    assert 0 < len(kept) < 400
    second = ScriptedEngine(*scripts())
    record_on(second, plan_of(tmp_path, rollouts=20))
    assert len(second.policies) == 400 - len(kept)
    assert not folder.benchmark("dials").journal.exists()
    assert len(folder.benchmark("dials").finished()) == 400


def test_rollouts_and_problems_can_be_added_and_fewer_can_be_asked_for(tmp_path: Path) -> None:
    few = replace(BENCHMARK, problems=PROBLEMS[:12])
    run(plan_of(tmp_path, few, rollouts=2), ScriptedEngine(*scripts()))
    engine = ScriptedEngine(*scripts())
    run(plan_of(tmp_path, rollouts=4), engine)
    assert counts(tmp_path) == (20, 80)
    assert len(engine.policies) == 80 - 24
    again = ScriptedEngine(*scripts())
    run(plan_of(tmp_path, few, rollouts=2), again)
    assert counts(tmp_path) == (12, 24)
    assert again.policies == []


def test_another_engine_or_another_number_of_answers_takes_another_folder(tmp_path: Path) -> None:
    run(plan_of(tmp_path), ScriptedEngine(*scripts()))
    with pytest.raises(RequestRefused, match="answers was 3, is 4"):
        run(replace(plan_of(tmp_path), answers=4), ScriptedEngine(*scripts()))
    warmer = ScriptedEngine(*scripts())
    warmer.identity = replace(warmer.identity, probe="p1")
    with pytest.raises(RequestRefused, match="engine probe was 'p0', is 'p1'"):
        run(plan_of(tmp_path), warmer)


def test_other_settings_are_refused_before_the_engine_starts(tmp_path: Path) -> None:
    run(plan_of(tmp_path), ScriptedEngine(*scripts()))

    def never(*_: object) -> NoReturn:
        raise AssertionError("an engine was started")

    plan = plan_of(tmp_path)
    texts = replace(BENCHMARK, problems=tuple(replace(p, problem="Other?") for p in PROBLEMS))
    for other, why in (
        (replace(plan, answers=4), "answers was 3, is 4"),
        (replace(plan, request=" Be brief."), "request was '', is ' Be brief.'"),
        (replace(plan, benchmarks=[texts]), "dials holds rollouts of problem 'p00' with another"),
    ):
        with pytest.raises(RequestRefused, match=re.escape(why)):
            asyncio.run(record(other, Console(file=io.StringIO()), never))


def test_a_folder_of_an_older_release_goes_on_with_a_request(tmp_path: Path) -> None:
    """Its settings do not name one; the texts of its problems have it."""
    asked = replace(plan_of(tmp_path), request=" Be brief.")
    run(asked, ScriptedEngine(*scripts()))
    settings = json.loads((tmp_path / "run.json").read_text())
    assert settings.pop("request") == " Be brief."
    (tmp_path / "run.json").write_text(json.dumps(settings))
    run(asked, ScriptedEngine(*scripts()))


def test_certificates_that_do_not_fit_are_left_out_and_it_is_said_why(finished: Finished) -> None:
    assert finished.printed.count("is left out") == 1
    assert not any(point.origin.certificate for point in finished.measured.controlled)


def test_a_certificate_of_one_kind_is_left_out() -> None:
    recorded = alike()
    made = certify(recorded.own, alphas=(0.5,))
    algebra = replace(made, kind=Kind("topic", "algebra", ("algebra",), (), made.delta))
    others = replace(recorded.own, problem_ids=tuple(f"other {i}" for i in range(300)))
    console = Console(file=io.StringIO(), width=400)
    assert with_other_problems([algebra, made], others, console) == [made]
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "it is for one kind of question alone" in said


def test_a_run_is_named_by_its_folder_and_taken_by_its_own_source(finished: Finished) -> None:
    path = finished.path
    assert (Run.load(str(path)).name, Run.load(str(path)).source) == ("one", Source.PROBE)
    with_sign = path.parent / "lr=3"
    with_sign.symlink_to(path)
    assert Run.load(str(with_sign)).name == "one"
    assert Run.load(f"mine={with_sign}").name == "mine"
    named = Run.load(f"base={path}:agreement")
    assert (named.name, named.source) == ("base", Source.AGREEMENT)
    with pytest.raises(RequestRefused, match="no confidence by lowest-group on Dials"):
        Run.load(f"{path}:lowest-group")
    with pytest.raises(RequestRefused, match="'lowest' is not a source: give one of probe, "):
        Run.load(f"base={path}:lowest")


def test_a_folder_without_figures_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="holds no run"):
        Run.load(str(tmp_path))
    RunFolder(tmp_path).begin({})
    with pytest.raises(RequestRefused, match=r"let `rlcm eval --out .*` finish"):
        Run.load(str(tmp_path))


@pytest.mark.parametrize(("p_value", "counted"), [(0.5, 20), (0.001, None)])
def test_unfamiliar_problems_are_measured_but_no_certificate_is_held_against_them(
    tmp_path: Path, p_value: float, counted: int | None
) -> None:
    engine = ScriptedEngine(*scripts())
    engine.reads_familiarity(p_value)
    with grader_named("math") as grader:
        plan = plan_of(tmp_path, replace(BENCHMARK, grader=grader), rollouts=1)
        run(plan, engine)
    recorded = Recorded.read(tmp_path / "dials" / "traces.parquet", Source.PROBE)
    assert recorded.own.n_problems == 20
    assert recorded.own.familiarity_P is not None
    assert set(recorded.own.familiarity_P) == {p_value}
    other = replace(recorded.own, problem_ids=tuple(f"other {i}" for i in range(20)))
    fitted = certify(replace(other, familiarity_P=None), risk="regret", alphas=(0.9,))
    console = Console(file=io.StringIO(), width=400)
    left = with_other_problems([fitted], recorded.own, console)
    assert len(left) == (0 if counted is None else 1)
    controlled = list(replay_certificates(left, recorded))
    assert [one.n_problems for one in controlled] == ([] if counted is None else [counted])
    if counted is None:
        assert "none of these problems passes" in console.file.getvalue()  # type: ignore[attr-defined]
