"""What a certificate covers and what it does not cover, in words."""

from decimal import ROUND_CEILING, Context, Decimal

from calibration.certificate.kinds import Kind, named
from calibration.simulation.groups import Groups
from calibration.simulation.label_share import LabelShare
from calibration.simulation.risks import ERROR, REGRET, SELECTIVE, Risk
from calibration.testing.fwer import Promise
from calibration.testing.joint import Joint
from calibration.testing.p_values import PValue

_WHAT = {
    SELECTIVE.name: "of the questions it answers, at most a share alpha gets a wrong answer",
    ERROR.name: "of all questions, at most a share alpha gets a wrong answer",
    REGRET.name: (
        "of all questions, at most a share alpha gets a wrong answer where the same samples at "
        "full budget give the right one"
    ),
}


CHOICE = (
    "so alpha may be chosen after seeing them and the answers to other questions, but not by the "
    "question itself or by an earlier ask of it"
)
"""Which choices of alpha all levels at once cover."""
AT_ALL_TIMES = (
    " It holds at all times together, however often problems were added and whenever that ended, "
    "if every addition was drawn from the same distribution without looking at its labels."
)
"""What a sequential certificate covers besides."""
LOOKED_FIRST = (
    "a risk, a method, levels or a population that were chosen by results",
    "additions that are easier than the population, also if harder ones follow later",
)
"""What a sequential certificate does not cover, although problems may be added to it."""
SHARE_OF_LABELS = (
    " Labels were drawn at random, with probabilities that were fixed before; the other problems "
    "count by losses that are predicted without labels. It holds however wrong these are."
)
"""What a certificate covers although only a share of its problems has a label."""
CHOSEN_LABELS = "labels that were chosen, or left out, in another way than the design draws them"
ONE_KIND = "a single question, or one kind of question: the risk is an average over all questions"
ASKED_AGAIN = "a question that is asked again because it was not answered"


def covers(
    risk: Risk,
    delta: float,
    promise: Promise,
    kind: PValue,
    *,
    groups: Groups | None = None,
    gated: bool = False,
    of_kind: Kind | None = None,
    joint: Joint | None = None,
    label_share: LabelShare | None = None,
) -> str:
    """The guarantee in a few sentences.

    Args:
        risk: what alpha bounds.
        delta: the probability with which the guarantee may fail.
        promise: whether all levels hold at once.
        kind: the test.
        groups: how groups enter the risk; None if every problem is a unit of its own.
        gated: whether only questions count that pass the familiarity check.
        of_kind: which kind of question it is for; then `delta` is that of all kinds at once.
        joint: what holds jointly with the levels; then `delta` is that of everything at once.
        label_share: which share of the problems has a label; None if all do.
    """
    bound = _WHAT.get(risk.name, f"the mean of the loss {risk.name!r} is at most alpha")
    together = (
        f"all certified levels simultaneously, {CHOICE}"
        if promise is Promise.SIMULTANEOUS
        else "each level separately, so alpha must be chosen before seeing the results"
    )
    new, sizes = "problems", ""
    if groups is not None and groups.by_size:
        sizes = (
            f" Problems come in groups of at most {groups.max_size}, drawn independently; each "
            "problem counts the same, so a group counts by its size."
        )
    elif groups is not None:
        new = "groups of problems (each group counts the same, whatever its size)"
    limit = " in the limit of many problems (the test is asymptotic)" if kind is PValue.CLT else ""
    if of_kind is not None and of_kind.name is not None:
        new = f"{new} of the kind {of_kind.name!r} ({of_kind.by})"
    passing = (
        " Only problems that pass the familiarity check count: every share is a share of these."
        if gated
        else ""
    )
    at_all_times = AT_ALL_TIMES if kind is PValue.ANYTIME else ""
    at_all_times += SHARE_OF_LABELS if label_share is not None else ""
    return (
        f"With probability at least {percent(1 - delta)}{limit} over the random choice of the "
        f"calibration problems, every certified policy keeps its alpha: {bound}. This is an "
        f"average over new {new} from the same distribution as the calibration problems, answered "
        f"exactly as the fingerprint describes. The guarantee holds for {together}.{at_all_times}"
        f"{sizes}{passing}{_jointly(risk, joint, groups, promise)}{_kinds_at_once(of_kind)}"
    )


SIDES = {
    "declined": "questions that are declined",
    "wrong": "questions that get a wrong answer",
    "lost": "questions that lose a right answer of the full budget",
}
"""The other risks in words, all as shares of all questions."""


EQUALLY = "counting every group equally, "
"""What bounds on other risks begin with where groups count the same."""
AT_EVERY_LEVEL = "With this probability it also holds at once, at every certified level: "
AT_ONE_LEVEL = "With this probability it also holds at once with the level that was chosen: "
"""What joint statements begin with, by whether all levels hold at once."""


def _jointly(risk: Risk, joint: Joint | None, groups: Groups | None, promise: Promise) -> str:
    """What holds jointly with the levels."""
    if joint is None:
        return ""
    equally = "" if groups is None or groups.by_size else EQUALLY
    said = [
        f"{equally}the share of {SIDES[bound.risk]} is at most the bound of the level"
        + ("" if bound.at_most is None else f", {bound.at_most:g}")
        for bound in joint.bounds
    ]
    if joint.next is not None:
        which = "answered questions" if risk.name == SELECTIVE.name else "questions"
        apart = "" if groups is None else ", at most one from each group,"
        said.append(
            f"of the next {joint.next.questions} {which}{apart} no more count against alpha than "
            "the level says"
        )
    begins = AT_EVERY_LEVEL if promise is Promise.SIMULTANEOUS else AT_ONE_LEVEL
    return f" {begins}{'; '.join(said)}."


