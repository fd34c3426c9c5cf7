from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration import FULL_BUDGET, Certificate, ExitPolicy
from calibration.certificate.batches import Batches
from calibration.errors import CertificateError
from calibration.simulation.groups import Average, Groups
from calibration.testing.fwer import Promise
from calibration.testing.p_values import PValue
from rlcm_serve.answers.grader import GRADER
from rlcm_serve.core import (
    Budget,
    Expectation,
    Message,
    NoGuarantee,
    OnInfeasible,
    Question,
    RiskName,
    Role,
    Sampling,
    VoteRule,
)
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.worker.facts import EngineFacts
from rlcm_serve.errors import CertificateMismatch, Infeasible
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import Guarantees, Withdrawn, find_certificates
from rlcm_serve.solving.statement import guarantee_of
from tests.rlcm_serve.scripted_engine import BUDGET, IDENTITY, certificate, under

SAFE, FAST = ExitPolicy(lambda_high=0.95), ExitPolicy(lambda_high=0.8)
ONE = certificate({0.05: None, 0.1: SAFE, 0.2: FAST})
QUESTION = Question("A dial shows 3.", alpha=0.1)


def test_the_policy_is_that_of_the_largest_certified_level_not_above_alpha() -> None:
    guarantees = Guarantees([IDENTITY], [ONE])
    for alpha, served, policy in [(0.1, 0.1, SAFE), (0.15, 0.1, SAFE), (0.9, 0.2, FAST)]:
        terms = guarantees.terms_for(replace(QUESTION, alpha=alpha))
        assert terms.policy == policy
        assert terms.guarantee is not None
        assert terms.no_guarantee_reason is None
        assert terms.guarantee.alpha_requested == alpha
        assert terms.guarantee.alpha_certified == served
        assert terms.guarantee.certificate == ONE.id


@pytest.mark.parametrize(
    ("below", "alpha", "served"),
    [
        (None, 0.2, FULL_BUDGET),
        (0.2, 0.2, SAFE),
        (0.2, 0.9, SAFE),
        (0.2, 0.1, SAFE),
        (0.2, 0.05, FULL_BUDGET),  # no policy is certified there
        (0.1, 0.2, FULL_BUDGET),
    ],
)
def test_after_an_alarm_a_smaller_level_serves_without_a_guarantee_if_so_configured(
    below: float | None, alpha: float, served: ExitPolicy
) -> None:
    lost = Withdrawn("risk alarm", 1.0, below=below)
    terms = Guarantees([IDENTITY], [ONE], withdrawn={ONE.id: lost}).terms_for(
        replace(QUESTION, alpha=alpha)
    )
    assert (terms.policy, terms.guarantee) == (served, None)
    assert terms.no_guarantee_code is NoGuarantee.WITHDRAWN
    how = "at the full budget" if served is FULL_BUDGET else "with the policy of alpha 0.1"
    wanted = f"risk alarm; answered {how} until a fresh certificate is active"
    assert terms.no_guarantee_reason == wanted


def test_a_smaller_level_with_the_policy_that_alarmed_does_not_serve_on() -> None:
    made = certificate({0.05: SAFE, 0.1: FAST, 0.2: FAST})
    lost = Withdrawn("risk alarm", 1.0, below=0.2)
    guarantees = Guarantees([IDENTITY], [made], withdrawn={made.id: lost})
    terms = guarantees.terms_for(replace(QUESTION, alpha=0.2))
    assert terms.policy == SAFE
    assert "with the policy of alpha 0.05" in str(terms.no_guarantee_reason)


def test_guarantees_that_are_withdrawn_or_void_are_not_given() -> None:
    assert Guarantees([IDENTITY], [ONE]).given == {ONE.id}
    lost = {ONE.id: Withdrawn("risk alarm", 1.0, restored=2.0)}
    assert Guarantees([IDENTITY], [ONE], withdrawn=lost).given == frozenset()
    assert under_facts().given == {FITTED.id}
    assert under_facts(dtype="bfloat16").given == frozenset()


