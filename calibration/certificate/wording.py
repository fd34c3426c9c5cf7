"""What a certificate says it covers, and what it does not, in words."""

from calibration.simulation.risks import ERROR, REGRET, SELECTIVE, Risk
from calibration.testing.fwer import Promise
from calibration.testing.p_values import PValue

_WHAT = {
    SELECTIVE.name: (
        "of the questions that a certified policy answers, at most a share alpha is answered wrong"
    ),
    ERROR.name: "at most a share alpha of all questions is answered wrong",
    REGRET.name: (
        "for at most a share alpha of all questions the answer is wrong where the same samples, "
        "run to their full budget, would have answered right"
    ),
}


def covers(
    risk: Risk, delta: float, promise: Promise, kind: PValue, *, grouped: bool = False
) -> str:
    """The promise in one or two sentences."""
    what = _WHAT.get(risk.name, f"the mean of the loss {risk.name!r} is at most alpha")
    together = (
        "all certified levels at once, so alpha may be chosen after looking"
        if promise is Promise.SIMULTANEOUS
        else "each level alone, so alpha must be chosen before looking"
    )
    drawn = "groups of problems, each group counting the same" if grouped else "problems"
    limit = " in the limit of many problems (the test is asymptotic)" if kind is PValue.CLT else ""
    return (
        f"With probability at least {1 - delta:g}{limit} over the draw of the calibration "
        f"problems: {what}, on average over new {drawn}, drawn like the calibration problems and "
        f"solved by the very procedure of the fingerprint. This holds for {together}."
    )


def does_not_cover(risk: Risk) -> tuple[str, ...]:
    """What stays outside, as a list to be read out with every guarantee."""
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
