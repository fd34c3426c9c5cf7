"""The paper's claims, each compared with the measurements by a stated rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from calibration.metrics.estimates import Estimate
from calibration.report_kit.wording import number_interval, signed
from studies.paper.report.accuracy import TITLES
from studies.paper.report.budgets import common_budgets, ece_at
from studies.paper.report.control import ALPHAS, at_target, fitted_risks
from studies.paper.report.markdown import NOT_RUN, Block, table
from studies.paper.report.results_index import ResultsIndex, title_of
from studies.paper.report.seeds import mean_difference, mean_over_seeds
from studies.paper.report.votes import votes_with, weights_gain
from studies.paper.result import Result
from studies.paper.runs import BASE, STRENGTHS

KEPT = 0.02
"""An accuracy counts as kept if the loss is below this: 2 percentage points."""
INSENSITIVE = {"accuracy": 0.02, "ece": 0.02}
"""The change that λ may cause: about the width of the paper's bands, .018 and .016 (App. C)."""


class Verdict(StrEnum):
    """The outcome of comparing a claim with the measurements."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided at this scale"
    NOT_RUN = NOT_RUN


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of the paper.

    Attributes:
        said: the claim, and its place in the paper.
        measured: the numbers that test it.
        verdict: from the rule for this kind of claim.
    """

    said: str
    measured: str
    verdict: Verdict


def claims(index: ResultsIndex) -> Block:
    """All claims in a table below the rules."""
    rule = (
        "A claim about a difference **holds** if its paired 95% interval lies on the claimed "
        "side of 0, **fails** if it lies on the other side, and is otherwise **undecided at this "
        "scale**. For methods with several seeds, the difference is the mean over seeds, with an "
        "interval that covers other seeds and problems, and with the number of seeds that point "
        "the claimed way. Claims of another form state their rule. A verdict from one seed covers "
        "no other seed. Among this many intervals, one or two exclude 0 by chance."
    )
    head = ["claim", "measured", "verdict"]
    rows = [[each.said, each.measured, f"**{each.verdict}**"] for each in _claims(index)]
    return Block("claims", (rule, table(head, rows, names=3)))


def verdict_of(found: Estimate, sign: int, zero: float = 0.0) -> Verdict:
    """The verdict from the interval's side of `zero`; `sign` is the claimed side."""
    if found.low is None or found.high is None:
        return Verdict.UNDECIDED
    low, high = sorted((sign * (found.low - zero), sign * (found.high - zero)))
    return Verdict.HOLDS if low > 0 else Verdict.FAILS if high < 0 else Verdict.UNDECIDED


def _claims(index: ResultsIndex) -> Iterator[Claim]:
    more = "{0}'s {2} is higher than {1}'s"
    less = "{0}'s {2} is lower than {1}'s"
    yield _compared(index, more, "grpo", BASE, "accuracy", 1, "§4.2")
    yield _compared(index, more, "grpo", BASE, "ece", 1, "§4.2")
    yield _kept(index)
    yield _compared(index, less, "rlcm", "grpo", "ece", -1, "§4.2")
    yield _at_every_budget(index)
    for baseline in ("rlcr", "c2gspg"):
        for other in ("grpo", "rlcm"):
            yield _compared(index, more, baseline, other, "ece", 1, "§4.2")
    yield _compared(index, less, "rlcm", "process-brier", "ece", -1, "§4.5, margin or Brier")
    yield _compared(index, less, "final-margin", "final-brier", "ece", -1, "§4.5, margin or Brier")
    yield _compared(index, less, "rlcm", "final-margin", "ece", -1, "§4.5, process or final")
    yield _compared(
        index, less, "process-brier", "final-brier", "ece", -1, "§4.5, process or final"
    )
    yield _insensitive(index)
    yield _votes(index)
    for risk in fitted_risks(index):
        yield _tokens(index, risk)


def _compared(
    index: ResultsIndex, said: str, one: str, other: str, name: str, sign: int, where: str
) -> Claim:
    """A claim on one method's metric minus another's, over all common seeds."""
    claim = f"{said.format(title_of(one), title_of(other), TITLES[name])} ({where})"
    pairs = index.pairs(other, one)
    if not pairs:
        return Claim(claim, NOT_RUN, Verdict.NOT_RUN)
    found = mean_difference(pairs, [name])[name]
    return Claim(claim, _said(found, name, pairs, sign), verdict_of(found, sign))


def _kept(index: ResultsIndex) -> Claim:
    claim = (
        f"RLCM keeps GRPO's accuracy (§4.2; holds if the interval lies above −{KEPT:g}, fails if "
        "it lies below)"
    )
    pairs = index.pairs("grpo", "rlcm")
    if not pairs:
        return Claim(claim, NOT_RUN, Verdict.NOT_RUN)
    found = mean_difference(pairs, ["accuracy"])["accuracy"]
    return Claim(claim, _said(found, "accuracy", pairs, 1, -KEPT), verdict_of(found, 1, -KEPT))


def _at_every_budget(index: ResultsIndex) -> Claim:
    """Budgets have no paired intervals: only aggregate figures are stored for cut rollouts."""
    claim = (
        "RLCM's ECE is lower than GRPO's at every budget (§4.3; holds if it is lower at each in "
        "each seed, fails if at some budget its interval lies above GRPO's in each seed)"
    )
    pairs = index.pairs("grpo", "rlcm")
    tokens = common_budgets([result for pair in pairs for result in pair])
    if not tokens:
        return Claim(claim, NOT_RUN, Verdict.NOT_RUN)
    lower = [[_is_lower(pair, at) for pair in pairs] for at in tokens]
    above = [all(_is_above(pair, at) for pair in pairs) for at in tokens]
    if all(map(all, lower)):
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.FAILS if any(above) else Verdict.UNDECIDED
    counts = ", ".join(
        f"seed {pair[0].seed}: {sum(at[place] for at in lower)}" for place, pair in enumerate(pairs)
    )
    return Claim(claim, f"lower at this many of the {len(tokens)} budgets: {counts}", verdict)


