import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from calibration.policy.voting import NO_ANSWER, confidence_vote, majority_vote
from rlcm_serve.aggregation import Rule, VoteOptions
from rlcm_serve.aggregation.rules import kept
from rlcm_serve.aggregation.votes import draw
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.aggregation.batches import (
    Row,
    aggregate,
    by_problem,
    grouped,
    paper_vote,
    rows,
    shuffled,
)

RULES = [Rule.MAJORITY, Rule.CONFIDENCE]
WEIGHED = [VoteOptions(rule) for rule in Rule]


@settings(max_examples=300)
@given(rows, st.sampled_from(RULES))
def test_agrees_with_the_paper(rows: list[Row], rule: Rule) -> None:
    found = by_problem(aggregate(rows, VoteOptions(rule))[0])
    assert set(found) == {row.problem_id for row in rows}
    for problem, result in found.items():
        winners, weights = paper_vote([row for row in rows if row.problem_id == problem], rule)
        assert result["answer"] in winners or (not winners and result["answer"] is None)
        assert result["tied"] == (len(winners) > 1)
        assert {text: Fraction(weight) for text, weight in result["tally"].items()} == weights


@settings(max_examples=200)
@given(rows, st.sampled_from(RULES))
def test_agrees_with_the_vote_of_serving_where_nothing_ties(rows: list[Row], rule: Rule) -> None:
    for problem, result in by_problem(aggregate(rows, VoteOptions(rule))[0]).items():
        own = [row for row in rows if row.problem_id == problem]
        texts = list(dict.fromkeys(row.answer for row in own if row.answer is not None))
        classes = [NO_ANSWER if row.answer is None else texts.index(row.answer) for row in own]
        vote = (
            majority_vote(classes)
            if rule is Rule.MAJORITY
            else confidence_vote(classes, [row.confidence for row in own])
        )
        assert result["confidence"] == vote.share
        if not result["tied"]:
            assert result["answer"] == (None if vote.winner is None else texts[vote.winner])


@pytest.mark.slow
@settings(max_examples=200)
@given(rows, st.integers(0, 2**32), st.sampled_from(WEIGHED))
def test_the_order_of_rows_and_other_problems_do_not_matter(
    rows: list[Row], seed: int, options: VoteOptions
) -> None:
    results, summary = aggregate(rows, options)
    mixed, mixed_summary = aggregate(shuffled(rows, seed), options)
    assert by_problem(mixed) == by_problem(results)
    assert mixed_summary == summary
    for problem, result in by_problem(results).items():
        alone = [row for row in shuffled(rows, seed) if row.problem_id == problem]
        assert aggregate(alone, options)[0] == [result]


@pytest.mark.slow
@settings(max_examples=150)
@given(rows, st.integers(1, 9), st.integers(0, 2**32), st.sampled_from(list(Rule)))
def test_grouped_and_scattered_and_spilled_are_the_same(
    rows: list[Row], size: int, seed: int, rule: Rule
) -> None:
    together = grouped(rows)
    streamed = aggregate(together, VoteOptions(rule, grouped=True), size=size)
    assert streamed == aggregate(together, VoteOptions(rule))
    mixed = shuffled(rows, seed)
    in_memory = aggregate(mixed, VoteOptions(rule), size=size)
    assert aggregate(mixed, VoteOptions(rule), size=size, memory=0) == in_memory
    assert by_problem(in_memory[0]) == by_problem(streamed[0])


def test_results_come_in_the_order_of_first_appearance() -> None:
    rows = [Row(problem, "7", 0.5) for problem in "dbacbdca"]
    for memory in (0, 2**26):
        results, _ = aggregate(rows, size=3, memory=memory)
        assert [result["problem_id"] for result in results] == ["d", "b", "a", "c"]


