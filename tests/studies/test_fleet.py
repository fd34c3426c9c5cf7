"""The simulation of many replicas, against what queueing theory says of simple ones."""

from pathlib import Path

import numpy as np
import pytest

from calibration import FULL_BUDGET, Certificate, read_traces
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import outcomes
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from studies.serving.fleet.simulation import Fleet, Result, Router, simulate_fleet
from studies.serving.fleet.work import Work, at_full_budget, under_certificate

RNG = np.random.default_rng(7)
MEAN = 40.0
QUESTIONS = 30_000
TRACES = Path(__file__).parents[2] / "studies/traces/embedded-test.parquet"


def work(samples: int = 1) -> Work:
    tokens = RNG.geometric(1 / MEAN, (5_000, samples))
    return Work(tokens.astype(np.int64), np.zeros(5_000, bool))


def simulated(load: float, most: int, *, shares: bool, replicas: int = 1) -> Result:
    """Questions of one sample at a share of what the replicas can do, with a step of 1 s."""
    made = work()
    fleet = Fleet(
        replicas=replicas,
        max_running=most,
        step_seconds=(lambda b: float(b)) if shares else (lambda b: 1.0),
        router=Router.LEAST,
        rate=load * replicas / made.mean_tokens,
    )
    return simulate_fleet(fleet, made, QUESTIONS, np.random.default_rng(1))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_question_at_a_time_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    made = work()
    tokens = made.tokens_QN[:, 0]
    rate = load / made.mean_tokens
    expected = rate * (tokens.astype(float) ** 2).mean() / (2 * (1 - load))
    assert simulated(load, 1, shares=True).queued_Q.mean() == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_an_engine_shared_by_all_takes_what_processor_sharing_takes(load: float) -> None:
    found = simulated(load, 10**9, shares=True)
    assert found.queued_Q.max() == 0
    assert found.seconds_Q.mean() == pytest.approx(MEAN / (1 - load), rel=0.08)


def test_without_contention_a_question_takes_its_longest_sample() -> None:
    made = Work(np.array([[3, 10, 7]]), np.zeros(1, bool))
    fleet = Fleet(2, 4, lambda b: 0.5, Router.IN_TURN, rate=1e-6)
    found = simulate_fleet(fleet, made, 20, np.random.default_rng(0))
    assert found.seconds_Q == pytest.approx(np.full(20, 5.0))


def test_every_question_ends_once_and_none_before_it_came() -> None:
    for router in Router:
        fleet = Fleet(5, 3, lambda b: 0.01 * (1 + b), router, rate=4.0)
        found = simulate_fleet(fleet, work(4), 2_000, np.random.default_rng(3))
        assert (found.queued_Q >= 0).all()
        assert (found.seconds_Q > found.queued_Q).all()


def test_a_router_that_sees_what_waits_shortens_the_wait() -> None:
    waits = []
    for router in (Router.LEAST, Router.IN_TURN):
        fleet = Fleet(10, 1, lambda b: 1.0, router, rate=10 * 0.8 / MEAN)
        found = simulate_fleet(fleet, work(), QUESTIONS, np.random.default_rng(5))
        waits.append(found.queued_Q.mean())
    assert waits[0] < 0.5 * waits[1]


@pytest.mark.parametrize(("risk", "samples"), [("selective", 1), ("regret", 4), ("selective", 8)])
def test_the_work_is_what_the_certificates_replay_counts(risk: str, samples: int) -> None:
    file = EMBEDDED_MODEL / CERTIFICATE_FOLDER / f"{risk}-{samples}.json"
    certificate, traces = Certificate.load(file), read_traces(TRACES)
    own = {one.alpha: one.policy for one in certificate.levels if one.certified}[0.1]
    for policy, found in (
        (own, under_certificate(traces, certificate, 0.1)),
        (FULL_BUDGET, at_full_budget(traces, samples)),
    ):
        replayed = outcomes(traces, [policy], Procedure(samples))
        assert found.tokens_QN.sum(1).tolist() == replayed.tokens_DT[:, 0].tolist()
        assert (~found.declined_Q).tolist() == replayed.answered_DT[:, 0].tolist()