def test_the_statement_says_what_is_promised_and_what_is_not() -> None:
    guarantee = Guarantees([IDENTITY], [ONE]).terms_for(QUESTION).guarantee
    assert guarantee is not None
    for part in (
        "at most 10% get a wrong answer on average",
        "90% confidence",
        "500",
    ):
        assert part in guarantee.statement
    assert guarantee.n_problems == 500
    assert guarantee.method == ONE.method
    assert guarantee.covers == ONE.covers
    assert guarantee.does_not_cover == ONE.does_not_cover
    assert "whichever alpha is chosen" in guarantee.statement
    pointwise = certificate({0.1: SAFE}, promise=Promise.POINTWISE)
    guarantee = Guarantees([IDENTITY], [pointwise]).terms_for(QUESTION).guarantee
    assert guarantee is not None
    assert "if alpha was chosen beforehand" in guarantee.statement
    assert len(guarantee.statement.split()) <= 48


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.07])
def test_an_alpha_below_every_certified_level_is_infeasible(alpha: float) -> None:
    with pytest.raises(Infeasible) as caught:
        Guarantees([IDENTITY], [ONE]).terms_for(replace(QUESTION, alpha=alpha))
    assert caught.value.alpha == alpha
    assert caught.value.smallest_certifiable == 0.0432
    assert caught.value.certified == (0.1, 0.2)


def test_pointwise_does_not_fall_through_a_level_that_failed() -> None:
    pointwise = certificate({0.1: SAFE, 0.2: None}, promise=Promise.POINTWISE)
    with pytest.raises(Infeasible):
        Guarantees([IDENTITY], [pointwise]).terms_for(replace(QUESTION, alpha=0.2))


def test_without_a_certificate_the_full_budget_is_spent_and_nothing_promised() -> None:
    terms = Guarantees([IDENTITY]).terms_for(QUESTION)
    assert terms.policy == FULL_BUDGET
    assert terms.guarantee is None
    assert "no certificate is loaded" in (terms.no_guarantee_reason or "")


@pytest.mark.parametrize(
    ("changed", "both_values"),
    [
        (replace(QUESTION, samples=4), ["n is 4", "the certified value is 1"]),
        (
            replace(QUESTION, max_tokens=50),
            ["max_tokens is 50", f"the certified value is {BUDGET}"],
        ),
        (replace(QUESTION, temperature=0.5), ["temperature is 0.5", "the certified value is 0.8"]),
        (replace(QUESTION, top_p=0.9), ["top_p is 0.9", "the certified value is 1"]),
        (replace(QUESTION, seed=7), ["seed is 7", "certificates assume unseeded sampling"]),
        (replace(QUESTION, context=(Message(Role.SYSTEM, "Be brief."),)), ["system prompt"]),
        (
            replace(
                QUESTION, context=(Message(Role.USER, "Hi."), Message(Role.ASSISTANT, "Hello."))
            ),
            ["several turns"],
        ),
    ],
)
def test_a_departure_keeps_the_policy_and_loses_the_guarantee(
    changed: Question, both_values: list[str]
) -> None:
    terms = Guarantees([IDENTITY], [ONE]).terms_for(changed)
    assert terms.policy == SAFE
    assert terms.guarantee is None
    for part in both_values:
        assert part in (terms.no_guarantee_reason or "")


@pytest.mark.parametrize(
    "same",
    [
        replace(QUESTION, max_tokens=BUDGET),
        replace(QUESTION, vote=VoteRule.MAJORITY),
        replace(QUESTION, temperature=0.8, top_p=1.0),
        replace(QUESTION, timeout=1.0, stop_when_decided=False),
    ],
)
def test_what_changes_nothing_keeps_the_guarantee(same: Question) -> None:
    assert Guarantees([IDENTITY], [ONE]).terms_for(same).guarantee is not None


def test_max_tokens_is_the_thinking_budget() -> None:
    guarantees = Guarantees([IDENTITY], [ONE])
    assert guarantees.terms_for(QUESTION).budget == IDENTITY.budget
    assert guarantees.terms_for(replace(QUESTION, max_tokens=50)).budget == Budget(50, 8)


def test_the_certificate_for_the_number_of_samples_is_used() -> None:
    eight = certificate({0.1: FAST}, fingerprint=fingerprint_of(IDENTITY, samples=8))
    guarantees = Guarantees([IDENTITY], [eight, ONE])
    terms = guarantees.terms_for(replace(QUESTION, samples=8))
    assert terms.policy == FAST
    assert terms.guarantee is not None
    assert terms.guarantee.certificate == eight.id
    assert guarantees.terms_for(replace(QUESTION, samples=3)).policy == SAFE


@pytest.mark.parametrize(
    ("engine", "difference"),
    [
        (replace(IDENTITY, model="m1"), "model: 'm0' here, 'm1' there"),
        (replace(IDENTITY, sampling=Sampling(0.7, 1.0)), "temperature: 0.8 here, 0.7 there"),
        (replace(IDENTITY, budget=Budget(BUDGET, 9)), "answer_max_tokens: 8 here, 9 there"),
    ],
)
def test_a_certificate_for_another_engine_is_refused(
    engine: EngineIdentity, difference: str
) -> None:
    with pytest.raises(CertificateMismatch, match=difference):
        Guarantees([engine], [ONE])