class TestTies:
    def test_are_broken_uniformly_over_problems_and_over_seeds(self) -> None:
        answers = ["7", "8", "9"]
        counts = dict.fromkeys(answers, 0)
        for seed in range(5):
            rows = [Row(f"p{p}", answer, 0.5) for p in range(3000) for answer in answers]
            results, summary = aggregate(rows, VoteOptions(Rule.MAJORITY, seed))
            assert summary.ties == 3000
            for result in results:
                counts[result["answer"]] += 1
        assert chisquare(list(counts.values())).pvalue > 0.01
        over_seeds = np.bincount([draw(seed, "p1", 3) for seed in range(9000)])
        assert chisquare(over_seeds).pvalue > 0.01

    def test_another_seed_draws_independently(self) -> None:
        drawn = [(draw(0, f"p{p}", 2), draw(1, f"p{p}", 2)) for p in range(8000)]
        counts = np.bincount([2 * first + second for first, second in drawn])
        assert chisquare(counts).pvalue > 0.01

    def test_a_class_without_a_chance_changes_nothing(self) -> None:
        rows = [Row(f"p{p}", answer, 0.5) for p in range(200) for answer in ("7", "8")]
        others = [Row(f"p{p}", "5", 0.1) for p in range(200)]
        alone = [result["answer"] for result in aggregate(rows)[0]]
        assert [result["answer"] for result in aggregate(rows + others)[0]] == alone
        assert {*alone} == {"7", "8"}

    def test_no_weight_at_all_is_a_tie_of_all_answers(self) -> None:
        (result,), _ = aggregate([Row("a", "7", 0.0), Row("a", "8", 0.0), Row("a", None, 0.0)])
        assert result["tied"]
        assert result["answer"] in ("7", "8")
        assert result["confidence"] == 0.0


class TestFilter:
    @pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 0.1, 0.9])
    def test_keeps_what_deepconf_keeps(self, share: float) -> None:
        rng = np.random.default_rng(0)
        for size in range(1, 130):
            # Where the quantile falls on a rollout, numpy's own rounding decides; here it is kept.
            if size > 1 and share in (0.1, 0.9) and (size - 1) % 10 == 0:
                continue
            confidence = rng.choice(40, size) / 40
            threshold = np.percentile(confidence, (1 - share) * 100)
            rows = [Row("a", str(at), value) for at, value in enumerate(confidence.tolist())]
            (result,), _ = aggregate(rows, VoteOptions(Rule.FILTERED, top_p=share))
            assert {int(text) for text in result["tally"]} == {
                *np.flatnonzero(confidence >= threshold).tolist()
            }

    def test_a_share_is_the_decimal_that_was_written(self) -> None:
        sizes = np.array([1, 2, 10, 11, 21, 31, 512])
        assert kept(sizes, VoteOptions(Rule.FILTERED, top_p=0.1).share).tolist() == [
            1, 1, 1, 2, 3, 4, 52,
        ]  # fmt: skip

    def test_takes_a_tenth_by_default(self) -> None:
        rows = [Row("a", str(at), at / 100) for at in range(100)]
        (result,), _ = aggregate(rows, VoteOptions(Rule.FILTERED))
        assert result["kept"] == 10

    def test_rollouts_without_an_answer_are_not_kept(self) -> None:
        rows = [Row("a", None, 1.0), Row("a", " ", 1.0), Row("a", "7", 0.1), Row("a", "8", 0.3)]
        (result,), _ = aggregate(rows, VoteOptions(Rule.FILTERED, top_p=0.5))
        assert (result["answer"], result["kept"], result["rollouts"]) == ("8", 1, 4)
        assert result["confidence"] == 1.0

    def test_the_confident_few_outvote_the_many(self) -> None:
        rows = [Row("a", "7", 0.5)] * 8 + [Row("a", "8", 0.9)] * 2
        for rule, answer in (
            (Rule.MAJORITY, "7"),
            (Rule.CONFIDENCE, "7"),
            (Rule.FILTERED, "8"),
        ):
            assert aggregate(rows, VoteOptions(rule))[0][0]["answer"] == answer


