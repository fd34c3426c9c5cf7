"""Certificates of single kinds: which kinds have one, what each says, and what is recomputed."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration import (
    CalibrationError,
    Certificate,
    CertificateError,
    Traces,
    certify,
    certify_kinds,
    plan_kinds,
    verify,
)
from calibration.certificate.evaluate import replay_certificate
from calibration.certificate.kinds import POOLED_SHARE, Kind

DELTA, ALPHAS = 0.2, (0.2, 0.45)


def of_kinds(
    world, sizes: Mapping[str | None, int], skills: Mapping[str | None, float], seed: int = 0
) -> Traces:
    """Problems of several kinds, whose answers are right with confidence times skill."""
    rng = np.random.default_rng(seed)
    kinds = [kind for kind, size in sizes.items() for _ in range(size)]
    rng.shuffle(kinds)
    traces = world.draw(rng, len(kinds))
    skill_P1 = np.array([[skills.get(kind, 1.0)] for kind in kinds])
    right_RC = rng.random(traces.confidence_RC.shape) < traces.confidence_RC * skill_P1
    return replace(
        traces, kinds=tuple(kinds), correct_RC=right_RC, answer_class_RC=np.where(right_RC, 0, 1)
    )


@pytest.fixture(scope="module")
def traces(world) -> Traces:
    sizes = {"easy": 300, "hard": 300, "rare": 9, None: 20}
    return of_kinds(world, sizes, {"hard": 0.8})


@pytest.fixture(scope="module")
def fitted(traces: Traces) -> list[Certificate]:
    return certify_kinds(traces, by="topic", delta=DELTA, alphas=ALPHAS)


def test_all_kinds_share_one_delta(traces: Traces, fitted: list[Certificate]) -> None:
    pooled, easy, hard = fitted
    assert [one.kind and one.kind.name for one in fitted] == [None, "easy", "hard"]
    assert sum(one.delta for one in fitted) == pytest.approx(DELTA)
    assert pooled.delta == pytest.approx(POOLED_SHARE * DELTA)
    assert easy.delta == hard.delta
    assert {one.whole_delta for one in fitted} == {DELTA}
    assert {one.kind and one.kind.pooled for one in fitted} == {("rare",)}
    everybody = pooled.n_problems + pooled.n_order_problems
    assert everybody == traces.n_problems, "all kinds, and problems without one"


def test_a_kind_is_certified_as_if_it_were_alone(traces: Traces, fitted: list[Certificate]) -> None:
    """Except for what the certificate says."""
    hard = fitted[2]
    alone = certify(traces.of_kind("hard"), delta=hard.delta, alphas=ALPHAS)
    said = {"kind": hard.kind, "covers": hard.covers, "does_not_cover": hard.does_not_cover}
    assert replace(alone, **said) == hard


def test_the_pooled_share_does_not_depend_on_how_many_kinds_have_enough(world) -> None:
    """This number depends on the sample, so the pooled test would not hold at such a share."""
    deltas = set()
    for sizes in ({"a": 300}, {"a": 300, "b": 300}, {"a": 300, "b": 300, "c": 10}, {"d": 10}):
        found = certify_kinds(of_kinds(world, {**sizes, None: 200}, {}), delta=DELTA, alphas=ALPHAS)
        deltas.add(found[0].delta)
    assert deltas == {POOLED_SHARE * DELTA}


def test_as_many_kinds_have_certificates_as_have_enough_labels_at_their_share(world) -> None:
    """Alone, the small kind would have enough; beside the large one, delta is divided."""
    how: Any = {"delta": DELTA, "alphas": (0.2,), "method": "chains"}
    alone = certify_kinds(of_kinds(world, {"small": 20, None: 300}, {}), **how)
    beside = certify_kinds(of_kinds(world, {"small": 20, "large": 300}, {}), **how)
    assert [one.kind.certified for one in (alone[0], beside[0]) if one.kind] == [
        ("small",),
        ("large",),
    ]
    assert beside[0].kind is not None
    assert beside[0].kind.pooled == ("small",)


@pytest.mark.parametrize("size", [144, 150, 160])
def test_more_labels_never_cost_a_kind_its_certificate(world, size: int) -> None:
    """From 150 problems on, the default learns from a tenth of them."""
    sizes = {"a": size, "b": size, "c": size}
    made = certify_kinds(of_kinds(world, sizes, {}), delta=0.1, alphas=(0.05,))
    assert made[0].kind is not None
    assert made[0].kind.certified == ("a", "b", "c")


def test_a_kind_that_takes_the_share_of_others_is_found(traces: Traces) -> None:
    """With the kinds left out that have enough labels, too, more of delta would be its own."""
    greedy = Kind("topic", "hard", ("hard",), ("easy", "rare"), DELTA)
    made = certify(traces.of_kind("hard"), delta=greedy.own_delta, alphas=ALPHAS)
    (said, *_) = verify(replace(made, kind=greedy), traces)
    assert said.startswith("kinds with enough labels is ('hard',) in the certificate, ('easy', 'h")


def test_each_certificate_says_for_which_questions_it_is(fitted: list[Certificate]) -> None:
    pooled, _, hard = fitted
    assert "problems of the kind 'hard' (topic)" in hard.covers
    assert "With probability at least 80%" in hard.covers
    assert "each of the 2 kinds 'easy', 'hard', and one for questions of all kinds" in hard.covers
    assert "questions of another kind, also if they are asked as 'hard'" in hard.does_not_cover
    assert (
        "questions of one of the kinds 'rare', which have too few labels" in pooled.does_not_cover
    )
    assert "Problems of all kinds are mixed as in the calibration." in pooled.covers


def test_a_file_keeps_it_and_one_without_kinds_has_no_such_field(
    tmp_path: Path, traces: Traces, fitted: list[Certificate]
) -> None:
    for number, made in enumerate(fitted):
        made.save(tmp_path / f"{number}.json")
        assert Certificate.load(tmp_path / f"{number}.json") == made
    assert "kind" not in certify(traces, alphas=ALPHAS).to_json()


def changed(made: Certificate, field: str, value: Any) -> dict[str, Any]:
    """The file of a certificate with another value of `kind`, and a digest that fits."""
    assert made.kind is not None
    return replace(made, kind=replace(made.kind, **{field: value})).to_json()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("delta", 0.1, "delta"),
        ("certified", ("easy", "hard", "more"), "delta is"),
        ("certified", ("hard", "easy"), "in order"),
        ("pooled", ("easy",), "covers|does_not_cover|each in one list"),
        ("by", "tenant", "covers"),
        ("name", "easy", "covers"),
    ],
)
def test_a_changed_kind_contradicts_the_certificate(
    fitted: list[Certificate], field: str, value: Any, said: str
) -> None:
    with pytest.raises(CertificateError, match=said):
        Certificate.from_json(json.loads(json.dumps(changed(fitted[2], field, value))))


def test_verification_takes_the_problems_of_the_kind(
    traces: Traces, fitted: list[Certificate]
) -> None:
    for made in fitted:
        assert verify(made, traces) == []
    assert verify(fitted[2], traces.of_kind("hard")) == [], "the kind alone is enough"


def test_verification_sees_other_kinds(traces: Traces, fitted: list[Certificate]) -> None:
    renamed = replace(
        traces, kinds=tuple("scarce" if kind == "rare" else kind for kind in traces.kinds or ())
    )
    for made in fitted:
        assert any(line.startswith("kinds is") for line in verify(made, renamed))
    moved = tuple("hard" if kind == "rare" else kind for kind in traces.kinds or ())
    found = verify(fitted[2], replace(traces, kinds=moved))
    assert any(line.startswith("calibration_digest") for line in found)


def test_traces_without_kinds_cannot_be_compared(traces: Traces, fitted: list[Certificate]) -> None:
    with pytest.raises(CalibrationError, match="read them with their column 'topic'"):
        verify(fitted[1], replace(traces, kinds=None))
    with pytest.raises(CalibrationError, match="no problem has a kind in the column 'topic'"):
        certify_kinds(replace(traces, kinds=None), by="topic")


def test_a_replay_takes_the_questions_of_the_kind(
    world, traces: Traces, fitted: list[Certificate]
) -> None:
    others = of_kinds(world, {"easy": 500, "hard": 500}, {"hard": 0.8}, seed=5)
    at_most = ALPHAS[1]
    for made, units in zip(fitted, (1000, 500, 500), strict=True):
        (level,) = [one for one in replay_certificate(made, others) if one.alpha == at_most]
        assert level.evaluation is not None
        assert level.evaluation.n_units == units


def test_kinds_without_a_name_are_no_kinds(traces: Traces) -> None:
    nameless = replace(traces, kinds=("",) * traces.n_problems)
    for made_of in (certify_kinds, plan_kinds):
        with pytest.raises(CalibrationError, match="no problem has a kind in the column 'topic'"):
            made_of(nameless, by="topic", alphas=ALPHAS)


def test_a_group_of_several_kinds_is_refused(traces: Traces) -> None:
    """How many problems of another kind were drawn must say nothing about this kind's losses."""
    groups = ["book" if kind in ("easy", None) else None for kind in traces.kinds or ()]
    divided = replace(traces, groups=tuple(groups))
    with pytest.raises(CalibrationError, match="the group 'book' has problems of the kinds"):
        certify_kinds(divided, by="topic", alphas=ALPHAS)