def test_a_certificate_of_another_grader_says_how_to_grade_its_traces_again() -> None:
    old = replace(fingerprint_of(IDENTITY), grader="an older one")
    with pytest.raises(CertificateMismatch, match=r"traces again with `rlcm regrade`"):
        Guarantees([IDENTITY], [certificate({0.1: FAST}, fingerprint=old)])
    other = replace(old, model="m1")
    with pytest.raises(CertificateMismatch, match="Serve the model and settings"):
        Guarantees([IDENTITY], [certificate({0.1: FAST}, fingerprint=other)])


def test_two_certificates_for_one_procedure_are_refused() -> None:
    with pytest.raises(CertificateMismatch, match="same procedure"):
        Guarantees([IDENTITY], [ONE, certificate({0.1: FAST})])
    by_number = certificate({0.1: FAST}, fingerprint=fingerprint_of(IDENTITY, vote="majority"))
    with pytest.raises(CertificateMismatch, match="same procedure"):
        Guarantees([IDENTITY], [ONE, by_number])


def test_each_procedure_is_served_by_its_own_certificate() -> None:
    def fitted(risk: str = "selective", **changes: Any) -> Certificate:
        policy = replace(FAST, patience=sum(map(ord, repr((risk, changes)))))  # tells them apart
        return certificate(
            {0.1: policy}, fingerprint=fingerprint_of(IDENTITY, **changes), risk=risk
        )

    certified = {
        QUESTION: fitted(),
        replace(QUESTION, risk=RiskName.REGRET): fitted("regret"),
        replace(QUESTION, max_tokens=48): fitted(max_tokens=48),
        replace(QUESTION, samples=4): fitted(samples=4),
        replace(QUESTION, samples=4, vote=VoteRule.MAJORITY): fitted(samples=4, vote="majority"),
        replace(QUESTION, samples=4, max_tokens=48): fitted(samples=4, max_tokens=48),
    }
    guarantees = Guarantees([IDENTITY], list(certified.values()))
    for question, its_own in certified.items():
        terms = guarantees.terms_for(question)
        assert terms.guarantee is not None
        assert terms.guarantee.certificate == its_own.id
        assert terms.policy == its_own.levels[0].policy  # type: ignore[union-attr]
        assert terms.expectation == Expectation(200.0, 400.0)


@pytest.mark.parametrize(
    ("risk", "said"),
    [
        (
            "selective",
            "Of the questions that this policy answers, at most 10% get a wrong answer on average. "
            "This covers first asks of questions drawn as the calibration's were, with 90% "
            "confidence over",
        ),
        ("error", "Of all questions, at most 10% get a wrong answer on average. "),
        (
            "regret",
            "Of all questions, at most 10% on average lose a right answer to early stopping.",
        ),
    ],
)
def test_each_risk_is_said_in_its_own_words(risk: str, said: str) -> None:
    guarantees = Guarantees([IDENTITY], [certificate({0.1: FAST}, risk=risk)])
    guarantee = guarantees.terms_for(replace(QUESTION, risk=RiskName(risk))).guarantee
    assert guarantee is not None
    assert guarantee.risk == risk
    assert said in guarantee.statement
    assert len(guarantee.statement.split()) <= 48


@pytest.mark.parametrize("risk", RiskName)
def test_groups_are_said(risk: RiskName) -> None:
    made = certificate({0.1: FAST}, risk=risk.value)
    statements = {}
    for groups in (Groups(max_size=4), Groups(Average.GROUPS)):
        grouped = replace(made, n_units=300, groups=groups)
        guarantee = guarantee_of(grouped, grouped.level_for(0.1), 0.1)
        statements[groups.average] = guarantee.statement
        assert "over the draw of 300 calibration groups" in guarantee.statement
        assert len(guarantee.statement.split()) <= 48
    assert statements[Average.PROBLEMS].startswith("Of ")
    assert statements[Average.GROUPS].startswith("Counting every group equally, of ")


@pytest.mark.parametrize("risk", RiskName)
def test_a_sequential_certificate_says_that_it_holds_at_any_time(risk: RiskName) -> None:
    made = replace(certificate({0.1: FAST}, risk=risk.value), sequential=Batches("0" * 64))
    statement = guarantee_of(made, made.level_for(0.1), 0.1).statement
    assert statement.endswith("calibration problems, at all times and whichever alpha is chosen.")
    assert len(statement.split()) <= 48


