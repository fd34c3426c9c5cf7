"""The types of calibration jobs: request, state, result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Self

import numpy as np

from calibration.certificate.fitting.request import ALPHAS, DELTA, check_alphas
from calibration.certificate.kinds import Kind, group_of_several
from calibration.certificate.sequential import WHY_ALONE
from calibration.errors import CalibrationError
from calibration.simulation.groups import Average, Groups, groups_of_sizes
from calibration.simulation.risks import risk_named
from calibration.testing.fwer import Promise, delta_per_level
from calibration.testing.joint import levels_delta, requested
from calibration.testing.methods import Method, units_tested
from calibration.testing.p_values import fewest_problems, require_rate
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import KIND
from rlcm_serve.core import MAX_SAMPLES, RiskName, VoteRule
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.profile import DEFAULT_NAME
from rlcm_serve.recording.problems import LabelledProblem


class JobState(StrEnum):
    """The state of a job; the last three are final."""

    QUEUED = "queued"
    RECORDING = "recording"
    FITTING = "fitting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in UNFINISHED


UNFINISHED = (JobState.QUEUED, JobState.RECORDING, JobState.FITTING)


@dataclass(frozen=True, slots=True)
class CalibrationRequest:
    """What a job records and fits. Other fields are those of `calibration.certificate.certify`.

    Attributes:
        profile: name of the profile under which the problems are asked.
        rollouts: recorded rollouts per problem.
        samples: samples per question (n).
        activate: activate the certificate as soon as it is fitted.
        sequential: problems may be added to the certificate later.
        extends: id of the job to whose sequential certificate the problems are added.
        replaces: id of the withdrawn certificate whose settings these are.
        by: the field of the problems that holds their kinds, for a certificate of each kind; None
            for one certificate.
        bounds: other risks to bound, with their limits.

    Raises:
        RequestRefused: a value is out of range.
    """

    risk: RiskName = RiskName.SELECTIVE
    alphas: tuple[float, ...] = ALPHAS
    delta: float = DELTA
    promise: Promise = Promise.SIMULTANEOUS
    samples: int = 1
    vote: VoteRule = VoteRule.CONFIDENCE
    rollouts: int = 1
    method: Method = Method.AUTO
    activate: bool = False
    profile: str = DEFAULT_NAME
    average: Average = Average.PROBLEMS
    max_group_size: int | None = None
    sequential: bool = False
    extends: str | None = None
    replaces: str | None = None
    by: str | None = None
    bounds: tuple[tuple[str, float | None], ...] = ()
    next_questions: int | None = None

    def __post_init__(self) -> None:
        risk = risk_named(self.risk)
        for name, check in (
            ("alphas", lambda: check_alphas(self.alphas)),
            ("delta", lambda: require_rate("delta", self.delta)),
            ("bounds", lambda: requested(self.delta, risk, dict(self.bounds), None)),
            ("next", lambda: requested(self.delta, risk, {}, self.next_questions)),
        ):
            try:
                check()
            except CalibrationError as error:
                raise RequestRefused(name, str(error)) from error
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise RequestRefused("n", f"n is {self.samples}: give 1 to {MAX_SAMPLES} samples")
        if self.rollouts < self.samples:
            raise RequestRefused(
                "rollouts",
                f"rollouts is {self.rollouts} and n is {self.samples}: the samples of a question "
                "are taken among its rollouts, so record at least n of each problem",
            )
        if self.by not in (None, KIND.name):
            raise RequestRefused(
                "by", f"by is {self.by!r}: a posted problem has its kind in the field 'kind'"
            )
        if self.sequential:
            self._require_alone()

    def _require_alone(self) -> None:
        """Raises RequestRefused if something is asked that no sequential certificate can have."""
        asked = {"by": self.by, "bounds": self.bounds, "next": self.next_questions}
        for name, value in asked.items():
            if value:
                raise RequestRefused(
                    name,
                    f"{name} cannot be combined with sequential: {WHY_ALONE[name]}. Leave out "
                    f"{name}, or leave out sequential and post all problems at once",
                )
        if self.method in (Method.SPLIT, Method.RESCALED_CHAINS):
            raise RequestRefused(
                "method",
                f"the method {self.method} learns from a part of the problems, and a sequential "
                "certificate fixes its policies before the first one: choose another method",
            )

    def with_group_size(self, problems: Collection[LabelledProblem]) -> Self:
        """The request with the size of the groups, if none was given and all have the same.

        Raises:
            RequestRefused: a group is larger than `max_group_size`, sizes differ without it, or
                groups count the same and the next questions are to be counted.
        """
        try:
            requested(self.delta, risk_named(self.risk), {}, self.next_questions, self.average)
        except CalibrationError as error:
            raise RequestRefused("next", str(error)) from error
        groups = self.groups_of(problems)
        return replace(self, max_group_size=groups.max_size) if groups else self

    def groups_of(self, problems: Collection[LabelledProblem]) -> Groups | None:
        """How groups of these problems enter the risk; None if each is a unit of its own.

        Raises:
            RequestRefused: a group is larger than `max_group_size`, or sizes differ without it.
        """
        sizes = np.array(list(Counter(map(_unit, problems)).values()))
        named = any(one.group is not None for one in problems)
        try:
            return groups_of_sizes(sizes, self.average, self.max_group_size, named=named)
        except CalibrationError as error:
            raise RequestRefused("max_group_size", str(error)) from error

    def require_enough(self, problems: Collection[LabelledProblem]) -> None:
        """Returns if the largest alpha could be certified in the best case, with no wrong answer.

        With kinds, that is for all of them together. A sequential certificate may begin with fewer.

        Raises:
            RequestRefused: more problems are needed; or kinds are asked for, and no problem has one
                or a group has several.
        """
        if self.by is not None:
            _require_kinds(problems)
        if self.sequential:
            return
        units = set(map(_unit, problems))
        alpha = max(self.alphas)
        needed = fewest_problems(
            alpha, delta_per_level(self._levels_delta, self.alphas, self.promise)
        )
        tested = units_tested(self.method, risk_named(self.risk), len(units), needed)
        if tested < needed:
            raise RequestRefused(
                "data",
                f"{len(units)} problems or groups leave {tested} to test on, and alpha = "
                f"{alpha:g} takes at least {needed} even if no answer is wrong: give more problems "
                "or larger alphas",
            )

    @property
    def _levels_delta(self) -> float:
        """What the levels may spend of delta: of all kinds together, where there are kinds."""
        whole = self.delta if self.by is None else Kind(self.by, None, (), (), self.delta).own_delta
        risk, bounds = risk_named(self.risk), dict(self.bounds)
        return levels_delta(whole, requested(whole, risk, bounds, self.next_questions))

    def to_json(self) -> str:
        """The request as JSON, for the database and the fitting process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote."""
        plain = json.loads(text)
        return cls(
            **plain
            | {
                "risk": RiskName(plain["risk"]),
                "alphas": tuple(plain["alphas"]),
                "bounds": tuple((risk, limit) for risk, limit in plain.get("bounds", ())),
                "promise": Promise(plain["promise"]),
                "vote": VoteRule(plain["vote"]),
                "method": Method(plain["method"]),
                "average": Average(plain.get("average", Average.PROBLEMS)),
            }
        )


def _require_kinds(problems: Collection[LabelledProblem]) -> None:
    """Raises `RequestRefused` unless some problems have a kind, and the problems of a group one."""
    if not any(problem.kind for problem in problems):
        raise RequestRefused(
            "by", "no problem has a kind: give each its field 'kind', or leave out by"
        )
    if (mixed := group_of_several((one.group, one.kind) for one in problems)) is not None:
        raise RequestRefused("by", f"{mixed}: divide the group, or leave out by")


def _unit(problem: LabelledProblem) -> tuple[str, str]:
    return ("problem", problem.id) if problem.group is None else ("group", problem.group)


@dataclass(frozen=True, slots=True)
class Post:
    """One request that makes a job and may be repeated.

    Attributes:
        place: stands for the API key, the route and the idempotency key.
        digest: of what was posted.
        seconds: how long it may be repeated.
    """

    place: str
    digest: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a job's log, with its time in seconds since 1970, UTC."""

    time: float
    text: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The current state of a job. Times are in seconds since 1970, UTC.

    Attributes:
        number: jobs run by rising number.
        done: recorded rollouts of all problems.
        fingerprint: engine and grader of the recordings; None until the first one begins.
        certificate: id of the result, which may have no certified level; with kinds, that of all
            kinds together.
        of_kinds: the ids of the certificates of single kinds; empty in lists of jobs.
        error: why the job failed.
        has_traces: whether the traces can be downloaded.
        log: the last lines of the log; empty in lists of jobs.
    """

    id: str
    number: int
    state: JobState
    request: CalibrationRequest
    n_problems: int
    done: int
    fingerprint: Fingerprint | None
    created: float
    started: float | None
    finished: float | None
    certificate: str | None
    error: str | None
    has_traces: bool
    log: Sequence[LogLine] = ()
    of_kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of rollouts to record."""
        return self.n_problems * self.request.rollouts
