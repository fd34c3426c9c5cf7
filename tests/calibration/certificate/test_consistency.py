"""A certificate is held against its own figures, whoever computed its digest."""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import (
    Certificate,
    CertificateError,
    CertifiedLevel,
    Promise,
    PValue,
    certify,
    certify_kinds,
)
from calibration.certificate.certificate import _digest
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.simulation.groups import Groups
from calibration.simulation.losses import Losses
from calibration.testing.betting import betting_p_values, smallest_betting_p_value
from calibration.testing.p_values import (
    p_value_of_totals,
    p_values,
    upper_bound_of_totals,
    upper_bounds,
)
from tests.calibration.recordings import several_rollouts

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "rlcm_serve" / "models").glob("*/certificates/*.json"))
FORMER = sorted((ROOT / "tests" / "data" / "certificates-0.1").glob("*.json"))
BINOMIAL = json.loads(
    (ROOT / "rlcm_serve/models/embedded/certificates/selective-8.json").read_text()
)
BETTING = json.loads(
    (ROOT / "rlcm_serve/models/embedded/certificates/selective-1.json").read_text()
)
LEVELS = range(5)
PLAIN = {"binomial": BINOMIAL, "betting": BETTING}


def load(content: dict[str, Any]) -> Certificate:
    """As uploaded by someone who computes the digest of what they changed."""
    content = {name: value for name, value in content.items() if name not in ("id", "digest")}
    digest = _digest(content)
    return Certificate.from_json({**content, "digest": digest, "id": digest[:12]})


def changed(kind: str, *place: Any, to: Any) -> dict[str, Any]:
    """A real certificate with one value changed; `to` may be a function of the old value."""
    content: Any = copy.deepcopy(PLAIN[kind])
    *outer, last = place
    inner = content
    for step in outer:
        inner = inner[step]
    inner[last] = to(inner[last]) if callable(to) else to
    return dict(content)


@pytest.fixture(scope="module")
def contents(world) -> list[dict[str, Any]]:
    """Of a certificate of a kind with joint statements, and of a sequential one."""
    traces = world.draw(np.random.default_rng(2), 240)
    kinds = tuple("odd" if at % 2 else "even" for at in range(traces.n_problems))
    how: dict[str, Any] = {"alphas": (0.2, 0.45), "delta": 0.2, "method": "chains"}
    extra: dict[str, Any] = {"bounds": {"declined": None}, "next_questions": 50}
    made = certify_kinds(replace(traces, kinds=kinds), **how, **extra)[:2]
    made.append(certify_sequential(traces, sequential_design(traces, 240, **how)))
    return [json.loads(json.dumps(one.to_json())) for one in made]


