"""The errors that this service raises deliberately.

RlcmError
|-- ModelRefused        a model this service cannot control, and why
|-- ProfileRefused      a prompt profile that cannot be used, and why
|-- UnsupportedVllm     a vLLM that lacks something this service relies on
|-- CertificateMismatch a certificate that was fitted on another engine
|-- SignatureRefused    a signature that is missing, wrong or not trusted, or an unusable key
|-- DatabaseRefused     a database that cannot be used, and why
|   |-- DatabaseBusy    another writer kept the database locked for too long
|   '-- StorageFull     no space is left to store anything
|-- EvidenceUnavailable the record of an answer cannot be written
|-- EngineDead          vLLM stopped; no request can be served until it is back
|-- NotReady            the service is starting, failed to start, or is stopping
|-- RequestRefused      an invalid request; names the field
|-- Infeasible          no policy is certified at the risk asked for
|-- WorkerFailed        a helper process was killed or hung, twice
|-- OutOfTime           a question was not answered within its time limit
|   '-- BatchOutOfTime  a batch was not voted on within its time limit
|-- Overloaded          the queue is full; says when to retry
|   |-- TooManyAtOnce   the caller's key has reached its limit of running questions
|   '-- RateLimited     the caller's key has spent its requests or tokens of a minute
|-- SettingsRefused     an invalid setting, and where it came from
|-- BodyTooLarge        a request body over the limit in bytes
|   '-- TooManyRollouts a request with too many rollouts to vote on
|-- UnknownHost         a request that names another host than this service
|-- CrossOrigin         a request that a web page of another origin sends
|-- AccessDenied        a missing or wrong key, or one without the needed scope
|-- NotFound            no certificate, job or key has this name
|   |-- ModelNotFound   another model is served
|   '-- NoReport        the certificate has no report data
|-- KeyReused           an Idempotency-Key that came with another request before
'-- Conflict            the current state does not allow the request
    |-- StillRunning    the first request with this Idempotency-Key has not ended
    |-- NotRestoring    a certificate that may not take the place of a withdrawn one
    '-- UnreadableJob   another release made the calibration job
"""

from __future__ import annotations

import math
from collections.abc import Sequence


class RlcmError(Exception):
    """Base of this service's own errors; `str(error)` says what is wrong and how to fix it."""


class ModelRefused(RlcmError):
    """The model cannot be served under exit control."""


class ProfileRefused(RlcmError):
    """A prompt profile is malformed, or does not fit the model."""


class UnsupportedVllm(RlcmError):
    """The installed vLLM lacks a hook, or does not load this service's plugin."""


class CertificateMismatch(RlcmError):
    """A certificate was fitted on another engine, or two certificates are for one procedure."""


class SignatureRefused(RlcmError):
    """A certificate has no signature of a trusted key, or a key or signature cannot be read."""


class DatabaseRefused(RlcmError):
    """The database cannot be used. The message may name it, so only operators may see it.

    `public` says the same without any name, for callers.
    """

    def __init__(
        self, message: str, public: str = "the database cannot be reached; see the service's log"
    ) -> None:
        super().__init__(message)
        self.public = public


class DatabaseBusy(DatabaseRefused):
    """Another writer kept the database locked for too long; nothing was written."""


class StorageFull(DatabaseRefused):
    """No space is left, for the database or for a temporary file; nothing was written."""


class EngineDead(RlcmError):
    """The engine process is gone, or could not start."""


class EvidenceUnavailable(RlcmError):
    """A record cannot be written, so no answer may be given. Only operators may see the message."""


class NotReady(RlcmError):
    """No question can be answered now.

    `stage` describes the progress of the start; `state` is a single word, see
    `rlcm_serve.api.status`.
    """

    def __init__(self, stage: str, state: str | None = None) -> None:
        super().__init__(f"the service is not ready: {stage}")
        self.stage = stage
        self.state = state