def _insensitive(index: ResultsIndex) -> Claim:
    """A claim of no large difference needs a narrow interval, not one that contains 0."""
    claim = (
        "RLCM does not depend much on λ (App. C; holds if the interval of every difference to "
        f"λ = 0.1 lies within ±{INSENSITIVE['accuracy']:g} in accuracy and in ECE, fails if one "
        "lies outside)"
    )
    own = index.first("rlcm")
    found = {strength: index.first("rlcm", strength) for strength in STRENGTHS}
    others = {s: r for s, r in found.items() if r is not None and own and r.name != own.name}
    if own is None or not others:
        return Claim(claim, NOT_RUN, Verdict.NOT_RUN)
    verdicts, said = [], []
    for strength, result in others.items():
        for name, most in INSENSITIVE.items():
            change = mean_difference([(own, result)], [name])[name]
            verdicts.append(_within(change, most))
            said.append(f"λ = {strength:g}: {TITLES[name]} {_in_line(change)}")
    missing = [f"λ = {s:g}: {NOT_RUN}" for s, result in found.items() if result is None]
    return Claim(claim, "<br>".join(said + missing), _all_of(verdicts, complete=not missing))


def _votes(index: ResultsIndex) -> Claim:
    n = index.most_rollouts
    claim = f"Weighing votes by confidence gains more under RLCM than under GRPO (§5.2, n = {n})"
    voting = partial(votes_with, n)
    pairs = [pair for pair in index.pairs("grpo", "rlcm") if all(map(voting, pair))]
    if not pairs:
        return Claim(claim, NOT_RUN, Verdict.NOT_RUN)
    theirs, ours = (weights_gain(results) for results in zip(*pairs, strict=True))
    found = mean_over_seeds(ours - theirs)
    gains = [signed(Estimate(float(np.mean(gain)))) for gain in (ours, theirs)]
    seeds = "one seed" if len(pairs) == 1 else f"{len(pairs)} seeds"
    said = f"gains {gains[0]} and {gains[1]}, difference {_in_line(found)}, {seeds}"
    return Claim(claim, said, verdict_of(found, 1))


def _tokens(index: ResultsIndex, risk: str) -> Claim:
    """Tokens at a target have no intervals."""
    claim = (
        f"RLCM spends fewer tokens than GRPO at equal targets of the risk `{risk}` (§5.1; holds "
        "if so at every target that both have certified, in each seed, fails if at none)"
    )
    pairs = index.pairs("grpo", "rlcm")
    if not pairs:
        return Claim(claim, NOT_RUN, Verdict.NOT_RUN)
    fewer, said = [], []
    for alpha in ALPHAS:
        spent = [each for pair in pairs if (each := _spent(pair, risk, alpha))]
        fewer += [ours < theirs for theirs, ours in spent]
        if spent:
            theirs, ours = np.mean(spent, axis=0)
            said.append(f"α = {alpha:g}: {ours:.0f} and {theirs:.0f} tokens")
    if not fewer:
        return Claim(claim, "no target is certified for both", Verdict.UNDECIDED)
    verdict = Verdict.HOLDS if all(fewer) else Verdict.UNDECIDED if any(fewer) else Verdict.FAILS
    said.append(f"fewer in {sum(fewer)} of {len(fewer)} targets and seeds")
    return Claim(claim, "<br>".join(said), verdict)


def _said(
    found: Estimate,
    name: str,
    pairs: Sequence[tuple[Result, Result]],
    sign: int,
    zero: float = 0.0,
) -> str:
    """A difference, and the number of seeds on the claimed side of `zero`, as text."""
    if len(pairs) == 1:
        return f"{TITLES[name]} {_in_line(found)}, one seed"
    each = [mean_difference([pair], [name])[name].value for pair in pairs]
    agree = sum(value is not None and sign * (value - zero) > 0 for value in each)
    return f"{TITLES[name]} {_in_line(found)}, {agree} of {len(pairs)} seeds this way"


def _in_line(found: Estimate) -> str:
    interval = number_interval(found)
    return signed(found) + (f" ({interval})" if interval else ", without an interval")


def _is_lower(pair: tuple[Result, Result], tokens: int) -> bool:
    theirs, ours = (ece_at(result, tokens).value for result in pair)
    return theirs is not None and ours is not None and ours < theirs


def _is_above(pair: tuple[Result, Result], tokens: int) -> bool:
    theirs, ours = (ece_at(result, tokens) for result in pair)
    return theirs.high is not None and ours.low is not None and ours.low > theirs.high


def _within(found: Estimate, most: float) -> Verdict:
    if found.low is None or found.high is None:
        return Verdict.UNDECIDED
    if found.low > most or found.high < -most:
        return Verdict.FAILS
    return Verdict.HOLDS if -most < found.low and found.high < most else Verdict.UNDECIDED


def _all_of(verdicts: Sequence[Verdict], complete: bool) -> Verdict:
    """FAILS if any claim fails; HOLDS only if all are present and hold."""
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    holds = complete and set(verdicts) == {Verdict.HOLDS}
    return Verdict.HOLDS if holds else Verdict.UNDECIDED


def _spent(pair: tuple[Result, Result], risk: str, alpha: float) -> tuple[float, float] | None:
    """Tokens per question of both; None unless the target is certified for both."""
    theirs, ours = (at_target(result, risk, alpha) for result in pair)
    if theirs is None or ours is None or theirs.tokens is None or ours.tokens is None:
        return None
    return theirs.tokens, ours.tokens