class TestEquality:
    @pytest.mark.slow
    def test_equal_answers_are_one_class_whatever_their_order(self) -> None:
        answers = ["0.5", r"\frac12", "2/4", "7", "7.0", "007.", r"\frac{14}{2}", "north"]
        rows = [Row("a", answer, 0.5) for answer in answers]
        (expected,), _ = aggregate(rows, VoteOptions(Rule.MAJORITY))
        assert expected["classes"] == 3
        assert sorted(expected["tally"].values()) == [1.0, 3.0, 4.0]
        for seed in range(10):
            (result,), _ = aggregate(shuffled(rows, seed), VoteOptions(Rule.MAJORITY))
            assert result == expected

    def test_a_class_goes_by_its_most_frequent_text_then_the_shortest_then_the_first(self) -> None:
        for answers, text in (
            (["7.0", "7.0", "7"], "7.0"),
            (["7.0", "7"], "7"),
            (["+7", "07"], "+7"),
        ):
            (result,), _ = aggregate([Row("a", answer, 0.5) for answer in answers])
            assert result["answer"] == text
            assert list(result["tally"]) == [text]

    def test_a_hostile_answer_is_cut_off(self) -> None:
        from rlcm_serve.aggregation import Aggregation
        from rlcm_serve.aggregation.graders import Graders
        from tests.rlcm_serve.aggregation.batches import batch, records

        rows = [Row("a", "9^{9^{9^9}}", 0.9), Row("a", "2/4", 0.5), Row("a", "0.5", 0.5)]
        graders = Graders(time_limit=0.5)
        with Aggregation(VoteOptions(), graders=graders) as aggregation:
            assert not list(aggregation.add(batch(rows)))
            (result,) = records(aggregation.finish())
        assert result["answer"] in ("0.5", "2/4")
        assert result["classes"] == 2
        assert not result["compared"]
        assert aggregation.summary.uncompared == 1

    def test_once_the_time_of_a_batch_is_spent_only_equal_texts_are_equal(self) -> None:
        from rlcm_serve.aggregation import Aggregation
        from rlcm_serve.aggregation.graders import Graders
        from tests.rlcm_serve.aggregation.batches import batch, records

        towers = [
            Row(f"p{problem}", f"{problem}^{{9^{{9^{{9^{at}}}}}}}", 0.9, "k+1")
            for problem in range(20)
            for at in (2, 3, 3, 4)
        ]
        plain = [Row("plain", answer, 0.5) for answer in ("0.5", "1/2", "3")]
        graders = Graders(workers=2, time_limit=0.3, batch_limit=2.0)
        began = time.monotonic()
        with Aggregation(VoteOptions(), graders=graders) as aggregation:
            assert not list(aggregation.add(batch([*towers, *plain])))
            results = {result["problem_id"]: result for result in records(aggregation.finish())}
        assert time.monotonic() - began < 30, "20 problems of 7 slow pairs would take 42 s and more"
        assert results["p19"]["tally"] == pytest.approx(
            {f"19^{{9^{{9^{{9^{at}}}}}}}": weight for at, weight in ((2, 0.9), (3, 1.8), (4, 0.9))}
        )
        assert not results["p19"]["compared"]
        assert aggregation.summary.uncompared >= 20


class TestGrading:
    def test_against_the_reference(self) -> None:
        rows = [
            Row("a", "0.5", 0.9, r"\frac12"),
            Row("a", "2/4", 0.1),
            Row("a", "3", 0.2),
            Row("a", None, 0.8),
            Row("b", "7", 0.9),
            Row("c", "7", 0.3, "8"),
            Row("c", "8", 0.2),
            Row("d", None, 0.5, "1"),
        ]
        results, summary = aggregate(rows)
        graded = {
            result["problem_id"]: (result["correct"], result["pass_at_1"], result["oracle"])
            for result in results
        }
        assert graded == {
            "a": (True, 0.5, True),
            "b": (None, None, None),
            "c": (False, 0.5, True),
            "d": (False, 0.0, False),
        }
        assert (summary.problems, summary.rollouts, summary.answered) == (4, 8, 3)
        assert (summary.graded, summary.accuracy) == (3, pytest.approx(1 / 3))
        assert summary.pass_at_1 == pytest.approx(1 / 3)
        assert summary.oracle == pytest.approx(2 / 3)

    def test_the_reference_has_no_say_in_the_vote(self) -> None:
        # It equals both answers, which do not equal each other.
        rows = [Row("a", "5 cm", 0.9), Row("a", "5 m", 0.3)]
        (blind,), _ = aggregate(rows)
        (graded,), _ = aggregate([row._replace(reference="5") for row in rows])
        assert graded["tally"] == blind["tally"]
        assert graded["correct"]
        assert graded["pass_at_1"] == 1.0

    def test_without_any_reference_there_are_no_rates(self) -> None:
        _, summary = aggregate([Row("a", "7", 0.5)])
        assert summary.graded == 0
        assert summary.pass_at_1 is summary.accuracy is summary.oracle is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**63}, "seed is 9223372036854775808"),
        ({"top_p": 0.1}, "leave out top_p"),
        ({"rule": Rule.FILTERED, "top_p": 0.0}, "top_p is 0.0"),
        ({"rule": Rule.FILTERED, "top_p": 1.5}, "top_p is 1.5"),
    ],
)
def test_options_out_of_range_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(RequestRefused, match=message):
        VoteOptions(**arguments)  # type: ignore[arg-type]


def test_nothing_in_nothing_out() -> None:
    assert aggregate([])[0] == []
    assert aggregate([], VoteOptions(grouped=True))[0] == []