def test_an_asymptotic_test_is_not_said_to_hold_at_a_finite_number() -> None:
    made = replace(certificate({0.1: FAST}), p_value=PValue.CLT)
    statement = guarantee_of(made, made.level_for(0.1), 0.1).statement
    assert "with 90% confidence in the limit of many problems over the draw of 500" in statement


def test_a_risk_without_a_certificate_is_answered_at_full_budget() -> None:
    terms = Guarantees([IDENTITY], [ONE]).terms_for(replace(QUESTION, risk=RiskName.ERROR))
    assert terms.policy == FULL_BUDGET
    assert terms.guarantee is None
    assert terms.expectation is None
    for part in ("'error'", "full budget", "selective"):
        assert part in (terms.no_guarantee_reason or "")


@pytest.mark.parametrize(
    ("then", "policy", "said"),
    [
        (OnInfeasible.FULL_BUDGET, FULL_BUDGET, "answered at the full budget"),
        (OnInfeasible.ABSTAIN, None, "not answered"),
    ],
)
def test_what_is_done_at_an_infeasible_alpha_is_the_callers_choice(
    then: OnInfeasible, policy: ExitPolicy | None, said: str
) -> None:
    asked = replace(QUESTION, alpha=0.01, on_infeasible=then)
    terms = Guarantees([IDENTITY], [ONE]).terms_for(asked)
    assert terms.policy == policy
    assert terms.guarantee is None
    assert said in (terms.no_guarantee_reason or "")
    assert "0.0432" in (terms.no_guarantee_reason or "")


def test_a_risk_of_ones_own_is_refused() -> None:
    with pytest.raises(CertificateMismatch, match="'tokens and errors'"):
        Guarantees([IDENTITY], [certificate({0.1: FAST}, risk="tokens and errors")])


def test_a_certificate_of_traces_without_a_fingerprint_is_refused() -> None:
    with pytest.raises(CertificateMismatch, match="not servable: its traces have no fingerprint"):
        Guarantees([IDENTITY], [certificate({0.1: FAST}, fingerprint=None)])


def test_the_fingerprint_names_the_grader() -> None:
    assert fingerprint_of(IDENTITY).grader == GRADER


def test_certificates_are_found_in_the_models_folder(tmp_path: Path) -> None:
    assert find_certificates(tmp_path) == ()
    folder = tmp_path / "certificates"
    folder.mkdir()
    (folder / "README.md").write_text("none")
    ONE.save(folder / "one.json")
    files = find_certificates(tmp_path)
    assert files == (folder / "one.json",)
    assert Guarantees.load([IDENTITY], files).certificates == (ONE,)


def test_an_edited_certificate_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    ONE.save(file)
    file.write_text(file.read_text().replace('"delta": 0.1', '"delta": 0.01'))
    with pytest.raises(CertificateError, match=r"one\.json"):
        Guarantees.load([IDENTITY], [file])


BRIEF = Profile("brief", system="Be brief.", top_k=20)
KIND = Profile("kind", system="Be kind.")
ALL = [IDENTITY, under(BRIEF), under(KIND)]


def of_profile(profile: Profile, policy: ExitPolicy = FAST) -> Certificate:
    return certificate({0.1: policy}, fingerprint=fingerprint_of(under(profile)))


def test_each_profile_has_its_own_certificate_for_one_procedure() -> None:
    brief = of_profile(BRIEF)
    guarantees = Guarantees(ALL, [ONE, brief])
    assert guarantees.profiles_of(ONE.id) == ("default",)
    assert guarantees.profiles_of(brief.id) == ("brief",)
    for profile, made, policy in (("brief", brief, FAST), (None, ONE, SAFE)):
        terms = guarantees.terms_for(replace(QUESTION, profile=profile))
        assert terms.policy == policy
        assert terms.guarantee is not None
        assert terms.guarantee.certificate == made.id


def test_a_profile_without_a_certificate_has_no_guarantee_and_says_which_have_one() -> None:
    guarantees = Guarantees(ALL, [ONE, of_profile(BRIEF)])
    terms = guarantees.terms_for(replace(QUESTION, profile="kind"))
    assert (terms.policy, terms.guarantee) == (FULL_BUDGET, None)
    reason = terms.no_guarantee_reason or ""
    assert "no certificate is for the profile 'kind'" in reason
    assert "profiles with a certificate: default, brief" in reason


def test_a_certificate_of_a_profile_that_is_not_served_names_what_differs() -> None:
    with pytest.raises(CertificateMismatch) as refused:
        Guarantees([IDENTITY, under(KIND)], [of_profile(BRIEF)])
    message = str(refused.value)
    assert "under the profile 'kind', the nearest" in message or "'default'" in message
    assert "top_k: 20 here, 0 there" in message
    assert "system_prompt: one here" in message
    assert "Serve the profile it was fitted with (--profile FILE)" in message


