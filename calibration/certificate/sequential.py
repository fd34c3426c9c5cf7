"""Sequential certificates: problems may be added at any time, until a level is reached.

With probability at least 1 - delta, no policy that is ever certified has a risk above its alpha: at
all times together, and at all levels unless the promise is pointwise, whatever the dependence
between policies, whenever one looks, and however one decides to stop or to go on. Proof: under a
true null hypothesis, the wealth of the anytime test does not grow on average with any unit, so it
ever reaches 1 / u with probability at most u (Ville). So the inverse of the largest wealth of all
times is a p-value, and the graph over these p-values rejects a true null hypothesis with
probability at most delta. At every earlier time the p-values are larger, and a graph that is given
larger p-values rejects nothing else.

It requires that all that the test depends on is fixed before the first unit (`Design`), that units
are independent draws from one population, complete and disjoint, and that every addition is drawn
without looking at its labels. It does not cover a risk, method or population that was chosen by
results, or additions that are easier than the population.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from calibration.certificate.batches import Batches
from calibration.certificate.certificate import Certificate, read_json
from calibration.certificate.certify import check_splits, fit_design
from calibration.certificate.design import FORMAT, Design
from calibration.certificate.evaluate import resolve_risk
from calibration.certificate.fitting.request import DesignRequest, require_token_price
from calibration.errors import CalibrationError, CertificateError
from calibration.simulation.label_share import LabelShare, require_shares
from calibration.simulation.predictions import predicted_losses
from calibration.simulation.risks import Risk
from calibration.testing.learned_path import TOKEN_PRICE
from calibration.testing.p_values import PValue
from calibration.traces.traces import Traces

WHY_ALONE = {
    "p-value": "it has a test of its own, which holds at all times",
    "by": "the kinds divide delta by how many of them have enough labels, and that is known only "
    "once all problems have come",
    "bounds": "bounds on other risks are tested once, on a number of problems that is fixed before",
    "next": "every addition would be followed by other next questions, and each count of them "
    "would need a part of delta",
}
"""What a sequential certificate cannot be combined with, and why."""


def sequential_design(
    recording: Traces,
    n_units: int,
    *,
    order: Traces | None = None,
    label_share: float | None = None,
    least_share: float | None = None,
    **asked: Any,
) -> Design:
    """What a sequential certificate fixes before its first unit; it depends on no tested label.

    Args:
        recording: traces of the same recording as those to come. Only their fingerprint and the
            sizes of their groups are used.
        n_units: about how many units are expected; this affects only the power.
        order: see `certify`. A method that learns needs it.
        label_share: the share of the units that shall have a label, which is drawn; None for a
            label of each. It needs `order`, whose recordings set the scale of the probabilities.
        least_share: the smallest probability of a label; below `label_share`, doubtful problems
            get more labels (`LabelShare`).
        asked: the arguments of `DesignRequest.of`.

    Raises:
        CalibrationError: an argument is out of range, or a method that learns has no `order`.
    """
    request = DesignRequest.of(**asked)
    require_shares(label_share, least_share)
    order = order and order.passing()
    design = request.design(recording, n_units, order, groups=request.groups_of(recording))
    if label_share is None:
        return design
    if order is None:
        raise CalibrationError(
            f"label_share is {label_share}, and there are no other problems whose doubts set the "
            "scale of the probabilities: give `order`"
        )
    how = design.tested.policies, request.risk, request.procedure, design.groups
    share = LabelShare.aimed(label_share, least_share, predicted_losses(order, *how))
    return replace(design, label_share=share)


def begin_sequential(
    traces: Traces,
    *,
    order: Traces | None = None,
    token_price: float = TOKEN_PRICE,
    created: str | None = None,
    **fixed: Any,
) -> Certificate:
    """A sequential certificate from its first batch, with a design that expects as many units.

    Args:
        traces: the problems of the first batch.
        order: see `sequential_design`.
        token_price: see `certify`.
        created: see `certify`.
        fixed: further arguments of `sequential_design`.

    Raises:
        CalibrationError: see `sequential_design` and `certify_sequential`.
    """
    design = sequential_design(
        traces, traces.n_units, order=order, token_price=token_price, **fixed
    )
    risk = fixed.get("risk")
    return certify_sequential(
        traces,
        design,
        risk=risk if isinstance(risk, Risk) else None,
        order=order,
        token_price=token_price,
        created=created,
    )


def read_start(path: str | Path) -> Design | Certificate:
    """A design or a certificate, from its file.

    Raises:
        CertificateError: there is no such file, it is neither, or it was edited.
    """
    values = read_json(path, "certificate or design", "`rlcm fit` or `rlcm plan --design`")
    is_design = isinstance(values, dict) and values.get("format") == FORMAT
    try:
        return Design.from_json(values) if is_design else Certificate.from_json(values)
    except CertificateError as error:
        raise CertificateError(f"{path}: {error}") from error


def certify_sequential(
    traces: Traces,
    start: Design | Certificate,
    *,
    risk: Risk | None = None,
    order: Traces | None = None,
    token_price: float = TOKEN_PRICE,
    created: str | None = None,
) -> Certificate:
    """A sequential certificate from its first batch, or from the earlier batches and a new one.

    Args:
        traces: all problems: those that `start` counts, and new ones, which become a batch.
        start: the design, or the certificate to extend.
        risk: required if `start` bounds a custom loss.
        order: required if policies or their order were learned: the problems they were learned
            on. They must not be tested.
        token_price: see `certify`. It chooses among certified policies.
        created: ISO date to note in the certificate.

    Raises:
        CalibrationError: there are no new problems, earlier ones are missing or changed, a group
            came in parts or is larger than declared, a problem has no label and needs one, or the
            certificate is not sequential.
        CertificateError: the traces have another fingerprint than `start`, or its figures
            contradict each other.
    """
    require_token_price(token_price)
    design, counted = _state(start)
    risk = resolve_risk(start, risk)
    traces = traces.passing()
    design.require_traces(traces.fingerprint, f"design {design.id}")
    if design.groups is None and traces.n_units < traces.n_problems:
        raise CalibrationError(
            "the traces have groups of several problems, and the design has none: add problems "
            "that are drawn one by one, or start a new certificate with other problems"
        )
    _require_order(design, order and order.passing(), traces)
    batches = counted.extended(traces)
    design.require_labels(batches.numbered(traces), risk)
    made = fit_design(design, traces, risk, PValue.ANYTIME, token_price, created, batches)
    made.check()  # a design may have been written by hand
    return made


def require_others(start: Design | Certificate, traces: Traces) -> None:
    """Refuse traces that cannot be tested: of another recording, or those that were learned from.

    Raises:
        CertificateError: the traces have another fingerprint than `start`.
        CalibrationError: they are those that gave the order.
    """
    design, traces = start if isinstance(start, Design) else start.design, traces.passing()
    design.require_traces(traces.fingerprint, f"design {design.id}")
    if traces.digest == design.order_digest:
        raise CalibrationError(
            f"design {design.id} learned from these problems, so they cannot be tested: give the "
            "traces of others"
        )


def problems_to_label(start: Design | Certificate, traces: Traces, risk: Risk) -> list[str]:
    """Ids of the problems that need a label before they can be tested.

    Args:
        start: a design or a certificate; a sequential one may be extended.
        traces: all problems, labelled or not: those of earlier batches too.
        risk: that of the design.

    Raises:
        TraceError: no problem passes the familiarity check.
    """
    tested = traces.passing()
    if isinstance(start, Design) or start.sequential is not None:
        design, counted = _state(start)
        tested = counted.numbered(tested)
    else:
        design = start.design
    needed_P = design.needs_label(tested, risk)
    return [name for name, needed in zip(tested.problem_ids, needed_P, strict=True) if needed]


def _require_order(design: Design, order: Traces | None, traces: Traces) -> None:
    """No problem may be tested that the design was learned on."""
    if design.order_digest is None:
        if order is not None:
            raise CalibrationError(
                f"design {design.id} learned from no other problems, so these would do nothing: "
                "leave out --order and --probe"
            )
        return
    if order is None or order.digest != design.order_digest:
        raise CalibrationError(
            f"design {design.id} learned from {design.n_order_problems} other problems: give their "
            "traces again (--order, or --probe), so that none of them is tested"
        )
    check_splits(order, traces)


def _state(start: Design | Certificate) -> tuple[Design, Batches]:
    if isinstance(start, Design):
        return start, Batches(start.digest)
    if start.sequential is None:
        raise CalibrationError(
            f"certificate {start.id} is not sequential: its number of problems was fixed before, "
            "so problems cannot be added; start a sequential one on other problems"
        )
    return start.design, start.sequential
