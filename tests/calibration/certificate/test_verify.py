"""Verification finds every change, and nothing in an unchanged certificate."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from calibration import (
    FULL_BUDGET,
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    Chain,
    ExitPolicy,
    Fingerprint,
    Grid,
    InfeasibleLevel,
    LowExit,
    Method,
    Outcomes,
    Promise,
    PValue,
    Risk,
    Traces,
    certify,
    family_of_chains,
    verify,
)
from calibration.simulation.replay import Replay
from calibration.testing.families import NO_LOW_EXIT
from tests.calibration.recordings import in_groups, several_rollouts, sure

GRID = Grid(
    lambda_high=(0.6, 0.8, 1.01),
    low_exits=(NO_LOW_EXIT, LowExit(0.3, 32), LowExit(0.0, 32, 0.4, 0.1, 48.0)),
    lambda_answer=(0.0, 0.7),
    lambda_vote=(0.0, 0.6),
    smoothing=(0.0, 0.3),
)


def cost(outcomes: Outcomes) -> np.ndarray:
    share_DT = outcomes.tokens_DT / outcomes.full_tokens_D[:, None]
    return 0.7 * ~outcomes.correct_DT + 0.3 * share_DT.clip(0, 1)


COST = Risk.custom("cost", cost)


def name_of(risk: str | Risk) -> str:
    return risk if isinstance(risk, str) else risk.name


@pytest.fixture(scope="module")
def traces(world) -> Traces:
    """90 problems, two rollouts each, some of which end early and by themselves."""
    return several_rollouts(shortened(world.draw(np.random.default_rng(1), 180)), 2)


def shortened(traces: Traces) -> Traces:
    """Every third rollout ends after its second checkpoint; wrong answers of every fourth are
    unread."""
    number_R = np.arange(traces.n_rollouts)
    short_R = number_R % 3 == 0
    final_R = np.where(short_R, 2, traces.final_R)
    columns_C = np.arange(traces.tokens_RC.shape[1])
    tokens_RC = np.where(short_R[:, None] & (columns_C == 2), 40, traces.tokens_RC)
    unread_RC = (number_R % 4 == 0)[:, None] & ~traces.correct_RC
    return replace(
        traces,
        final_R=final_R,
        natural_R=short_R,
        tokens_RC=tokens_RC,
        confidence_RC=np.where(columns_C <= final_R[:, None], traces.confidence_RC, np.nan),
        answer_class_RC=np.where(unread_RC, -1, traces.answer_class_RC),
    )


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("risk", ["selective", "error", "regret", COST], ids=name_of)
@pytest.mark.parametrize("method", [m for m in Method if m is not Method.AUTO])
def test_nothing_differs(traces: Traces, method: Method, risk: str | Risk, samples: int) -> None:
    made = certify(traces, risk=risk, alphas=(0.02, 0.7), method=method, samples=samples, grid=GRID)
    assert [level.certified for level in made.levels] == [False, True]
    assert made.p_value is (
        PValue.BINOMIAL if samples == 2 and risk is not COST else PValue.BETTING
    )
    assert verify(made, traces, risk=risk if isinstance(risk, Risk) else None) == []


@pytest.mark.parametrize("vote", ["confidence", "majority"])
@pytest.mark.parametrize("risk", ["selective", "regret", COST], ids=name_of)
def test_nothing_differs_under_a_vote_stop(world: Any, risk: str | Risk, vote: str) -> None:
    drawn = several_rollouts(shortened(world.draw(np.random.default_rng(1), 360)), 4)
    costs_RC = np.random.default_rng(2).integers(0, 20, drawn.tokens_RC.shape)
    read = np.arange(costs_RC.shape[1]) <= drawn.final_R[:, None]
    traces = replace(drawn, confidence_tokens_RC=np.where(read, costs_RC, 0))
    grid = replace(GRID, lambda_stop=(0.3,))
    made = certify(
        traces, risk=risk, alphas=(0.02, 0.7), samples=4, vote=vote, method="holm", grid=grid
    )
    (level,) = [level for level in made.levels if isinstance(level, CertifiedLevel)]
    assert level.policy.lambda_stop == 0.3
    assert verify(made, traces, risk=risk if isinstance(risk, Risk) else None) == []
    assert Certificate.from_json(made.to_json()) == made
    # The stop is a part of what is verified.
    without = replace(level, policy=replace(level.policy, lambda_stop=1.01))
    levels = tuple(without if each is level else each for each in made.levels)
    assert any(
        "expected_tokens" in line
        for line in verify(
            replace(made, levels=levels), traces, risk=risk if isinstance(risk, Risk) else None
        )
    )


@pytest.mark.parametrize("samples", [1, 2])
def test_nothing_differs_where_readings_cost_tokens(traces: Traces, samples: int) -> None:
    costs_RC = np.random.default_rng(2).integers(0, 20, traces.tokens_RC.shape)
    read = np.arange(costs_RC.shape[1]) <= traces.final_R[:, None]
    dear = replace(traces, confidence_tokens_RC=np.where(read, costs_RC, 0))
    made = certify(dear, risk=COST, alphas=(0.02, 0.7), samples=samples, grid=GRID)
    assert verify(made, dear, risk=COST) == []
    (level,) = [level for level in made.levels if isinstance(level, CertifiedLevel)]
    # The cost of readings counts for every policy, but not for the full budget.
    (free,) = [
        level
        for level in certify(
            traces, risk=COST, alphas=(0.02, 0.7), samples=samples, grid=GRID
        ).levels
        if isinstance(level, CertifiedLevel)
    ]
    assert level.full_budget_tokens == free.full_budget_tokens
    assert any("expected_tokens" in line for line in verify(made, traces, risk=COST))


@pytest.mark.parametrize("kind", [PValue.HOEFFDING_BENTKUS, PValue.CLT])
@pytest.mark.parametrize("promise", Promise)
def test_nothing_differs_with_other_tests(traces: Traces, kind: PValue, promise: Promise) -> None:
    made = certify(traces, alphas=(0.02, 0.5), p_value=kind, promise=promise)
    assert any(level.certified for level in made.levels)
    assert verify(made, traces) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda traces: in_groups(traces, 3),
        lambda traces: replace(traces, fingerprint=None),
        lambda traces: in_groups(replace(traces, fingerprint=None), 2),
    ],
    ids=["groups", "no fingerprint", "neither"],
)
def test_nothing_differs_of_other_recordings(
    traces: Traces, change: Callable[[Traces], Traces]
) -> None:
    recorded = change(traces)
    for asked in ({}, {"samples": 2, "vote": "majority"}, {"samples": 2, "draws": 5}):
        made = certify(recorded, alphas=(0.3, 0.6), **asked)
        assert verify(made, recorded) == []


@pytest.mark.parametrize("risk", ["selective", "error", "regret"])
@pytest.mark.parametrize("asked", [{"max_group_size": 7}, {"average": "groups"}], ids=str)
def test_nothing_differs_with_groups_of_unequal_size(
    traces: Traces, risk: str, asked: dict[str, Any]
) -> None:
    sizes = np.resize([1, 2, 5, 3], traces.n_problems)
    names = np.repeat(np.arange(traces.n_problems), sizes)[: traces.n_problems]
    grouped = replace(traces, groups=tuple(map(str, names)))
    made = certify(grouped, risk=risk, alphas=(0.3, 0.7), **asked)
    assert verify(made, grouped) == []
    if "max_group_size" in asked:
        smaller = replace(made, groups=replace(made.groups, max_size=4))
        with pytest.raises(CalibrationError, match="a group has 5 problems"):
            verify(smaller, grouped)


def test_the_parts_or_the_whole(world) -> None:
    whole = world.draw(np.random.default_rng(2), 200)
    for method, share in (("split", 0.3), ("rescaled-chains", 0.1)):
        made = certify(whole, alphas=[0.4], method=method)
        order, tested = whole.split_by_content(share)
        assert verify(made, whole) == verify(made, tested) == verify(made, tested, order) == []
        (difference,) = verify(made, tested, order.select(np.arange(order.n_problems) > 0))[:1]
        assert difference.startswith("order_digest is ")


def test_an_order_of_its_own(world) -> None:
    rng = np.random.default_rng(3)
    tested, order = world.draw(rng, 100), world.draw(rng, 60, "order")
    made = certify(tested, alphas=[0.4], method="split", order=order)
    assert verify(made, tested) == verify(made, tested, order) == []
    other = verify(made, tested, world.draw(rng, 61, "order"))
    assert [difference.split()[0] for difference in other] == ["order_digest", "n_order_problems"]


@pytest.fixture(scope="module")
def problems(world) -> Traces:
    return world.draw(np.random.default_rng(4), 120)


@pytest.fixture(scope="module")
def certificate(problems: Traces) -> Certificate:
    made = certify(problems, alphas=(0.01, 0.2, 0.4), method="chains")
    assert [level.certified for level in made.levels] == [False, True, True]
    return made


def with_level(certificate: Certificate, number: int, **changes: Any) -> Certificate:
    """As after an edit; most would not even load (`test_consistency.py`)."""
    levels = list(certificate.levels)
    levels[number] = replace(levels[number], **changes)
    return replace(certificate, levels=tuple(levels))


FIGURES = [
    *("p_value", "risk", "risk_upper", "total_weight", "total_loss", "share_answered"),
    *("share_right", "expected_tokens", "full_budget_tokens"),
]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("number", [1, 2])
def test_an_altered_figure(
    certificate: Certificate, problems: Traces, name: str, number: int
) -> None:
    level = certificate.levels[number]
    better = 0.999 * getattr(level, name)
    (difference,) = verify(with_level(certificate, number, **{name: better}), problems)
    assert difference == (
        f"alpha {level.alpha:g}: {name} is {better!r} in the certificate, "
        f"{getattr(level, name)!r} from the traces"
    )


@pytest.mark.parametrize("name", ["p_value", "total_weight", "total_loss"])
def test_an_altered_figure_of_an_infeasible_level(
    certificate: Certificate, problems: Traces, name: str
) -> None:
    assert isinstance(certificate.levels[0], InfeasibleLevel)
    (difference,) = verify(with_level(certificate, 0, **{name: 0.5}), problems)
    assert difference.startswith(f"alpha 0.01: {name} is 0.5 in the certificate, ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"smallest_certifiable_alpha": 0.001}, ["smallest_certifiable_alpha is 0.001"]),
        ({"n_units": 500}, ["n_units is 500 in the certificate, 120 from the traces"]),
        ({"n_problems": 500}, ["n_problems is 500"]),
        ({"n_rollouts": 500}, ["n_rollouts is 500"]),
        ({"calibration_digest": "0" * 64}, ["calibration_digest is '0000"]),
        ({"covers": "Everything, always."}, ["covers is 'Everything, always.'"]),
        ({"does_not_cover": ()}, ["does_not_cover is ()"]),
    ],
)
def test_an_altered_statement(
    certificate: Certificate, problems: Traces, changes: dict[str, Any], said: list[str]
) -> None:
    found = verify(replace(certificate, **changes), problems)
    assert len(found) == len(said)
    for difference, start in zip(found, said, strict=True):
        assert difference.startswith(start)


def test_a_certificate_in_the_former_wording_can_be_read(certificate: Certificate) -> None:
    former = replace(
        certificate,
        covers="With probability at least 0.9 over the draw of the calibration problems: of the "
        "questions that a certified policy answers, at most a share alpha is answered wrong, on "
        "average over new problems, drawn like the calibration problems and solved by the very "
        "procedure of the fingerprint. This holds for all certified levels at once, so alpha may "
        "be chosen after looking.",
        does_not_cover=(
            "problems drawn from elsewhere than the calibration problems",
            "a changed prompt, chat template, model, probe, sampling, budget, number of samples, "
            "vote or grader",
            "conversations of several turns",
            "a single question, or a kind of question: the risk is an average over questions",
            "questions the service declines to answer",
        ),
    )
    assert former.covers != certificate.covers
    assert Certificate.from_json(former.to_json()) == former


def test_other_software_in_the_fingerprint(certificate: Certificate, problems: Traces) -> None:
    """It would only warn where the certificate is served."""
    assert certificate.fingerprint is not None
    changed = replace(certificate.fingerprint, vllm="0.31.0")
    (said,) = verify(replace(certificate, fingerprint=changed), problems)
    assert said.startswith("fingerprint (certificate, traces): vllm: ")


def test_another_delta_or_promise(certificate: Certificate, problems: Traces) -> None:
    for changes in ({"delta": 0.01}, {"promise": Promise.POINTWISE}):
        found = verify(replace(certificate, **changes), problems)
        assert any("covers is" in difference for difference in found)
        assert any("smallest_certifiable_alpha is" in difference for difference in found)


def test_a_smaller_alpha_than_was_certified(certificate: Certificate, problems: Traces) -> None:
    found = verify(with_level(certificate, 1, alpha=0.05), problems)
    assert "alpha 0.05: its policy does not pass the tests" in found


def test_a_policy_that_was_tested_and_failed(certificate: Certificate, problems: Traces) -> None:
    bold = certificate.tested.policies[-1]
    found = verify(with_level(certificate, 1, policy=bold), problems)
    assert "alpha 0.2: its policy does not pass the tests" in found
    assert any("alpha 0.2: risk is" in difference for difference in found)


def test_a_policy_that_was_not_tested_at_all(certificate: Certificate, problems: Traces) -> None:
    safe = ExitPolicy(lambda_high=0.999, lambda_answer=0.999)
    found = verify(with_level(certificate, 2, policy=safe), problems)
    assert "alpha 0.4: its policy does not pass the tests" in found


def test_an_infeasible_level_that_says_it_was_certified(
    certificate: Certificate, problems: Traces
) -> None:
    """With all the right figures of the policy that failed."""
    failed = certificate.tested.policies[0]
    family = family_of_chains([[Chain((failed,), 1.0)]], "alone")
    (alone,) = certify(problems, alphas=[0.9], family=family).levels
    assert isinstance(alone, CertifiedLevel)
    forged = replace(certificate, levels=(replace(alone, alpha=0.01), *certificate.levels[1:]))
    assert "alpha 0.01: its policy does not pass the tests" in verify(forged, problems)


def test_a_certified_level_that_says_it_is_infeasible(
    certificate: Certificate, problems: Traces
) -> None:
    missed = InfeasibleLevel(0.4, True, "too few problems", 1.0, 0.0, 0.0)
    found = verify(replace(certificate, levels=(*certificate.levels[:2], missed)), problems)
    assert any(
        difference.startswith("alpha 0.4: infeasible in the certificate, but ")
        and difference.endswith(" policies pass the tests")
        for difference in found
    )


def test_an_order_of_policies_that_was_changed(certificate: Certificate, problems: Traces) -> None:
    """Without the policy that failed first, the next ones pass; only the figures reveal it."""
    family = certificate.tested
    shortcut = family_of_chains([[Chain((family.policies[-1], *family.policies), 1.0)]] * 3, "x")
    found = verify(replace(certificate, tested=shortcut), problems)
    assert "alpha 0.2: its policy does not pass the tests" in found


def test_other_traces(certificate: Certificate, world) -> None:
    other = world.draw(np.random.default_rng(5), 130)
    found = verify(certificate, other)
    assert found[0].startswith("calibration_digest is ")
    assert any("n_problems is 120 in the certificate, 130 from" in line for line in found)
    assert any("alpha 0.4: risk is" in line for line in found)


def test_other_traces_that_the_test_cannot_read(certificate: Certificate, world) -> None:
    """A binomial test cannot read several rollouts of a problem; first of all they are others."""
    drawn = world.draw(np.random.default_rng(5), 240)
    other = replace(
        drawn,
        problem_ids=drawn.problem_ids[:120],
        groups=(None,) * 120,
        problem_R=np.repeat(np.arange(120), 2),
        rollout_R=np.tile([0, 1], 120),
    )
    assert certificate.p_value is PValue.BINOMIAL
    digest, rollouts, reason = verify(certificate, other)
    assert digest.startswith("calibration_digest is ")
    assert rollouts.startswith("n_rollouts is 120 in the certificate, 240 from")
    assert reason.startswith("the test cannot be run on these traces: ")


def test_labels_that_were_removed(certificate: Certificate, problems: Traces) -> None:
    unlabelled = replace(problems, unlabelled_P=np.arange(problems.n_problems) == 7)
    digest, reason = verify(certificate, unlabelled)
    assert digest.startswith("calibration_digest is ")
    assert "have no label" in reason or "has no label" in reason


def test_an_order_that_was_learned_on_some_problems_of_the_test(problems: Traces) -> None:
    parts = problems.split(0.5)
    made = certify(parts[0], order=parts[1], method="split")
    assert verify(made, parts[0], order=parts[1]) == []
    forged = replace(made, order_digest=problems.digest, n_order_problems=problems.n_problems)
    found = verify(forged, parts[0], order=problems)
    assert any("not learned on other problems" in one for one in found), found


def test_a_label_that_was_changed(certificate: Certificate, problems: Traces) -> None:
    correct_RC = problems.correct_RC.copy()
    correct_RC[7] ^= True
    found = verify(certificate, replace(problems, correct_RC=correct_RC))
    assert found[0].startswith("calibration_digest is ")


def test_traces_of_another_recording(
    certificate: Certificate, problems: Traces, fingerprint: Fingerprint
) -> None:
    other = replace(problems, fingerprint=replace(fingerprint, probe="p1"))
    with pytest.raises(CertificateError, match="probe: 'p0' here, 'p1' there"):
        verify(certificate, other)
    with pytest.raises(CertificateError, match="only the certificate has a fingerprint"):
        verify(certificate, replace(problems, fingerprint=None))


def test_a_few_other_traces_than_were_put_aside(world, fingerprint: Fingerprint) -> None:
    made = certify(world.draw(np.random.default_rng(6), 200), alphas=[0.4], method="split")
    assert verify(made, sure(fingerprint, 1))[0].startswith("calibration_digest is ")


def test_a_loss_of_ones_own_has_to_be_given(problems: Traces) -> None:
    made = certify(problems, risk=COST, alphas=[0.7])
    with pytest.raises(CalibrationError, match="bounds the custom loss 'cost'"):
        verify(made, problems)
    with pytest.raises(CalibrationError, match="bounds 'cost', not 'regret'"):
        verify(made, problems, risk="regret")
    cheaper = Risk.custom("cost", lambda outcomes: 0.9 * cost(outcomes))
    assert any("total_loss is" in line for line in verify(made, problems, risk=cheaper))


def test_a_fault_of_the_fitting_code_is_found(
    problems: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification uses no figure of the replay that fitted the certificate."""
    fitting = import_module("calibration.certificate.design")
    replay = fitting.replay

    def faulty(*arguments: Any, **keywords: Any) -> Replay:
        found = replay(*arguments, **keywords)
        found.losses.loss_UT[:10] = 0
        return replace(found, tokens_T=0.9 * found.tokens_T)

    monkeypatch.setattr(fitting, "replay", faulty)
    made = certify(problems, alphas=[0.4], method="chains")
    monkeypatch.undo()
    found = verify(made, problems)
    for name in ("total_loss", "risk", "expected_tokens"):
        assert any(difference.startswith(f"alpha 0.4: {name} is") for difference in found)


def test_full_budget_alone(problems: Traces) -> None:
    family = family_of_chains([[Chain((FULL_BUDGET,), 1.0)]], "alone")
    assert verify(certify(problems, alphas=[0.9], family=family), problems) == []
