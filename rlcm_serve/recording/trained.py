"""Problems that trained a probe, which must not calibrate it.

A probe is surer of problems that it has seen. A certificate that was fitted on them promises too
much for new questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from calibration.traces.probe_readings import READINGS_FILE, SeenProblems, read_seen_problems
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import LabelledProblem, digest_text, plain_text

_DIGITS = re.compile(r"\d+")
_DIGEST = re.compile(r"[0-9a-f]{16}")


def seen_problems(problems: Iterable[LabelledProblem]) -> SeenProblems:
    """What is left beside a probe of the problems that trained it."""
    problems = list(problems)
    return SeenProblems(
        {problem.id: digest_problem(problem) for problem in problems},
        frozenset(digest_pattern(problem) for problem in problems),
    )


def digest_problem(problem: LabelledProblem) -> str:
    """By which a problem is known again: of its text, whatever its white space."""
    return digest_text(plain_text(problem.problem))


def digest_pattern(problem: LabelledProblem) -> str:
    """What near-copies share: the text without case, white space and the values of numbers."""
    text = "".join(plain_text(problem.problem).casefold().split())
    return digest_text(_DIGITS.sub("0", text))


def require_untrained(problems: Sequence[LabelledProblem], probe: Path) -> str | None:
    """Returns a warning if some problems are near-copies of those that trained the probe, or None.

    A probe from elsewhere, or of an earlier release, says nothing of its problems: then nothing is
    checked.

    Args:
        problems: to calibrate on.
        probe: its folder.

    Raises:
        RequestRefused: some of the problems trained the probe; the message has their number and
            names the first.
        TraceError: the file that says which is damaged.
    """
    seen = read_seen_problems(probe)
    digests = {*seen.digest_of_problem.values()}
    if known := [one for one in problems if digest_problem(one) in digests]:
        raise RequestRefused("data", _refusal(len(known), len(problems), known[0].id))
    near = [one for one in problems if digest_pattern(one) in seen.patterns]
    if not near:
        return None
    return (
        f"{len(near)} of {len(problems)} problems differ from one that trained the probe in case, "
        f"white space or numbers alone (the first is {near[0].id!r}). The certificate will be for "
        "questions of which as many do"
    )


def require_untrained_ids(ids: Sequence[str], probe: Path) -> None:
    """As `require_untrained`, of traces, which hold no texts but the ids of problems.

    An id says which problem it is if it is the digest that problems without an id get.

    Raises:
        RequestRefused: some of the problems trained the probe.
        TraceError: the file that says which is damaged.
    """
    seen = read_seen_problems(probe).digest_of_problem
    digests = {*seen, *seen.values()}
    if known := [id_ for id_ in ids if id_ in digests and _DIGEST.fullmatch(id_)]:
        raise RequestRefused("traces", _refusal(len(known), len(ids), known[0]))


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


def _refusal(known: int, of: int, first: str) -> str:
    return (
        f"{known} of {of} problems trained the probe (the first is {first!r}), so it is surer of "
        "them than of new ones: leave them out, or train the probe on others"
    )