class RequestRefused(RlcmError):
    """An invalid request; `field` names the invalid part."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Infeasible(RlcmError):
    """No policy is certified at `alpha`; `smallest_certifiable` is a level that could be."""

    def __init__(
        self, alpha: float, smallest_certifiable: float, certified: tuple[float, ...], why: str
    ) -> None:
        super().__init__(why)
        self.alpha = alpha
        self.smallest_certifiable = smallest_certifiable
        self.certified = certified


class WorkerFailed(RlcmError):
    """A process that compares answers or fits certificates was killed or hung, twice in a row."""


class OutOfTime(RlcmError):
    """A question was not answered within its time limit; its samples were aborted.

    `no_guarantee_reason` says what that means for the guarantee under which answering began.
    """

    def __init__(self, seconds: float, no_guarantee_reason: str | None = None) -> None:
        super().__init__(
            f"not answered within {seconds:g} s: ask for fewer samples or a smaller thinking "
            "budget, or increase timeout_s as far as the service allows"
        )
        self.seconds = seconds
        self.no_guarantee_reason = no_guarantee_reason


class BatchOutOfTime(OutOfTime):
    """A batch of rollouts was not voted on within its time limit."""

    def __init__(self, seconds: float) -> None:
        RlcmError.__init__(
            self,
            f"not finished within {seconds:g} s: send fewer problems at a time, or use "
            "`rlcm aggregate`, which takes any time",
        )
        self.seconds = seconds
        self.no_guarantee_reason = None


class Overloaded(RlcmError):
    """The queue is full; there should be room again in `retry_after` seconds."""

    def __init__(self, waiting: int, retry_after: float) -> None:
        seconds = math.ceil(retry_after)
        super().__init__(f"{waiting} requests are waiting already: retry in {seconds} s")
        self.retry_after = retry_after


class TooManyAtOnce(Overloaded):
    """The caller has as many questions running as its key allows."""

    def __init__(self, most: int, retry_after: float) -> None:
        RlcmError.__init__(
            self,
            f"this key already has {most} questions running, its limit: wait for one to end "
            f"(retry in {math.ceil(retry_after)} s), or use a key with a higher limit",
        )
        self.retry_after = retry_after


class EngineBusy(Overloaded):
    """vLLM takes no more requests now, by a limit of its own such as `--max-num-queued-reqs`."""

    def __init__(self, why: str, retry_after: float = 1.0) -> None:
        RlcmError.__init__(self, f"vLLM takes no more requests now: {why}")
        self.retry_after = retry_after


class RateLimited(Overloaded):
    """The caller's key has spent its requests or tokens of a minute."""

    def __init__(self, kind: str, per_minute: int, retry_after: float) -> None:
        RlcmError.__init__(
            self,
            f"this key has spent its {per_minute} {kind} per minute: retry in "
            f"{math.ceil(retry_after)} s, or use a key with a higher limit",
        )
        self.retry_after = retry_after


class SettingsRefused(RlcmError):
    """A setting is unknown, malformed or contradicts another; says where it came from."""


class BodyTooLarge(RlcmError):
    """A request body of more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is over {limit} bytes: send less, or in several requests")
        self.limit = limit


class TooManyRollouts(BodyTooLarge):
    """A batch that is too large for one request."""

    def __init__(self, limit: int) -> None:
        RlcmError.__init__(
            self,
            f"there are over {limit} rollouts: send some problems at a time, or use "
            "`rlcm aggregate`, which takes any number",
        )
        self.limit = limit


class UnknownHost(RlcmError):
    """The `Host` of a request is not a name of this service."""

    def __init__(self, host: str) -> None:
        shown = f"{host[:80]!r}" if host else "missing"
        super().__init__(
            f"the Host header is {shown}, which is not a name of this service: use its address, or "
            "add the name to the setting allowed_hosts"
        )


class CrossOrigin(RlcmError):
    """A request with an effect, sent by a web page of another origin."""

    def __init__(self, origin: str) -> None:
        shown = f"the page of {origin[:80]!r}" if origin else "a page of another site"
        super().__init__(
            f"{shown} may not call this service: if it should, add its origin to the setting "
            "cors_origins; if it is the service's own page behind a proxy, let the proxy pass "
            "the Host header on unchanged"
        )


class AccessDenied(RlcmError):
    """A request without permission; `known` says that its key itself is valid."""

    def __init__(self, message: str, *, known: bool = False) -> None:
        super().__init__(message)
        self.known = known


class NotFound(RlcmError):
    """There is no such certificate, job or key."""


class ModelNotFound(NotFound):
    """A request names another model than the one that is served, or another profile of it."""

    def __init__(self, asked: str, served: Sequence[str]) -> None:
        names = ", ".join(map(repr, served))
        super().__init__(f"the model {asked[:80]!r} is not served here: use {names}")


class NoReport(NotFound):
    """The certificate exists but has no report data."""


class KeyReused(RlcmError):
    """An idempotency key that belongs to another request of the same caller."""

    def __init__(self) -> None:
        super().__init__(
            "this Idempotency-Key came with another request before: give each request its own key, "
            "and repeat a request with the same body"
        )


class Conflict(RlcmError):
    """The state of a certificate or job does not allow the request."""


class StillRunning(Conflict):
    """A repeat of a request that is still running."""

    def __init__(self) -> None:
        super().__init__(
            "the first request with this Idempotency-Key is still running: retry for its answer"
        )


class NotRestoring(Conflict):
    """A certificate that may not take the place of a withdrawn one."""


class UnreadableJob(Conflict):
    """A calibration job that asks for what this release does not know."""

    def __init__(self, id_: str, why: Exception) -> None:
        super().__init__(
            f"calibration {id_} was made by another release, and this one cannot read it ({why}): "
            "use that release, or post its problems again"
        )
