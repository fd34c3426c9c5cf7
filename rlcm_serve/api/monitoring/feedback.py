"""Takes labels: verdicts as they are, references after grading as in calibration."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.answers.profile_graders import verdicts_as_given
from rlcm_serve.api.access import tenant_of
from rlcm_serve.api.context import Context
from rlcm_serve.api.wire.monitoring.feedback import FeedbackItem, FeedbackResponse, RefusedLabel
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import NotFound, ProfileRefused, RequestRefused
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import Label
from rlcm_serve.monitoring.running.live import LiveMonitoring
from rlcm_serve.store.answers.stored import MOST_LABELS, KnownAnswer
from rlcm_serve.store.caller import Caller, Scope
from rlcm_serve.telemetry.contract import Evaluation

GRADING_S = 30.0
"""Seconds for the references of one request; the rest is refused, and may be sent again."""

_FULL = f"the answer was labelled {MOST_LABELS} times: the last label stays, and no more are taken"
_Graded = tuple[list[Label], list[RefusedLabel]]
"""The labels, and those that are refused."""
_VerdictsOn = Callable[[KnownAnswer], Verdicts]
"""The verdicts for an answer; raises `RequestRefused` if its grader is not here."""
_log = logging.getLogger(__name__)


def monitoring_of(context: Context) -> LiveMonitoring:
    """The monitoring of this service.

    Raises:
        NotFound: it is off.
    """
    if context.monitoring is None:
        raise NotFound("this service stores no answers: see the setting monitor")
    return context.monitoring


async def take_labels(
    context: Context, caller: Caller, items: Sequence[FeedbackItem]
) -> FeedbackResponse:
    """Stores labels of answers that the caller may see; the others count as unknown.

    Raises:
        NotFound: monitoring is off.
        NotReady: references came before the engine's profiles are known, or the service stops.
        Overloaded: too many requests with references wait already, or too many of this caller.
        DatabaseRefused: the store cannot be used; a part of the labels may be stored.
    """
    monitoring = monitoring_of(context)
    await monitoring.writer.written()  # an answer may be labelled at once
    threads = context.database.threads
    known = await threads.read(monitoring.answers.find, [item.id for item in items], caller)
    is_trusted = context.settings.tested_labels != "trusted" or caller.may(Scope.LABEL)
    to_skip, not_skipped = _to_skip(items, known, is_trusted=is_trusted)
    grade = partial(_graded, items, known, caller.key_id, monitoring.draw)
    if any(item.reference is not None and item.id in known for item in items):
        identities = context.service.guarantees.identities
        graded = partial(_with_grader, grade, identities)
        labels, refused = await context.grading.run(tenant_of(caller), graded)
    else:
        labels, refused = grade(_no_verdicts)
    if not is_trusted:
        labels = [replace(label, trusted=False) for label in labels]
    done = await threads.write(monitoring.answers.label, labels, caller)
    skipped = await threads.write(monitoring.answers.skip, to_skip, caller) if to_skip else 0
    full = dict.fromkeys(done.refused)
    for label in labels:
        if known[label.id].answered and label.id not in full:
            context.tracing.evaluated(_evaluation(label))
    unknown = dict.fromkeys(item.id for item in items if item.id not in known)
    return FeedbackResponse(
        labelled=done.labelled,
        corrected=done.corrected,
        unchanged=done.unchanged,
        audited=done.audited,
        skipped=skipped,
        unknown=[*unknown],
        refused=[*refused, *not_skipped, *(RefusedLabel(id=id_, why=_FULL) for id_ in full)],
    )


def _evaluation(label: Label) -> Evaluation:
    score, word = (1.0, "correct") if label.right else (0.0, "incorrect")
    return Evaluation("correctness", word, score, response_id=label.id)


def _with_grader(
    grade: Callable[[_VerdictsOn], _Graded],
    identities: Sequence[EngineIdentity],
    math: AnswerGrader,
) -> _Graded:
    """What `grade` makes of the verdicts of the graders that answers were given under."""
    profiles = {identity.profile.name: identity.profile for identity in identities}

    @cache  # a grader may be anybody's, and long to load
    def of_grader(name: str | None, profile: str) -> Verdicts:
        return verdicts_as_given(name, profiles.get(profile), math)

    def verdicts(known: KnownAnswer) -> Verdicts:
        try:
            return of_grader(known.grader, known.profile)
        except ProfileRefused as error:
            raise RequestRefused(
                "reference",
                f"the answer was given under the profile {known.profile!r}, and cannot be graded "
                f"as it would have been then: {error}; send right instead",
            ) from error

    return grade(verdicts)


def _no_verdicts(known: KnownAnswer) -> Verdicts:
    raise AssertionError(f"no label of {known} has a reference")


def _to_skip(
    items: Sequence[FeedbackItem], known: Mapping[str, KnownAnswer], *, is_trusted: bool
) -> tuple[list[str], list[RefusedLabel]]:
    """The answers whose label nobody will give, and those that are refused."""
    ids, refused = [], []
    for item in items:
        if not item.skip or item.id not in known:
            continue
        if item.right is not None or item.reference is not None:
            why = "skip: give either skip, or right or reference"
            refused.append(RefusedLabel(id=item.id, why=why))
        elif not known[item.id].answered and not known[item.id].asks_full_right:
            why = "skip: the service abstained, so no test waits for a label"
            refused.append(RefusedLabel(id=item.id, why=why))
        elif not is_trusted:
            why = "skip: only keys with the scope label or admin may end the wait for a label"
            refused.append(RefusedLabel(id=item.id, why=why))
        else:
            ids.append(item.id)
    return ids, refused


def _graded(
    items: Sequence[FeedbackItem],
    known: Mapping[str, KnownAnswer],
    by: str | None,
    draw: AuditDraw,
    verdicts: _VerdictsOn,
) -> _Graded:
    """The labels, and those that are refused. References may take up to `GRADING_S` seconds."""
    labels, refused = [], []
    until = time.monotonic() + GRADING_S
    for item in items:
        answer = known.get(item.id)
        if answer is None or item.skip:
            continue
        try:
            right = _verdict(item, answer, verdicts, draw, late=time.monotonic() > until)
        except RequestRefused as error:
            refused.append(RefusedLabel(id=item.id, why=str(error)))
        except Exception as error:  # a grader may be anybody's  # noqa: BLE001
            said = f"{type(error).__name__}: {error}"
            why = f"reference: it cannot be graded ({said}); send right instead"
            _log.warning("the label of %s: %s", item.id, why)
            refused.append(RefusedLabel(id=item.id, why=why))
        else:
            labels.append(Label(item.id, right, by, item.reference, item.full_budget_right))
    return labels, refused


def _verdict(
    item: FeedbackItem,
    known: KnownAnswer,
    verdicts: _VerdictsOn,
    draw: AuditDraw,
    *,
    late: bool,
) -> bool:
    """Whether the answer is right; False for the reference of an abstention.

    Raises:
        RequestRefused: the label cannot be taken; the message says why.
    """
    if not known.answered and item.reference is None:
        _require_full_right(item, known)
        return False
    if not known.answered and not known.asks_reference:
        raise RequestRefused(
            "reference",
            "the service abstained, and this question was not drawn for audit, or its text is not "
            "stored: its reference would be of no use"
            + ("; send full_budget_right instead" if known.asks_full_right else ""),
        )
    if item.right is not None and item.reference is None:
        return item.right
    if item.reference is None or item.right is not None:
        raise RequestRefused("right", "give either right or reference")
    if late:
        raise RequestRefused("reference", "grading took too long: send this label again")
    try:
        grader = verdicts(known)
    except RequestRefused:
        if known.answered:
            raise
        return False  # nothing is compared: the reference is for a fresh certificate
    grader.check_reference(item.reference)
    if not known.answered:
        return False
    answer = known.answer if known.answer is not None else _confirmed(item.answer, known, draw)
    return grader.equal(answer, item.reference)


def _require_full_right(item: FeedbackItem, known: KnownAnswer) -> None:
    """Returns if a label without a reference says all that can be said where there is no answer.

    Where the text of the question is kept, a reference says more: a fresh certificate needs it.
    """
    if known.asks_full_right and not known.asks_reference and not item.right:
        if item.full_budget_right is not None:
            return
        raise RequestRefused(
            "full_budget_right",
            "no answer could be read: say whether the full budget's answer is right",
        )
    raise RequestRefused(
        "right",
        "the service abstained, so no answer can be right or wrong: a reference is taken if "
        "the question was drawn for audit",
    )


def _confirmed(answer: str | None, known: KnownAnswer, draw: AuditDraw) -> str:
    """The answer that the label brought, if it is the one that was given."""
    if answer is None:
        raise RequestRefused(
            "answer",
            "the service keeps no texts, so it cannot compare: send the answer with the reference, "
            "or right instead, or set audit_texts",
        )
    if known.digest is None or not hmac.compare_digest(draw.digest(answer), known.digest):
        raise RequestRefused("answer", "another answer was given: send it exactly as it was given")
    return answer