def _kinds_at_once(of_kind: Kind | None) -> str:
    """What holds together with a certificate of one kind, or of all of them."""
    if of_kind is None:
        return ""
    mixed = "" if of_kind.name else " Problems of all kinds are mixed as in the calibration."
    if not of_kind.certified:
        return f"{mixed} No kind has a certificate of its own."
    return (
        f"{mixed} With this probability the certificates of all kinds keep theirs at once: one for "
        f"each of the {len(of_kind.certified)} kinds {named(of_kind.certified)}, and one for "
        "questions of all kinds."
    )


def does_not_cover(
    risk: Risk,
    *,
    groups: Groups | None = None,
    gated: bool = False,
    sequential: bool = False,
    of_kind: Kind | None = None,
    label_share: LabelShare | None = None,
) -> tuple[str, ...]:
    """What the guarantee does not cover, as a list to show with every guarantee."""
    never: tuple[str, ...] = (
        "problems from another distribution than the calibration problems",
        "a changed prompt, chat template, model, probe, sampling setting, budget, number of "
        "samples, vote or grader",
        "multi-turn conversations",
        *_not_of_kind(of_kind),
        ASKED_AGAIN,
    )
    if sequential:
        never = (*never, *LOOKED_FIRST)
    if label_share is not None:
        never = (*never, CHOSEN_LABELS)
    if groups is not None and groups.by_size:
        never = (*never, f"groups of more than {groups.max_size} problems")
    elif groups is not None:
        average = (
            "the average over problems: a problem of a large group counts less than one of a small"
        )
        never = (*never, average)
    if gated:
        never = (*never, "questions that the familiarity check flags as unlike the calibration's")
    if risk.answers_always:
        return never
    return (*never, "questions that the service declines to answer")


def _not_of_kind(of_kind: Kind | None) -> tuple[str, ...]:
    if of_kind is None:
        return (ONE_KIND,)
    if of_kind.name is None:
        few = named(of_kind.pooled)
        without = (
            (f"questions of one of the kinds {few}, which have too few labels",) if few else ()
        )
        return (ONE_KIND, *without)
    return (
        f"a single question: the risk is an average over questions of the kind {of_kind.name!r}",
        f"questions of another kind, also if they are asked as {of_kind.name!r}",
    )


def covers_before(said: str) -> tuple[str, str]:
    """What a text of `covers` was in earlier releases, the last one first.

    It did not say that bounds on other risks count every group equally. Before that, it did not say
    which choices of alpha are covered, nor that joint statements hold at one level only, where
    levels hold separately.
    """
    shares = said.replace(EQUALLY, "")
    chosen = shares.replace(CHOICE, "so alpha may be chosen after seeing the results")
    return shares, chosen.replace(AT_ONE_LEVEL, AT_EVERY_LEVEL)


_FORMER_WHAT = {
    SELECTIVE.name: (
        "of the questions that a certified policy answers, at most a share alpha is answered wrong"
    ),
    ERROR.name: "at most a share alpha of all questions is answered wrong",
    REGRET.name: (
        "for at most a share alpha of all questions the answer is wrong where the same samples, "
        "run to their full budget, would have answered right"
    ),
}


def percent(probability: float) -> str:
    """A probability in words, with more than six digits where these would round it to 100%.

    Below 1, it is never "100%": with 17 digits every number differs from its neighbours.
    """
    said = (f"{100 * probability:.{digits}g}%" for digits in (6, 12, 15, 17))
    return next((text for text in said if text != "100%"), "100%")


def at_most(bound: float) -> str:
    """An upper bound on a share, rounded up at the third digit: 0.19447 is "19.5%".

    Rounded to the nearest, half of the bounds would claim more than is shown.
    """
    exact = Decimal(repr(float(bound))) * 100
    return f"{Context(prec=3, rounding=ROUND_CEILING).plus(exact).normalize():f}%"


def former_covers(risk: Risk, delta: float, promise: Promise, kind: PValue) -> str:
    """What `covers` said in certificates made before the wording changed."""
    what = _FORMER_WHAT.get(risk.name, f"the mean of the loss {risk.name!r} is at most alpha")
    together = (
        "all certified levels at once, so alpha may be chosen after looking"
        if promise is Promise.SIMULTANEOUS
        else "each level alone, so alpha must be chosen before looking"
    )
    limit = " in the limit of many problems (the test is asymptotic)" if kind is PValue.CLT else ""
    return (
        f"With probability at least {1 - delta:g}{limit} over the draw of the calibration "
        f"problems: {what}, on average over new problems, drawn like the calibration problems and "
        f"solved by the very procedure of the fingerprint. This holds for {together}."
    )


def former_does_not_cover(risk: Risk) -> tuple[str, ...]:
    """What `does_not_cover` said in certificates made before the wording changed."""
    never = (
        "problems drawn from elsewhere than the calibration problems",
        "a changed prompt, chat template, model, probe, sampling, budget, number of samples, vote "
        "or grader",
        "conversations of several turns",
        "a single question, or a kind of question: the risk is an average over questions",
    )
    if risk.answers_always:
        return never
    return (*never, "questions the service declines to answer")
