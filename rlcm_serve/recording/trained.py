"""Problems that trained a model or its probe, which must not calibrate them.

A model is right on problems that it has seen, and a probe is sure of them. A certificate that was
fitted on them promises too much for new questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from calibration.traces.probe_readings import (
    POLICY_FILE,
    READINGS_FILE,
    SeenProblems,
    read_seen_problems,
)
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import LabelledProblem, bare_text, digest_text

_DIGITS = re.compile(r"\d+")
_DIGEST = re.compile(r"[0-9a-f]{16}")


def seen_problems(problems: Iterable[LabelledProblem]) -> SeenProblems:
    """What training leaves beside a policy or a probe of the problems that trained it."""
    problems = list(problems)
    return SeenProblems(
        {problem.id: digest_problem(problem) for problem in problems},
        frozenset(digest_pattern(problem) for problem in problems),
    )


def digest_problem(problem: LabelledProblem) -> str:
    """By which a problem is known again: of its text, whatever its white space and request."""
    return digest_text(bare_text(problem.problem))


def digest_pattern(problem: LabelledProblem) -> str:
    """What near-copies share: the text without case, white space and the values of numbers."""
    text = "".join(bare_text(problem.problem).casefold().split())
    return digest_text(_DIGITS.sub("0", text))


def require_untrained(
    problems: Sequence[LabelledProblem], model: Path | None, probe: Path | None
) -> str | None:
    """Returns a warning if some problems are near-copies of those that trained a model or a probe.

    One from elsewhere, or of an earlier release, says nothing of its problems: then nothing is
    checked.

    Args:
        problems: to calibrate on.
        model, probe: the folders; None: not compared.

    Returns:
        The warning; None if there is no near-copy.

    Raises:
        RequestRefused: some of the problems trained the model or the probe; the message has their
            number and names the first.
        TraceError: a file that says which is damaged.
    """
    files = {
        "model": None if model is None else model / POLICY_FILE,
        "probe": None if probe is None else probe / READINGS_FILE,
    }
    warnings = [_near(problems, what, path) for what, path in files.items() if path is not None]
    return next(filter(None, warnings), None)


def _near(problems: Sequence[LabelledProblem], what: str, path: Path) -> str | None:
    """A warning of near-copies; refuses the problems themselves."""
    seen = read_seen_problems(path)
    digests = {*seen.digest_of_problem.values()}
    if known := [one for one in problems if digest_problem(one) in digests]:
        raise RequestRefused("data", _refusal(len(known), len(problems), known[0].id, what))
    near = [one for one in problems if digest_pattern(one) in seen.patterns]
    if not near:
        return None
    return (
        f"{len(near)} of {len(problems)} problems differ from one that trained the {what} in case, "
        f"white space or numbers alone (the first is {near[0].id!r}). The certificate will be for "
        "questions of which as many do"
    )


def require_untrained_ids(ids: Sequence[str], probe: Path) -> None:
    """As `require_untrained` of a probe, of traces, which hold no texts but the ids of problems.

    An id says which problem it is if it is the digest that problems without an id get.

    Raises:
        RequestRefused: some of the problems trained the probe.
        TraceError: the file that says which is damaged.
    """
    seen = read_seen_problems(probe / READINGS_FILE).digest_of_problem
    digests = {*seen, *seen.values()}
    if known := [id_ for id_ in ids if id_ in digests and _DIGEST.fullmatch(id_)]:
        raise RequestRefused("traces", _refusal(len(known), len(ids), known[0], "probe"))


def require_probe(folder: Path) -> str | None:
    """Returns a warning if a probe lacks the file that training leaves beside it, or None.

    Raises:
        RequestRefused: there is no such folder.
        ModelRefused: there is no probe in it.
    """
    if (folder / READINGS_FILE).is_file():
        return None
    if not folder.is_dir():
        raise RequestRefused("probe", f"there is no folder {folder}: give the folder of the probe")
    from rlcm_serve.engine.weights.probe_files import read_probe  # imports torch

    read_probe(folder)
    return (
        f"{folder} has no {READINGS_FILE}, which training leaves beside a probe: some labels of "
        "the traces set the scale instead of testing, and whether their problems trained the "
        "probe is not checked"
    )


def _refusal(known: int, of: int, first: str, what: str) -> str:
    return (
        f"{known} of {of} problems trained the {what} or chose its checkpoint (the first is "
        f"{first!r}), so it does better on them than on new ones: leave them out, or train the "
        f"{what} on others"
    )