def test_profiles_that_ask_alike_share_their_certificates() -> None:
    alias = replace(BRIEF, name="short")
    guarantees = Guarantees([IDENTITY, under(BRIEF), under(alias)], [of_profile(BRIEF)])
    for name in ("brief", "short"):
        assert guarantees.terms_for(replace(QUESTION, profile=name)).guarantee is not None


def test_the_default_profile_keeps_the_fingerprint_that_it_had() -> None:
    assert set(fingerprint_of(IDENTITY).to_json()) == {
        *("model", "probe", "tokenizer", "chat_template", "temperature", "top_p"),
        *("checkpoint_interval", "max_tokens", "answer_max_tokens", "forced_suffix", "grader"),
        *("samples", "vote"),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"system": "Be brief!"},
        {"template": "Q: {problem}"},
        {"variables": {"enable_thinking": False}},
        {"thinking": "none"},
        {"top_k": 21},
        {"min_p": 0.1},
        {"max_tokens": 50},
        {"extractor": "text"},
        {"schema": {"type": "object"}},
    ],
)
def test_every_part_of_a_profile_is_in_the_fingerprint(changed: dict[str, Any]) -> None:
    other = fingerprint_of(under(replace(BRIEF, **changed)))
    assert len(fingerprint_of(under(BRIEF)).differences(other)) == 1


FACTS = EngineFacts(
    dtype="float32",
    kv_cache_dtype="float32",
    attention_backend="CPU_ATTN",
    vllm="0.31",
    model_runner="v1",
    device="cpu",
)
AS_FITTED = replace(IDENTITY, facts=FACTS)
FITTED = certificate({0.1: SAFE}, fingerprint=fingerprint_of(AS_FITTED))


def under_facts(**changed: str) -> Guarantees:
    return Guarantees([replace(IDENTITY, facts=replace(FACTS, **changed))], [FITTED])


def test_on_the_engine_it_was_fitted_on_a_certificate_has_no_caveats() -> None:
    assert under_facts().terms_for(QUESTION).guarantee is not None
    assert under_facts().caveats(FITTED.id) == ()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("dtype", "bfloat16", "dtype is bfloat16, the certified value is float32"),
        ("quantization", "fp8", "quantization is fp8, the certified value is none"),
        ("kv_cache_dtype", "fp8", "kv_cache_dtype is fp8, the certified value is float32"),
        ("overrides", '{"lora_dtype":"float16"}', 'overrides is {"lora_dtype":"float16"}'),
        ("lossy_speculation", "draft_model, 3 tokens, synthetic", "lossy_speculation is draft"),
    ],
)
def test_an_engine_that_computes_other_numbers_gives_no_guarantee(
    name: str, value: str, said: str
) -> None:
    guarantees = under_facts(**{name: value})
    terms = guarantees.terms_for(QUESTION)
    assert terms.guarantee is None
    assert terms.policy == SAFE
    assert said in (terms.no_guarantee_reason or "")
    assert "start the engine with the certified values, or" in (terms.no_guarantee_reason or "")
    (caveat,) = guarantees.caveats(FITTED.id)
    assert caveat.startswith(said)
    assert "no guarantee" in caveat


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attention_backend", "FLASH_ATTN"),
        ("vllm", "0.32"),
        ("model_runner", "v2"),
        ("device", "cuda (NVIDIA H100 80GB HBM3)"),
        ("speculation", "draft_model, 3 tokens, standard"),
    ],
)
def test_an_engine_that_rounds_otherwise_keeps_the_guarantee_and_says_so(
    name: str, value: str
) -> None:
    guarantees = under_facts(**{name: value})
    assert guarantees.terms_for(QUESTION).guarantee is not None
    (caveat,) = guarantees.caveats(FITTED.id)
    certified = getattr(FACTS, name) or "none"
    assert caveat.startswith(f"{name} is {value}, the certified value is {certified}")
    assert "rounding" in caveat


def test_a_certificate_that_does_not_say_what_it_was_fitted_with_gives_no_guarantee() -> None:
    terms = Guarantees([AS_FITTED], [ONE]).terms_for(QUESTION)
    assert terms.guarantee is None
    assert "dtype is float32, the certified value is not recorded" in terms.no_guarantee_reason


def test_the_name_of_a_profile_is_not_in_the_fingerprint() -> None:
    assert fingerprint_of(under(BRIEF)) == fingerprint_of(under(replace(BRIEF, name="b")))