def places(values: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value in a JSON document; of a list, of its first two."""
    if at:
        yield at
    if isinstance(values, dict):
        for name, value in values.items():
            yield from places(value, (*at, name))
    if isinstance(values, list):
        for number, value in enumerate(values[:2]):
            yield from places(value, (*at, number))


@pytest.mark.parametrize(
    "to", [None, "x", -1, 10**400, [[1]]], ids=["null", "text", "negative", "huge", "lists"]
)
def test_no_value_in_any_place_ends_in_another_error(
    contents: list[dict[str, Any]], to: object
) -> None:
    for content in contents:
        for place in places(content):
            forged = copy.deepcopy(content)
            inner: Any = forged
            for step in place[:-1]:
                inner = inner[step]
            inner[place[-1]] = to
            with suppress(CertificateError):
                load(forged)


@pytest.mark.parametrize("to", [["a", 1], {}, 5, None, "\ud800"], ids=repr)
@pytest.mark.parametrize("place", [("risk",), ("method",), ("tested", "source")], ids=str)
def test_a_text_that_is_none_is_refused(place: tuple[str, ...], to: object) -> None:
    """It would be stored, and no list of certificates could be written any more."""
    with pytest.raises(CertificateError):
        load(changed("binomial", *place, to=to))


@pytest.mark.parametrize(
    ("place", "to"),
    [
        (("created",), 5),
        (("created",), "\ud800"),
        (("calibration_digest",), 5),
        (("calibration_digest",), "\ud800"),
        (("order_digest",), {}),
        (("fingerprint", "device"), "\ud800"),
        (("tested", "weights"), []),
    ],
    ids=str,
)
def test_what_no_list_of_certificates_could_show_is_refused(
    place: tuple[Any, ...], to: object
) -> None:
    with pytest.raises(CertificateError):
        load(changed("binomial", *place, to=to))


@pytest.mark.parametrize(("name", "to"), [("reason", 5), ("reason", "\ud800"), ("n_too_small", 1)])
def test_why_a_level_is_not_certified_is_text(world, name: str, to: object) -> None:
    traces = world.draw(np.random.default_rng(2), 120)
    content = json.loads(json.dumps(certify(traces, alphas=(0.01, 0.4)).to_json()))
    assert not content["levels"][0]["certified"]
    content["levels"][0][name] = to
    with pytest.raises(CertificateError):
        load(content)


@pytest.mark.parametrize("method", ["holm", "bonferroni"])
@pytest.mark.parametrize("to", [[], [[1]], "", 0, False, {}], ids=repr)
@pytest.mark.parametrize("name", ["weights", "edges"])
def test_only_a_graph_has_weights_and_edges(world, method: str, name: str, to: object) -> None:
    traces = world.draw(np.random.default_rng(2), 120)
    content = json.loads(json.dumps(certify(traces, alphas=(0.4,), method=method).to_json()))
    content["tested"][name] = to
    content["smallest_certifiable_alpha"] = 0.15
    with pytest.raises(CertificateError):
        load(content)


def test_an_order_learned_on_the_problems_of_the_test_is_refused() -> None:
    digest = PLAIN["binomial"]["calibration_digest"]
    with pytest.raises(CertificateError, match=r"order_digest is .* is learned on other problems"):
        load(changed("binomial", "order_digest", to=digest))


def joined(world, limits: dict[str, float | None]) -> dict[str, Any]:
    """A certificate of a binomial test, with these statements that hold jointly."""
    traces = world.draw(np.random.default_rng(2), 400)
    made = certify(traces, alphas=(0.45,), delta=0.2, bounds=limits, next_questions=50)
    assert made.p_value is PValue.BINOMIAL
    assert made.levels[0].certified
    content: dict[str, Any] = json.loads(json.dumps(made.to_json()))
    assert load(content) == made
    return content


@pytest.mark.parametrize("share", [0.999, 1.001])
@pytest.mark.parametrize("number", [0, 1], ids=["declined", "wrong"])
def test_a_joint_bound_follows_from_the_number_of_questions(
    world, number: int, share: float
) -> None:
    forged = joined(world, {"declined": None, "wrong": None})
    forged["joint"]["bounds"][number]["bounds"][0] *= share
    with pytest.raises(CertificateError, match=r"which follows from .* of 360 questions"):
        load(forged)


def test_a_joint_limit_is_no_smaller_than_its_test_allows(world) -> None:
    forged = joined(world, {"declined": 0.95})
    declined = 1 - forged["levels"][0]["share_answered"]
    limit = declined + 1e-3
    bound = forged["joint"]["bounds"][0]
    bound["at_most"], bound["bounds"][0] = limit, limit
    forged["covers"] = forged["covers"].replace("0.95", f"{limit:g}")
    with pytest.raises(CertificateError, match="of 360 questions allows less"):
        load(forged)


@pytest.mark.parametrize(("name", "to"), [("questions", True), ("most", float)])
def test_next_questions_are_whole_numbers(world, name: str, to: Any) -> None:
    forged = joined(world, {"declined": None})["joint"]["next"]
    content = joined(world, {"declined": None})
    forged[name] = [to(most) for most in forged["most"]] if name == "most" else to
    content["joint"]["next"] = forged
    with pytest.raises(CertificateError):
        load(content)


@pytest.mark.parametrize("file", [*SHIPPED, *FORMER], ids=lambda file: f"{file.parent}/{file.stem}")
def test_every_certificate_that_was_ever_shipped_loads(file: Path) -> None:
    assert len(SHIPPED) == 10
    assert len(FORMER) == 3
    plain = json.loads(file.read_text("utf-8"))
    assert Certificate.load(file).digest == plain["digest"]


@pytest.mark.parametrize("kind", PValue)
@pytest.mark.parametrize("method", ["chains", "fixed-sequence", "holm", "bonferroni"])
@pytest.mark.parametrize("promise", Promise)
def test_whatever_certify_writes_loads(world, kind: PValue, method: str, promise: Promise) -> None:
    """Many alphas close together: most levels are certified by implication from a smaller one."""
    traces = world.draw(np.random.default_rng(7), 150)
    alphas = (0.01, 0.2, 0.3, 0.301, 0.302, 0.4, 0.5)
    if kind is PValue.ANYTIME:
        design = sequential_design(traces, 150, alphas=alphas, method=method, promise=promise)
        made = certify_sequential(traces, design)
    else:
        made = certify(traces, alphas=alphas, p_value=kind, method=method, promise=promise)
    assert any(level.certified for level in made.levels)
    assert load(made.to_json()) == made


@pytest.mark.parametrize("risk", ["selective", "error", "regret"])
@pytest.mark.parametrize("samples", [1, 2])
def test_whatever_certify_writes_of_averaged_losses_loads(world, risk: str, samples: int) -> None:
    traces = several_rollouts(world.draw(np.random.default_rng(8), 480), 4)
    made = certify(traces, risk=risk, alphas=(0.3, 0.5, 0.7), samples=samples)
    assert load(made.to_json()) == made


@pytest.mark.parametrize("risk", ["selective", "error", "regret"])
@pytest.mark.parametrize("kind", ["betting", "hoeffding-bentkus", "clt"])
def test_whatever_certify_writes_of_groups_loads(world, risk: str, kind: str) -> None:
    traces = world.draw(np.random.default_rng(9), 480)
    traces = replace(traces, groups=tuple(f"{i * i // 4000:04d}" for i in range(480)))
    sizes = [*Counter(traces.groups).values()]
    assert min(sizes) < max(sizes)
    for asked in ({"max_group_size": max(sizes)}, {"average": "groups"}):
        made = certify(traces, risk=risk, alphas=(0.3, 0.5, 0.9), p_value=kind, **asked)
        assert load(made.to_json()) == made
    with pytest.raises(CertificateError, match="because no groups are named"):
        replace(made, groups=None).check()
    with pytest.raises(CertificateError, match="covers is"):
        replace(made, groups=Groups(max_size=max(sizes))).check()
    with pytest.raises(CertificateError, match=r"at most n_units x groups\.max_size"):
        replace(made, groups=Groups(max_size=2)).check()


def test_the_forgery_that_started_this() -> None:
    """Alpha .001 with a p-value of .9: accepted, activated and served up to now."""
    content = changed("betting", "levels", 2, to=lambda level: level | {"p_value": 0.9})
    content["levels"] = [content["levels"][2] | {"alpha": 0.001}]
    content["tested"]["weights"] = content["tested"]["weights"][:1]
    with pytest.raises(
        CertificateError, match=r"levels\[0\]\.p_value is 0\.9, and must be at most"
    ):
        load(content)
    content["levels"][0]["p_value"] = 1e-9
    with pytest.raises(CertificateError, match=r"must be at least 0\.2.*no bets on total_loss 66 "):
        load(content)


@pytest.mark.parametrize(
    ("place", "to", "says"),
    [
        (("delta",), 0.01, "covers is 'With probability at least 90%"),
        (("delta",), 0, "delta is 0, and must be between 0 and 1"),
        (("delta",), "0.1", "delta is '0.1', and must be between 0 and 1"),
        (("delta",), 10**400, "delta is 1000"),
        (("promise",), "pointwise", "covers is"),
        (("covers",), "Everything, always.", "covers is 'Everything, always.', and must be"),
        (("does_not_cover",), [], r"does_not_cover is \[\], and must be"),
        (("n_units",), 2000, "n_problems is {n_problems}, and must be a whole number, at least"),
        (("n_units",), 0, "n_units is 0"),
        (("n_units",), float, r"n_units is {n_units}\.0, and must be a whole number"),
        (("n_units",), True, "n_units is True"),
        (("n_problems",), 10**6, "n_rollouts is {n_rollouts}, and must be a whole"),
        (("n_problems",), lambda count: count + 1, "n_rollouts|n_problems"),
        (("n_rollouts",), 1, "n_rollouts is 1"),
        (("n_order_problems",), 0, "order_digest is .* null exactly if n_order_problems is 0"),
        (("order_digest",), None, "order_digest is None"),
        (("smallest_certifiable_alpha",), 1e-4, "which {n_units} units without a loss would give"),
        (("fingerprint", "samples"), 2, "fingerprint.samples is 2, and must be that of the proc"),
        (("procedure", "samples"), 2, "fingerprint.samples is"),
        (("levels",), [], "levels is .*at least one level"),
        (("levels",), lambda levels: levels[::-1], "must be levels by rising alpha"),
        (("tested", "policies"), lambda rows: rows[-1:], "tested.edges is"),
        (("tested", "weights"), lambda rows: rows[:1], "tested.weights is"),
        (("tested", "weights", 0, 0), 2.0, "tested.weights is .*at most 1 in sum"),
        (("tested", "weights", 0, 0), -0.1, "tested.weights is -0.1"),
        (("levels", 3, "policy", "lambda_high"), 0.8123, "must be one of tested.policies"),
        (("levels", 3, "n_too_small"), True, "malformed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", PLAIN)
def test_the_message_names_the_field_its_value_and_what_it_had_to_be(
    kind: str, place: tuple[Any, ...], to: object, says: str
) -> None:
    with pytest.raises(CertificateError, match=says.format_map(PLAIN[kind])):
        load(changed(kind, *place, to=to))


FACTORS = st.floats(0.2, 5).filter(lambda factor: abs(factor - 1) > 1e-4)


@settings(max_examples=60)
@given(
    level=st.sampled_from(LEVELS),
    name=st.sampled_from(
        ["alpha", "p_value", "risk", "risk_upper", "total_weight", "total_loss", "share_answered",
         "share_right", "full_budget_tokens"]
    ),
    factor=FACTORS,
)  # fmt: skip
def test_with_a_binomial_test_every_changed_figure_is_seen(
    level: int, name: str, factor: float
) -> None:
    with pytest.raises(CertificateError):
        load(changed("binomial", "levels", level, name, to=lambda value: value * factor))


@settings(max_examples=60)
@given(
    level=st.sampled_from(LEVELS),
    name=st.sampled_from(
        ["risk", "total_weight", "total_loss", "share_answered", "share_right",
         "full_budget_tokens"]
    ),
    factor=FACTORS,
)  # fmt: skip
def test_with_a_betting_test_every_changed_total_is_seen(
    level: int, name: str, factor: float
) -> None:
    with pytest.raises(CertificateError):
        load(changed("betting", "levels", level, name, to=lambda value: value * factor))


@settings(max_examples=40)
@given(level=st.sampled_from(LEVELS), share=st.floats(0.001, 1))
def test_with_a_betting_test_what_no_data_could_give_is_seen(level: int, share: float) -> None:
    figures = BETTING["levels"][level]

    def refused(name: str, value: float) -> None:
        with pytest.raises(CertificateError):
            load(changed("betting", "levels", level, name, to=value))

    refused("alpha", share * figures["risk"])
    refused("risk_upper", share * figures["risk"] * 0.999)
    refused("p_value", 0.1 + share * 0.9 + 1e-6)
    totals = figures["total_loss"], figures["total_weight"], BETTING["n_units"]
    refused("p_value", share * 0.99 * smallest_betting_p_value(*totals, figures["alpha"]))


@settings(max_examples=40)
@given(
    name=st.sampled_from(["delta", "n_units", "n_problems"]),
    kind=st.sampled_from(["binomial", "betting"]),
    factor=FACTORS,
)
def test_a_changed_count_or_delta_is_seen(name: str, kind: str, factor: float) -> None:
    def scaled(value: float) -> float:
        return value * factor if name == "delta" else round(value * factor) + (factor > 1)

    with pytest.raises(CertificateError):
        load(changed(kind, name, to=scaled))


def test_a_share_of_delta_is_no_larger_than_the_levels_that_failed_leave(world) -> None:
    """Two of five levels are not certified: their fifths of delta stay with them."""
    traces = world.draw(np.random.default_rng(7), 400)
    made = certify(traces, alphas=(0.001, 0.002, 0.3, 0.4, 0.5), p_value=PValue.BETTING).to_json()
    assert [level["certified"] for level in made["levels"]] == [False, False, True, True, True]

    def loaded(level: int, p_value: float) -> None:
        content = copy.deepcopy(made)
        content["levels"][level]["p_value"] = p_value
        load(content)

    with pytest.raises(CertificateError, match=r"levels\[2\]\.p_value .* at most 0\.0333333"):
        loaded(2, 0.034)
    loaded(2, 0.033)
    loaded(3, 0.09)  # implied by the level below
    with pytest.raises(CertificateError, match=r"levels\[3\]\.p_value .* at most 0\.1,"):
        loaded(3, 0.11)


def test_a_policy_that_may_abstain_is_no_policy_for_the_risk_error() -> None:
    content = json.loads((SHIPPED[0].parent / "error-8.json").read_text())
    answer = content["tested"]["fields"].index("lambda_answer")
    content["tested"]["policies"][0][answer] = 0.5
    with pytest.raises(CertificateError, match=r"lambda_answer = 0\.5, so it may abstain"):
        load(content)


def test_one_policy_has_one_set_of_figures() -> None:
    content = copy.deepcopy(BINOMIAL)
    assert content["levels"][3]["policy"] == content["levels"][4]["policy"]
    content["levels"][4]["expected_tokens"] -= 1
    with pytest.raises(CertificateError, match=r"expected_tokens at alpha 0\.2 is"):
        load(content)


def test_what_takes_the_traces_to_see() -> None:
    """The docstring of `consistency` says so, too: it must not promise more than it does."""
    load(changed("betting", "levels", 0, "expected_tokens", to=1.0))
    load(changed("betting", "levels", 3, "alpha", to=0.08))
    load(changed("betting", "levels", 2, "p_value", to=0.02))
    load(changed("betting", "levels", 2, "risk_upper", to=0.06))
    load(changed("betting", "fingerprint", "model", to="f" * 64))
    load(changed("betting", "method", to="Trust me."))


@pytest.mark.parametrize("kind", [PValue.BINOMIAL, PValue.HOEFFDING_BENTKUS])
def test_totals_give_the_same_p_values_and_bounds(kind: PValue) -> None:
    random = np.random.default_rng(3)
    weight_UT = (random.random((200, 3)) < 0.7).astype(float)
    loss_UT = weight_UT * (random.random((200, 3)) < 0.1)
    losses = Losses(loss_UT, weight_UT)
    found, bounds = p_values(losses, 0.15, kind), upper_bounds(losses, 0.05, kind)
    for t in range(3):
        totals = float(losses.total_loss_T[t]), float(losses.total_weight_T[t]), 200
        assert p_value_of_totals(*totals, 0.15, kind) == pytest.approx(found[t], rel=1e-12)
        assert upper_bound_of_totals(*totals, 0.05, kind) == pytest.approx(bounds[t], rel=1e-12)
    for other in (PValue.BETTING, PValue.CLT):
        assert p_value_of_totals(1.0, 9.0, 9, 0.1, other) is None
        assert upper_bound_of_totals(1.0, 9.0, 9, 0.1, other) is None


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n_units=st.integers(1, 60),
    alpha=st.floats(0.01, 0.9),
    rate=st.floats(0, 1),
)
def test_no_betting_p_value_is_below_the_smallest(
    seed: int, n_units: int, alpha: float, rate: float
) -> None:
    random = np.random.default_rng(seed)
    weight_UT = random.random((n_units, 1)).round(1)
    losses = Losses((weight_UT * (random.random((n_units, 1)) < rate)).round(2), weight_UT)
    ((found,),) = betting_p_values(losses, np.array([alpha]), seed, np.array([[0.05]]))
    totals = float(losses.total_loss_T[0]), float(losses.total_weight_T[0])
    assert found >= smallest_betting_p_value(*totals, n_units, alpha) * (1 - 1e-9)


def test_a_certified_level_always_has_a_risk_below_alpha(world) -> None:
    made = certify(world.draw(np.random.default_rng(9), 200), alphas=(0.2, 0.4))
    for level in made.levels:
        if isinstance(level, CertifiedLevel):
            assert level.risk < level.alpha
