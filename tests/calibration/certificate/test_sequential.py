"""Sequential certificates: what is fixed, what may be added, and what is refused."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration import (
    CalibrationError,
    Certificate,
    CertificateError,
    CertifiedLevel,
    Promise,
    Traces,
    certify,
    verify,
)
from calibration.canonical import canonical_json
from calibration.certificate import batches
from calibration.certificate.batches import Batch, Batches
from calibration.certificate.design import Design
from calibration.certificate.sequential import (
    certify_sequential,
    problems_to_label,
    sequential_design,
)
from calibration.simulation.losses import Losses
from calibration.simulation.replay import replay
from calibration.simulation.risks import RISKS
from tests.calibration.recordings import in_groups, several_rollouts

ALPHAS = (0.2, 0.3)


def first(traces: Traces, n: int) -> Traces:
    """The first problems by name."""
    return traces.select(np.arange(traces.n_problems) < n)


@pytest.fixture(scope="module")
def traces(world: Any) -> Traces:
    """300 problems."""
    drawn: Traces = world.draw(np.random.default_rng(0), 300)
    return drawn


@pytest.fixture(scope="module")
def design(traces: Traces) -> Design:
    return sequential_design(traces, 300, alphas=ALPHAS)


@pytest.fixture(scope="module")
def begun(traces: Traces, design: Design) -> Certificate:
    """With the first 30 problems."""
    return certify_sequential(first(traces, 30), design)


@pytest.fixture(scope="module")
def extended(traces: Traces, begun: Certificate) -> Certificate:
    return certify_sequential(traces, begun)


def test_problems_are_added_until_a_level_is_certified(
    begun: Certificate, extended: Certificate
) -> None:
    assert not any(level.certified for level in begun.levels)
    assert all(level.certified for level in extended.levels)
    assert [level.alpha for level in extended.levels] == list(ALPHAS)
    assert (begun.n_problems, extended.n_problems) == (30, 300)


def test_an_extension_keeps_the_design_and_the_earlier_batches(
    begun: Certificate, extended: Certificate, design: Design
) -> None:
    assert begun.sequential is not None
    assert extended.sequential is not None
    assert begun.design == extended.design == design
    assert begun.sequential.design == extended.sequential.design == design.digest
    assert extended.sequential.batches[:1] == begun.sequential.batches
    assert [batch.n_problems for batch in extended.sequential.batches] == [30, 270]


def numbers_as_losses(traces: Traces) -> Losses:
    """The place of each problem by its name, in the order of `Traces.unit_P`."""
    return Losses.unweighted(np.argsort(traces.unit_P).astype(float)[:, None])


def test_a_policy_that_was_certified_is_tested_with_no_larger_p_value_later(
    traces: Traces, design: Design
) -> None:
    early = certify_sequential(first(traces, 200), design)
    late = certify_sequential(traces, early)
    assert early.sequential is not None
    assert late.sequential is not None
    some = first(traces, 200)
    at_first = early.sequential.in_order(numbers_as_losses(some), some)
    later = late.sequential.in_order(numbers_as_losses(traces), traces)
    assert later.loss_UT[:200].tolist() == at_first.loss_UT.tolist()


def test_losses_that_are_counted_stay_where_later_problems_have_the_same_readings(
    traces: Traces,
) -> None:
    """All readings are the same, and the problems of the second batch come first by their names."""
    several = several_rollouts(traces, 6)
    several = replace(several, confidence_RC=np.full_like(several.confidence_RC, 0.5))
    early = np.arange(several.n_problems) >= 20
    design = sequential_design(several, 50, risk="error", alphas=(0.7,), samples=2)
    begun = certify_sequential(several.select(early), design)
    made = certify_sequential(several, begun)

    def losses(certificate: Certificate, recorded: Traces) -> Any:
        of = certificate.problems_of(recorded)
        found = replay(of, certificate.tested.policies, RISKS["error"], certificate.procedure)
        return certificate.in_test_order(found.losses, of).loss_UT

    before = losses(begun, several.select(early))
    assert len(np.unique(before)) > 2
    assert losses(made, several)[: len(before)].tolist() == before.tolist()
    assert verify(begun, several.select(early)) == []
    assert verify(made, several) == []


def test_labels_of_what_is_listed_are_enough_also_where_problems_recorded_the_same(
    traces: Traces,
) -> None:
    several = several_rollouts(traces, 6)
    several = replace(several, confidence_RC=np.full_like(several.confidence_RC, 0.5))
    early = np.arange(several.n_problems) < 20
    design = sequential_design(several, 50, risk="regret", alphas=(0.7,), samples=2, draws=1)
    begun = certify_sequential(several.select(early), design)
    listed = problems_to_label(begun, several, RISKS["regret"])
    unlabelled_P = ~np.isin(several.problem_ids, listed) & ~early
    assert 0 < unlabelled_P.sum() < 30
    made = certify_sequential(replace(several, unlabelled_P=unlabelled_P), begun)
    assert made.levels == certify_sequential(several, begun).levels


def test_labels_of_what_is_listed_are_enough_where_rollouts_recorded_the_same(
    traces: Traces,
) -> None:
    """All rollouts are as long and as sure: what is listed must be what the test then draws."""
    several = several_rollouts(traces, 3)
    n = several.n_rollouts
    several = replace(
        several,
        natural_R=np.ones(n, dtype=np.bool_),
        final_R=np.ones(n, dtype=np.intp),
        tokens_RC=np.tile([32, 40], (n, 1)),
        confidence_RC=np.full((n, 2), 0.7),
        answer_tokens_RC=np.full((n, 2), 3),
        answer_class_RC=several.answer_class_RC[:, :2],
        correct_RC=several.correct_RC[:, :2],
    )
    design = sequential_design(
        several, several.n_problems, risk="regret", alphas=(0.5,), samples=2, draws=1
    )
    unlabelled_P = ~np.isin(
        several.problem_ids, problems_to_label(design, several, RISKS["regret"])
    )
    assert 0 < unlabelled_P.sum() < several.n_problems
    partly = replace(
        several,
        unlabelled_P=unlabelled_P,
        correct_RC=several.correct_RC & ~unlabelled_P[several.problem_R][:, None],
    )
    (by_listed,), (by_all,) = (certify_sequential(one, design).levels for one in (partly, several))
    assert isinstance(by_listed, CertifiedLevel)
    assert isinstance(by_all, CertifiedLevel)
    assert (by_listed.p_value, by_listed.total_loss) == (by_all.p_value, by_all.total_loss)


def test_problems_that_need_a_label_are_listed_for_a_certificate_that_is_not_sequential(
    traces: Traces,
) -> None:
    certificate = certify(traces, alphas=(0.3,))
    listed = problems_to_label(certificate, traces, RISKS["selective"])
    assert 0 < len(listed) <= traces.n_problems


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("risk", ["selective", "regret"])
def test_verification_finds_no_difference(traces: Traces, risk: str, grouped: bool) -> None:
    several = several_rollouts(traces, 3)
    several = in_groups(several, 2) if grouped else several
    design = sequential_design(several, 100, risk=risk, alphas=ALPHAS, samples=2, draws=2)
    begun = certify_sequential(first(several, 40), design)
    made = certify_sequential(several, begun)
    assert verify(begun, first(several, 40)) == []
    assert verify(made, several) == []


def test_verification_finds_a_changed_level(traces: Traces, extended: Certificate) -> None:
    level = extended.levels[0]
    assert isinstance(level, CertifiedLevel)
    changed = replace(extended, levels=(replace(level, p_value=level.p_value / 2),
                                        *extended.levels[1:]))  # fmt: skip
    assert any("p_value" in difference for difference in verify(changed, traces))


def test_a_file_holds_it_all(extended: Certificate, tmp_path: Any) -> None:
    extended.save(tmp_path / "certificate.json")
    assert Certificate.load(tmp_path / "certificate.json") == extended


def test_other_certificates_do_not_change(traces: Traces) -> None:
    made = certify(traces, alphas=ALPHAS)
    assert made.sequential is None
    assert "sequential" not in made.to_json()


def test_the_texts_say_what_it_lifts_and_what_not(extended: Certificate, traces: Traces) -> None:
    assert "at all times together" in extended.covers
    assert any("easier than the population" in one for one in extended.does_not_cover)
    assert "at all times" not in certify(traces, alphas=ALPHAS).covers


def test_a_design_file_starts_a_certificate(
    design: Design, begun: Certificate, traces: Traces, tmp_path: Any
) -> None:
    design.save(tmp_path / "design.json")
    read = Design.from_json(json.loads((tmp_path / "design.json").read_text()))
    assert read == design
    assert certify_sequential(first(traces, 30), read) == begun


def test_an_edited_design_is_refused(design: Design, tmp_path: Any) -> None:
    design.save(tmp_path / "design.json")
    values = json.loads((tmp_path / "design.json").read_text())
    with pytest.raises(CertificateError, match="does not match its digest"):
        Design.from_json({**values, "delta": 0.2})
    with pytest.raises(CertificateError, match="malformed"):
        Design.from_json({**values, "groups": {"average": "nonsense"}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta", None),
        ("delta", 1.5),
        ("alphas", ["x"]),
        ("risk", []),
        ("groups", {}),
        ("n_order_problems", 5),
    ],
)
def test_a_design_of_impossible_values_makes_no_certificate(
    traces: Traces, design: Design, name: str, value: object
) -> None:
    """Whoever edits a file can compute its digest."""
    content = {**json.loads(json.dumps(design.to_json())), name: value}
    digest = hashlib.sha256(canonical_json(content)).hexdigest()
    with pytest.raises(CalibrationError):
        certify_sequential(traces, Design.from_json({**content, "digest": digest}))


@pytest.mark.parametrize("price", [-1.0, 1.5, float("nan")])
def test_a_token_price_is_a_share(traces: Traces, design: Design, price: float) -> None:
    with pytest.raises(CalibrationError, match="token_price is"):
        certify_sequential(traces, design, token_price=price)


def test_a_design_depends_on_no_label(traces: Traces, design: Design) -> None:
    relabelled = replace(
        traces, correct_RC=~traces.correct_RC, answer_class_RC=1 - traces.answer_class_RC
    )
    assert sequential_design(relabelled, 300, alphas=ALPHAS).digest == design.digest


def changed(certificate: Certificate, **values: Any) -> Any:
    """The file of a certificate with other values, and a digest that fits them."""
    content = {**certificate.to_json(), **values}
    del content["id"], content["digest"]
    digest = hashlib.sha256(canonical_json(content)).hexdigest()
    return {**content, "id": digest[:12], "digest": digest}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"delta": 0.2}, "covers|sequential.design"),
        ({"order_digest": "0" * 64, "n_order_problems": 7}, "sequential.design"),
        ({"p_value": "betting"}, "sequential"),
    ],
)
def test_a_certificate_that_left_its_design_is_refused(
    extended: Certificate, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(CertificateError, match=said):
        Certificate.from_json(changed(extended, **values))


def test_batches_that_overlap_or_do_not_add_up_are_refused(extended: Certificate) -> None:
    assert extended.sequential is not None
    batch, other = extended.sequential.batches
    twice = Batches(extended.sequential.design, (batch, replace(other, units=batch.units)))
    with pytest.raises(CertificateError, match="n_units"):
        Certificate.from_json(changed(extended, sequential=twice.to_json()))
    shared = replace(other, units=(*other.units[1:], batch.units[0]))
    twice = Batches(extended.sequential.design, (batch, shared))
    with pytest.raises(CertificateError, match="disjoint"):
        Certificate.from_json(changed(extended, sequential=twice.to_json()))


def test_the_same_problems_again_are_refused(traces: Traces, begun: Certificate) -> None:
    with pytest.raises(CalibrationError, match="counted already"):
        certify_sequential(first(traces, 30), begun)


def test_an_earlier_batch_must_be_there(traces: Traces, begun: Certificate) -> None:
    without = traces.select(np.arange(traces.n_problems) >= 10)
    with pytest.raises(CalibrationError, match="10 of 30 problems or groups of batch 1"):
        certify_sequential(without, begun)


def test_an_earlier_batch_must_not_change(traces: Traces, begun: Certificate) -> None:
    flipped = traces.correct_RC.copy()
    flipped[:2] = ~flipped[:2]
    relabelled = replace(traces, correct_RC=flipped, answer_class_RC=np.where(flipped, 0, 1))
    with pytest.raises(CalibrationError, match="batch 1 have changed"):
        certify_sequential(relabelled, begun)


def test_a_later_member_of_a_counted_group_is_refused(traces: Traces) -> None:
    pairs = in_groups(first(traces, 80), 2)
    design = sequential_design(pairs, 40, alphas=ALPHAS, max_group_size=3)
    begun = certify_sequential(first(pairs, 60), design)
    late = replace(pairs, groups=(*pairs.groups[:70], pairs.groups[0], *pairs.groups[71:]))
    with pytest.raises(CalibrationError, match="a group must be complete"):
        certify_sequential(late, begun)
    larger = replace(pairs, groups=(*pairs.groups[:76], *["one"] * 4))
    with pytest.raises(CalibrationError, match="4 problems, and max_group_size is 3"):
        certify_sequential(larger, begun)


def test_groups_cannot_come_where_the_design_has_none(traces: Traces, begun: Certificate) -> None:
    groups = (*[None] * 30, *[f"g{i // 2}" for i in range(270)])
    with pytest.raises(CalibrationError, match="the design has none"):
        certify_sequential(replace(traces, groups=groups), begun)


def test_another_fingerprint_is_refused(traces: Traces, begun: Certificate) -> None:
    assert traces.fingerprint is not None
    other = replace(traces, fingerprint=replace(traces.fingerprint, temperature=0.1))
    with pytest.raises(CertificateError, match="temperature"):
        certify_sequential(other, begun)


def test_a_certificate_of_a_fixed_number_of_problems_cannot_be_extended(traces: Traces) -> None:
    fixed = certify(first(traces, 100), alphas=ALPHAS)
    with pytest.raises(CalibrationError, match="is not sequential"):
        certify_sequential(traces, fixed)


def test_the_anytime_test_is_for_sequential_certificates_alone(traces: Traces) -> None:
    with pytest.raises(CalibrationError, match="only sequential certificates use"):
        certify(traces, alphas=ALPHAS, p_value="anytime")


def test_a_method_that_learns_needs_other_problems(traces: Traces, world: Any) -> None:
    with pytest.raises(CalibrationError, match="give `order`"):
        sequential_design(traces, 300, method="split")
    other = world.draw(np.random.default_rng(1), 150, "o")
    design = sequential_design(other, 300, alphas=ALPHAS, method="split", order=other)
    made = certify_sequential(traces, design, order=other)
    assert made.n_order_problems == 150
    assert verify(made, traces, order=other) == []
    learned_nothing = sequential_design(traces, 300, alphas=ALPHAS)
    with pytest.raises(CalibrationError, match="leave out --order and --probe"):
        certify_sequential(traces, learned_nothing, order=other)
    with pytest.raises(CalibrationError, match="in both splits"):
        certify_sequential(other, design, order=other)


def test_what_comes_first_by_name_is_not_first_in_the_test(world: Any) -> None:
    """The losses fall with the names, and the order of the test does not follow them."""
    drawn = world.draw(np.random.default_rng(2), 400)
    batches = Batches("d" * 64, (Batch.of(drawn),))
    place_U1 = np.arange(400.0)[:, None]
    order_U = batches.in_order(Losses.unweighted(place_U1), drawn).loss_UT[:, 0]
    assert sorted(order_U) == list(range(400))
    assert abs(np.corrcoef(order_U, np.arange(400))[0, 1]) < 0.15


def test_names_are_hashed_once_however_many_batches_there_are(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = Batches("design")
    for n in range(10, 60, 10):
        several = several.extended(first(traces, n))
    hashed: list[str] = []
    digest = batches._digest
    monkeypatch.setattr(batches, "_digest", lambda name: hashed.append(name) or digest(name))
    losses = Losses.unweighted(np.zeros((50, 1)))
    assert several.in_order(losses, first(traces, 50)).n_units == 50
    assert len(hashed) == 50


def test_pointwise_levels_have_all_of_delta_at_all_times(traces: Traces) -> None:
    design = sequential_design(traces, 300, alphas=ALPHAS, promise=Promise.POINTWISE)
    made = certify_sequential(traces, design)
    together = certify_sequential(traces, replace(design, promise=Promise.SIMULTANEOUS))
    assert sum(one.certified for one in made.levels) >= sum(
        one.certified for one in together.levels
    )


@pytest.fixture(scope="module")
def pilot(world: Any) -> Traces:
    drawn: Traces = world.draw(np.random.default_rng(9), 100, "o")
    return drawn


@pytest.fixture(scope="module", params=[0.4, 0.25])
def shared(request: pytest.FixtureRequest, pilot: Traces) -> Design:
    """Two fifths of the problems have a label, drawn evenly or doubtful ones more often."""
    return sequential_design(
        pilot, 300, alphas=ALPHAS, order=pilot, label_share=0.4, least_share=request.param
    )


def without_labels(traces: Traces, design: Design, drawn: bool) -> Traces:
    """The problems that were not drawn (or were) have other labels."""
    labelled_P = design.draw(traces, RISKS["selective"]).labelled_U1[traces.unit_P, 0]
    kept_R1 = (labelled_P != drawn)[traces.problem_R][:, None]
    return replace(traces, correct_RC=np.where(kept_R1, False, traces.correct_RC))


def test_labels_of_a_share_are_enough_from_the_design_to_verification(
    shared: Design, pilot: Traces, traces: Traces, tmp_path: Any
) -> None:
    shared.save(tmp_path / "design.json")
    assert Design.from_json(json.loads((tmp_path / "design.json").read_text())) == shared
    begun = certify_sequential(first(traces, 100), shared, order=pilot)
    made = certify_sequential(traces, begun, order=pilot)
    made.save(tmp_path / "certificate.json")
    assert Certificate.load(tmp_path / "certificate.json") == made
    assert made.levels[-1].certified
    assert "labels are" not in made.covers
    assert "Labels were drawn at random" in made.covers
    assert verify(made, traces, order=pilot) == []


def test_labels_that_were_not_drawn_change_no_level(
    shared: Design, pilot: Traces, traces: Traces
) -> None:
    made = certify_sequential(traces, shared, order=pilot)
    unlabelled = without_labels(traces, shared, drawn=True)
    assert certify_sequential(unlabelled, shared, order=pilot).levels == made.levels
    wrong = certify_sequential(without_labels(traces, shared, drawn=False), shared, order=pilot)
    assert wrong.levels != made.levels


def test_a_share_of_labels_needs_other_problems(traces: Traces) -> None:
    with pytest.raises(CalibrationError, match="give `order`"):
        sequential_design(traces, 300, method="chains", label_share=0.5)


def test_designs_without_a_share_keep_their_digests(design: Design) -> None:
    assert "label_share" not in design.to_json()
