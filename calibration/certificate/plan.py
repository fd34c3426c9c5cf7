"""Forecasts from a pilot: how many labelled problems a calibration needs, and what it saves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from calibration.certificate.certify import default_p_value
from calibration.certificate.fitting.request import ALPHAS, DELTA, DesignRequest
from calibration.certificate.fitting.tested import certify_policies
from calibration.errors import CalibrationError
from calibration.simulation.drawn_units import drawn_units
from calibration.simulation.groups import Average
from calibration.simulation.label_share import LabelShare, require_shares
from calibration.simulation.labels import labels_needed
from calibration.simulation.predictions import predicted_losses
from calibration.simulation.replay import Replay
from calibration.simulation.risks import SELECTIVE, Risk
from calibration.testing.fwer import Promise
from calibration.testing.joint import Joint, levels_delta, requested
from calibration.testing.learned_path import choose_certified
from calibration.testing.methods import units_tested
from calibration.testing.side_risks import SideRisks
from calibration.testing.until import LIKELY, Until, labels_until
from calibration.traces.traces import Traces

SIZES = (50, 100, 200, 300, 500, 1000, 2000, 3000, 5000)
ORDERS = 5
"""Draws of the problems that a fit learns from, for each size."""
EXPECTED_UNITS = 1000
"""Units that a sequential design expects if the forecast does not say how many are enough."""
LABEL_SHARE = 0.25
"""Share of the problems with a label, where none is asked for."""
LEAST = 0.8
"""The smallest probability of a label, as a share of the mean one, where none is asked for."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected result of a calibration with n labelled problems or groups, at one alpha.

    Attributes:
        n: labelled problems or groups, including those learned from.
        alpha: risk level.
        certified: share of the simulated calibrations in which the level is certified.
        tokens_share: mean tokens as a share of the full budget's; 1 where the level is not
            certified.
        answered_share: mean share answered; 0 where the level is not certified and the risk may
            abstain.
        right_share: mean share answered correctly; 0 in the same cases.
    """

    n: int
    alpha: float
    certified: float
    tokens_share: float
    answered_share: float
    right_share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Forecasts by rising n, and the number of problems that each alpha needs.

    Attributes:
        risk: name of the risk.
        n_pilot: problems or groups of the pilot.
        forecasts: by rising n, then alpha.
        enough: by alpha, the smallest tried n that certifies it in 90% of the simulated
            calibrations; None if no n does.
        fewest: by alpha, the smallest n with which any test could certify it, if no answer is
            wrong and the level inherits all that larger alphas can pass on.
        sequential: by alpha, how many a sequential certificate needs that is extended unit by unit
            until it certifies the level; empty where no sequential certificate can be asked for.
        labelled: share of the problems that need a label (`labels_needed`).
        label_share: share of the problems that have a label in the next two.
        predicted: as `sequential`, in labels, where a share of the problems has a label, drawn
            evenly, and predicted losses stand for the others.
        active: as `predicted`, where doubtful problems are drawn more often (`LabelShare`).
    """

    risk: str
    n_pilot: int
    forecasts: tuple[Forecast, ...]
    enough: dict[float, int | None]
    fewest: dict[float, int]
    sequential: dict[float, Until]
    labelled: float
    label_share: float = LABEL_SHARE
    predicted: dict[float, Until] = field(default_factory=dict)
    active: dict[float, Until] = field(default_factory=dict)

    @property
    def expected_units(self) -> int:
        """The units that a sequential design expects: enough for each level that may be reached."""
        return max((n for n in self.enough.values() if n), default=EXPECTED_UNITS)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def plan(
    pilot: Traces,
    *,
    risk: str | Risk = SELECTIVE,
    alphas: Sequence[float] = ALPHAS,
    delta: float = DELTA,
    promise: Promise | str = Promise.SIMULTANEOUS,
    samples: int = 1,
    vote: str = "confidence",
    average: Average | str = Average.PROBLEMS,
    max_group_size: int | None = None,
    bounds: Mapping[str, float | None] | None = None,
    next_questions: int | None = None,
    sizes: Sequence[int] = SIZES,
    repeats: int = 100,
    sequential: bool = True,
    label_share: float = LABEL_SHARE,
    least_share: float | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Plan:
    """Simulate calibrations of several sizes on problems drawn from a pilot, with replacement.

    Each has the design that `certify` gives by default to as many problems, including those that
    are set aside to learn from. A sequential certificate has the design that learns from the whole
    pilot, as `rlcm plan --design` writes it: measured on what it learned from, it looks a little
    better than it is.

    This is a forecast, not a guarantee. It takes the pilot for the population, so it is as wrong as
    the pilot, and a pilot of fewer than 50 problems says little. Record new problems for the
    calibration itself: problems that were looked at to choose the sample size must not be used in
    the test.

    Args:
        pilot: labelled traces, as for `certify`.
        risk: see `certify`.
        alphas: see `certify`.
        delta: see `certify`.
        promise: see `certify`.
        samples: see `certify`.
        vote: see `certify`.
        average: see `certify`.
        max_group_size: see `certify`.
        bounds: see `certify`. A level counts as certified if a policy keeps all limits.
        next_questions: see `certify`.
        sizes: numbers of labelled problems or groups to try.
        repeats: simulated calibrations of each size.
        sequential: whether to forecast sequential certificates, too. They have no `bounds` and no
            `next_questions`.
        label_share: of the sequential certificates in which a share of the problems has a label.
        least_share: the smallest probability of a label, if doubtful problems get more of them.
        seed: seed of the simulations.
        on_progress: called with the number of sizes done and the number of sizes.

    Raises:
        CalibrationError: an argument is out of range, or a pilot problem has too few rollouts.
    """
    request = DesignRequest.of(
        risk=risk, alphas=alphas, delta=delta, promise=promise, samples=samples, vote=vote,
        average=average, max_group_size=max_group_size,
    )  # fmt: skip
    if not sizes or min(sizes) < 1 or repeats < 1:
        raise CalibrationError(
            f"sizes are {list(sizes)} and repeats {repeats}: give sizes and repeats of 1 or more"
        )
    require_shares(label_share, least_share)
    joint = requested(delta, request.risk, bounds or {}, next_questions, average)
    request = replace(request, delta=levels_delta(delta, joint))
    pilot = pilot.passing()
    pilot.require_labels()
    simulation = _Simulation(pilot, request, joint, np.random.default_rng(seed))
    forecasts: list[Forecast] = []
    for done, n in enumerate(sorted(sizes)):
        on_progress(done, len(sizes))
        forecasts += simulation.forecasts(n, repeats)
    on_progress(len(sizes), len(sizes))
    found = Plan(
        risk=request.risk.name,
        n_pilot=pilot.n_units,
        forecasts=tuple(forecasts),
        enough={alpha: _enough(forecasts, alpha) for alpha in request.alphas},
        fewest=request.fewest,
        sequential={},
        labelled=1.0,
        label_share=label_share,
    )
    design = request.design(pilot, found.expected_units, pilot, groups=simulation.groups)
    how = design.tested.policies, request.risk, request.procedure
    found = replace(found, labelled=float(labels_needed(pilot, *how).mean()))
    if not sequential or joint is not None:
        return found
    losses = design.measure(pilot, request.risk).losses
    predicted = predicted_losses(pilot, *how, simulation.groups)
    tests = design.tested, design.alphas, design.delta, design.promise, max(sizes), repeats
    least = LEAST * label_share if least_share is None else least_share
    evenly = LabelShare(label_share, label_share)
    aimed = LabelShare.aimed(label_share, least, predicted)
    rng = simulation.rng
    return replace(
        found,
        sequential=labels_until(losses, *tests, rng),
        predicted=labels_until(losses, *tests, rng, predicted, evenly),
        active=labels_until(losses, *tests, rng, predicted, aimed),
    )


class _Simulation:
    """Calibrations on problems drawn from a pilot, with the design that a fit on as many has."""

    def __init__(
        self, pilot: Traces, request: DesignRequest, joint: Joint | None, rng: np.random.Generator
    ) -> None:
        self.groups = request.groups_of(pilot)
        self.rng = rng
        self._pilot, self._request, self._joint = pilot, request, joint

    def forecasts(self, n: int, repeats: int) -> list[Forecast]:
        """The forecast of each level with n problems or groups."""
        request, risk = self._request, self._request.risk
        learns = self._n_tested(n) < n
        parts = np.array_split(np.arange(repeats), min(ORDERS, repeats) if learns else 1)
        served = [one for part in parts for one in self._served(n, len(part))]
        found = []
        for level, alpha in enumerate(request.alphas):
            ends = [(measured, chosen_L[level]) for measured, chosen_L in served]
            means = np.mean([_figures(*end, risk) for end in ends], axis=0)
            certified = float(np.mean([chosen is not None for _, chosen in ends]))
            found.append(Forecast(n, alpha, certified, *means.tolist()))
        return found

    def _n_tested(self, n: int) -> int:
        request = self._request
        return units_tested(request.method, request.risk, n, request.needed)

    def _served(self, n: int, times: int) -> Iterator[tuple[Replay, list[int | None]]]:
        """The policy served at each level, in so many tests of one design.

        The problems that the design is learned from are drawn once, those of the test each time.
        """
        pilot, request = self._pilot, self._request
        n_tested = self._n_tested(n)
        order = None
        if n_tested < n:
            order = drawn_units(pilot, self.rng.integers(pilot.n_units, size=n - n_tested))
        design = request.design(pilot, n_tested, order, groups=self.groups)
        family, spent = design.tested, (design.alphas, design.delta, design.promise)
        measured = design.measure(pilot, request.risk)
        kind = default_p_value(measured, request.risk, self.groups)
        sides = None
        if self._joint is not None and self._joint.has_limits:
            how = family.policies, request.procedure, self.groups, 0
            sides = SideRisks.measured(self._joint, pilot, *how)
        for _ in range(times):
            drawn_U = self.rng.integers(measured.losses.n_units, size=n_tested)
            served_LT = certify_policies(
                measured.losses.take(drawn_U), family, *spent, kind
            ).certified_LT
            if sides is not None and served_LT.any():
                served_LT = served_LT & sides.take(drawn_U).allowed_T
            yield (
                measured,
                [choose_certified(measured, row, request.served_price) for row in served_LT],
            )


def _figures(measured: Replay, chosen: int | None, risk: Risk) -> tuple[float, float, float]:
    """Tokens as a share of the full budget's, and the shares answered and right."""
    if chosen is not None:
        tokens = measured.tokens_T[chosen] / measured.full_tokens
        return float(tokens), float(measured.answered_T[chosen]), float(measured.right_T[chosen])
    return (1.0, 1.0, measured.full_right) if risk.answers_always else (1.0, 0.0, 0.0)


def _enough(forecasts: Sequence[Forecast], alpha: float) -> int | None:
    sizes = [each.n for each in forecasts if each.alpha == alpha and each.certified >= LIKELY]
    return min(sizes, default=None)
