"""Bad input, end to end: the error names the value and the remedy, and nothing is written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibration import (
    FULL_BUDGET,
    CalibrationError,
    Chain,
    Correction,
    ExitPolicy,
    Family,
    Fingerprint,
    Graph,
    Outcomes,
    Risk,
    Rollout,
    TraceError,
    Traces,
    certify,
    evaluate,
    family_of_chains,
    plan,
    read_traces,
    write_traces,
)
from tests.calibration.recordings import in_groups, sure

MakeRollout = Callable[..., Rollout]


@pytest.fixture
def recorded(tmp_path: Path, make_rollout: MakeRollout, fingerprint: Fingerprint) -> Path:
    """A valid file: 20 problems, two rollouts of three readings each."""
    path = tmp_path / "recorded.parquet"
    rollouts = (make_rollout(f"p{i:02d}", rollout=r) for i in range(20) for r in range(2))
    write_traces(path, rollouts, fingerprint)
    return path


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Changes the rows of a file, as another program would, and keeps its metadata."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def nan_confidence(rows: list[dict[str, Any]]) -> None:
    rows[7]["confidence"] = float("nan")


def standing_tokens(rows: list[dict[str, Any]]) -> None:
    rows[7]["tokens"] = 16


def no_final_reading(rows: list[dict[str, Any]]) -> None:
    del rows[8]


def a_row_twice(rows: list[dict[str, Any]]) -> None:
    rows.append(dict(rows[7]))


def an_early_exit(rows: list[dict[str, Any]]) -> None:
    rows[7]["end_reason"] = "high"


def no_verdict(rows: list[dict[str, Any]]) -> None:
    rows[7]["correct"] = None


def tokens_beyond_any_sum(rows: list[dict[str, Any]]) -> None:
    rows[7]["answer_tokens"] = 2**63 - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (tokens_beyond_any_sum, r"row 7 .*: answer_tokens is 9223372036854775807: give 0 or more"),
        (nan_confidence, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): confidence is nan"),
        (standing_tokens, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): tokens are 16 after"),
        (no_final_reading, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): .*final reading"),
        (a_row_twice, r"row 120 \(problem 'p01', rollout 0, checkpoint 2\): .*also in row 7: drop"),
        (an_early_exit, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): .*only full rollouts"),
        (no_verdict, r"row 7 \(problem 'p01', rollout 0, checkpoint 2\): correct is null: grade"),
    ],
)
@pytest.mark.parametrize("servable", [True, False])
def test_a_fault_in_a_file_names_its_row(
    recorded: Path, change: Callable[..., None], message: str, servable: bool
) -> None:
    rewrite(recorded, change)
    if not servable:
        pq.write_table(pq.read_table(recorded).replace_schema_metadata(None), recorded)
    with pytest.raises(TraceError, match=r"recorded\.parquet: " + message):
        read_traces(recorded)


def test_a_column_that_occurs_twice(recorded: Path) -> None:
    table = pq.read_table(recorded)
    pq.write_table(table.append_column("tokens", table.column("tokens")), recorded)
    with pytest.raises(TraceError, match=r"recorded\.parquet: there are 2 columns 'tokens'"):
        read_traces(recorded)


@pytest.mark.parametrize("name", ["checkpoint_interval", "max_tokens"])
def test_a_fingerprint_of_no_machine(fingerprint: Fingerprint, name: str) -> None:
    with pytest.raises(CalibrationError, match=f"{name} is .* at most 1099511627776"):
        replace(fingerprint, **{name: 2**63})


def test_a_faulty_rollout_leaves_an_older_file_as_it_was(
    recorded: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    before = recorded.read_bytes()
    for faulty in (
        make_rollout(confidences=(0.5, float("nan"), 0.5)),
        make_rollout(end=30),
        make_rollout(end=81, natural=False),
        make_rollout(rollout=-1),
    ):
        with pytest.raises(TraceError, match=r"^rollouts: row \d \(problem 'p1', rollout"):
            write_traces(recorded, [faulty], fingerprint)
    assert recorded.read_bytes() == before
    assert list(recorded.parent.iterdir()) == [recorded]


def test_recordings_of_two_settings_in_one_directory(
    recorded: Path, make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    other = replace(fingerprint, probe="another", samples=2)
    write_traces(recorded.with_name("z.parquet"), [make_rollout("new")], other)
    with pytest.raises(
        TraceError, match=r"z\.parquet: not recorded under .* recorded\.parquet"
    ) as error:
        read_traces(recorded.parent)
    assert "probe: 'another' here, 'p0' there; samples: 2 here, 1 there" in str(error.value)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 1.0])
def test_a_split_that_leaves_a_part_empty(recorded: Path, fraction: float) -> None:
    with pytest.raises(CalibrationError, match=rf"fraction of {fraction} of 20 .*choose another"):
        read_traces(recorded).split(fraction)


def test_no_rollouts_at_all(tmp_path: Path, fingerprint: Fingerprint) -> None:
    with pytest.raises(TraceError, match="rollouts: no rows: nothing was recorded; collect"):
        write_traces(tmp_path / "t.parquet", [], fingerprint)
    with pytest.raises(TraceError, match="rollouts: no rows"):
        Traces.from_rollouts([], None)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def sound(fingerprint: Fingerprint) -> Traces:
    """40 problems, all answered right at once."""
    return sure(fingerprint, 40)


@pytest.mark.parametrize(
    ("n", "asked", "message"),
    [
        (
            15,
            {},
            r"15 problems or groups to test on: alpha = 0.2, tested at level 0.0333, needs at "
            r"least 16 even if no answer is wrong \(alpha = 0.05 needs at least 45\); record",
        ),
        (21, {"alphas": [0.1]}, "21 problems .* needs at least 22 "),
        (
            9,
            {"promise": "pointwise"},
            r"tested at level 0.1, needs at least 11 .*0.05 needs at least 45\)",
        ),
        (22, {"method": "split"}, "15 problems .* at least 16 "),  # seven of them lay out the path
        (1, {"method": "split"}, "of 1 problems or groups leaves a part empty: .* or record more"),
    ],
)
def test_fewer_problems_than_any_level_needs(
    fingerprint: Fingerprint, n: int, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(CalibrationError, match=message):
        certify(sure(fingerprint, n), **asked)


def test_problems_without_a_label_are_no_right_answers(sound: Traces) -> None:
    half_P = np.arange(sound.n_problems) % 2 == 0
    unlabelled = replace(sound, unlabelled_P=half_P)
    for use in (
        lambda: certify(unlabelled, risk="regret"),
        lambda: certify(sound, order=unlabelled),
        lambda: plan(unlabelled, risk="regret", sizes=[20], repeats=1),
        lambda: evaluate([FULL_BUDGET], unlabelled),
    ):
        with pytest.raises(CalibrationError, match="20 of 40 problems have no label, 'p"):
            use()


def test_groups_are_what_is_counted(sound: Traces) -> None:
    with pytest.raises(CalibrationError, match="10 problems or groups to test on"):
        certify(in_groups(sound, 4))


def test_just_enough_problems_are_no_error(fingerprint: Fingerprint) -> None:
    made = certify(sure(fingerprint, 16))
    assert [level.certified for level in made.levels] == [False, False, True]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"alphas": []}, r"alphas are \[\]: give at least one"),
        ({"alphas": [0.1, 0.1]}, r"alphas are \[0.1, 0.1\]: give at least one, and each only once"),
        ({"alphas": [0.1, 0.0]}, "alpha is 0.0: give a rate between 0 and 1"),
        ({"alphas": [1.0]}, "alpha is 1.0: give a rate"),
        ({"alphas": [-0.1]}, "alpha is -0.1: give a rate"),
        ({"alphas": [float("nan")]}, "alpha is nan: give a rate"),
        ({"delta": 0.0}, "delta is 0.0: give a rate"),
        ({"delta": 1}, "delta is 1: give a rate"),
        ({"token_price": -0.1}, "token_price is -0.1: give a share of the questions, 0 to 1"),
        ({"token_price": float("nan")}, "token_price is nan: give a share"),
        ({"risk": "regrets"}, "risk 'regrets' is unknown: give one of selective, error, regret"),
        ({"promise": "both"}, "promise 'both' is unknown: give one of simultaneous, pointwise"),
        ({"method": "best"}, "method 'best' is unknown: give one of auto, fixed-sequence, chains"),
        ({"p_value": "t-test"}, "p_value 't-test' is unknown: give one of auto, binomial, betting"),
        ({"vote": "loudest", "samples": 2}, "vote is 'loudest': give one of confidence, majority"),
        ({"samples": 0}, "samples is 0: give 1 or more"),
        ({"samples": 2}, "problem 'p000' has 1 rollouts and the procedure takes 2 samples: record"),
        ({"draws": 3}, "draws is 3 with one sample: every rollout is a draw, leave it out"),
        ({"samples": 2, "draws": 0}, "draws is 0: give 1 or more"),
    ],
)
def test_arguments_of_certify(sound: Traces, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        certify(sound, **asked)


def test_one_problem_with_fewer_rollouts_than_samples(
    make_rollout: MakeRollout, fingerprint: Fingerprint
) -> None:
    rollouts = [make_rollout(f"p{i:02d}", rollout=r) for i in range(40) for r in range(3)]
    del rollouts[3 * 17 + 1]
    traces = Traces.from_rollouts(rollouts, fingerprint)
    with pytest.raises(CalibrationError, match=r"'p17' has 2 rollouts .* 3 samples: record at le"):
        certify(traces, samples=3)


def test_binomial_on_averages(fingerprint: Fingerprint, sound: Traces) -> None:
    """Their values do not matter: here all happen to be 0."""
    for averaged, asked in [
        (sure(fingerprint, 40, rollouts=2), {}),
        (sure(fingerprint, 40, rollouts=4), {"samples": 2}),
        (in_groups(sound, 2), {}),
        (sound, {"risk": Risk.custom("own", lambda outcomes: ~outcomes.correct_DT)}),
    ]:
        with pytest.raises(CalibrationError, match=r"losses are averages .* use 'betting'"):
            certify(averaged, p_value="binomial", **asked)


class TestOrder:
    """Labelled problems that give the order of the tests on others."""

    @pytest.fixture
    def order(self, fingerprint: Fingerprint) -> Traces:
        return sure(fingerprint, 20, name="o")

    def test_shares_problems(self, sound: Traces) -> None:
        some = sound.select(np.arange(40) < 5)
        message = "5 problems or groups are in both splits, 'problem p000' among them: .*take other"
        with pytest.raises(CalibrationError, match=message):
            certify(sound, order=some)
        family = family_of_chains([[Chain((FULL_BUDGET,), 1.0)]] * 3, "learned on order")
        with pytest.raises(CalibrationError, match=message):
            certify(sound, order=some, family=family)

    def test_shares_a_group(self, sound: Traces, order: Traces) -> None:
        with pytest.raises(CalibrationError, match=r"2 problems or groups .* 'group g0000'"):
            certify(in_groups(sound, 2), order=in_groups(order, 10))

    def test_shares_problems_that_only_one_side_groups(self, sound: Traces) -> None:
        some = in_groups(sound.select(np.arange(40) < 5), 5)
        with pytest.raises(CalibrationError, match="5 problems or groups are in both splits"):
            certify(sound, order=some)

    def test_of_another_recording(
        self, sound: Traces, order: Traces, fingerprint: Fingerprint
    ) -> None:
        hotter = replace(order, fingerprint=replace(fingerprint, temperature=1.0))
        with pytest.raises(
            CalibrationError, match=r"temperature: 0\.8 here, 1\.0 there\. Record both"
        ):
            certify(sound, order=hotter)
        with pytest.raises(CalibrationError, match="one split has a fingerprint and the other"):
            certify(sound, order=replace(order, fingerprint=None))

    def test_of_its_own_is_no_error(self, sound: Traces, order: Traces) -> None:
        made = certify(sound, alphas=[0.2], order=order, method="split")
        assert made.n_order_problems == 20


class TestFamilies:
    def test_thresholds_out_of_order(self) -> None:
        with pytest.raises(
            CalibrationError, match=r"low threshold reaches 0\.8 and lambda_high is 0"
        ):
            ExitPolicy(lambda_low=0.8, lambda_high=0.7)

    def test_a_policy_that_may_abstain_where_every_question_counts(self, sound: Traces) -> None:
        family = family_of_chains([[Chain((ExitPolicy(lambda_answer=0.5),), 1.0)]], "by hand")
        with pytest.raises(
            CalibrationError, match=r"policy 0 has lambda_answer = 0.5, .* 'regret'"
        ):
            certify(sound, risk="regret", alphas=[0.2], family=family)

    @pytest.mark.parametrize(
        ("weights", "graph", "message"),
        [
            (None, None, "a family tested by a graph needs weights and a graph: give both"),
            (((1.0,),) * 3, None, "needs weights and a graph"),
            (((1.0,),) * 2, Graph(((),)), r"rows of \[1, 1\] weights for 3 alphas and 1 policies"),
            (
                ((0.5, 0.5),) * 3,
                Graph(((),)),
                r"rows of \[2, 2, 2\] weights .* give one row per al",
            ),
            (((1.5,),) * 3, Graph(((),)), "weights sum to 1.5"),
            (((1.0,),) * 3, Graph(((), ())), "1 p-values, 1 weights and a graph of 2"),
        ],
    )
    def test_weights_that_do_not_fit(
        self, sound: Traces, weights: Any, graph: Graph | None, message: str
    ) -> None:
        family = Family((FULL_BUDGET,), Correction.GRAPH, "by hand", weights, graph)
        with pytest.raises(CalibrationError, match=message):
            certify(sound, family=family)

    def test_no_policies(self, sound: Traces) -> None:
        with pytest.raises(CalibrationError, match="policies is empty"):
            certify(sound, family=Family((), Correction.BONFERRONI, "by hand"))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            lambda o: o.tokens_DT,
            r"loss 'own' has the value \d+\.0: give numbers in \[0, 1\], scaled",
        ),
        (lambda o: -1.0 * o.correct_DT, "has the value -1.0"),
        (lambda o: np.full(o.correct_DT.shape, np.nan), "has the value nan"),
        (
            lambda o: o.full_correct_D,
            r"has the shape \(\d+,\): give draws x policies, \(\d+, \d+\)",
        ),
        (lambda o: 0.5, r"has the shape \(\)"),
        (lambda o: np.full(o.correct_DT.shape, "wrong"), "is of type <U5: give numbers"),
    ],
)
def test_a_loss_of_ones_own(sound: Traces, loss: Callable[[Outcomes], Any], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        certify(sound, risk=Risk.custom("own", loss))


def test_a_loss_of_ones_own_under_a_name_that_is_taken() -> None:
    with pytest.raises(
        CalibrationError, match="risk 'error' is built in: give your loss another n"
    ):
        Risk.custom("error", lambda outcomes: ~outcomes.correct_DT)
