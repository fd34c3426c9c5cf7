"""Everything that can go wrong on purpose.

RlcmError
|-- ModelRefused        a model this service cannot control, and why
|-- UnsupportedVllm     a vLLM that lacks something this service relies on
|-- CertificateMismatch a certificate that does not speak of this engine
|-- DatabaseRefused     a database that cannot be used, and why
|-- EngineDead          vLLM stopped; no request can be served until it is back
|-- NotReady            the service is still starting, or could not, or is stopping
|-- RequestRefused      a request the service will not take, naming the field
|-- Infeasible          no policy is certified at the risk asked for
|-- OutOfTime           a question was not answered in the time it had
|-- Overloaded          too much is waiting already; says when to come back
|   '-- TooManyAtOnce   or only for this caller, who has as much under way as it may
|-- SettingsRefused     a setting that cannot be, and where it came from
|-- BodyTooLarge        a request whose body is over the limit
|   '-- TooManyRollouts in bytes, or in rollouts to vote on
|-- AccessDenied        no key, a wrong one, or one that may not do this
|-- NotFound            nothing of that name
|   |-- ModelNotFound   or no such model
|   '-- NoReport       or a certificate of which nothing was measured here
'-- Conflict            it cannot be done to the thing as it is now
"""

from __future__ import annotations


class RlcmError(Exception):
    """Base of this service's own errors; `str(error)` says what was wrong and what to do."""


class ModelRefused(RlcmError):
    """The model cannot be served under exit control."""


class UnsupportedVllm(RlcmError):
    """The installed vLLM lacks a hook, or does not load this service's plugin."""


class CertificateMismatch(RlcmError):
    """A certificate was fitted on something else than this engine, or two claim one procedure."""


class DatabaseRefused(RlcmError):
    """The database cannot be opened, or its tables are of another version."""


class EngineDead(RlcmError):
    """The engine process is gone, or could not start."""


class NotReady(RlcmError):
    """No question can be answered yet; `stage` says how far the start has come.

    `state` says it in one word, where that is known: see `rlcm_serve.api.status`.
    """

    def __init__(self, stage: str, state: str | None = None) -> None:
        super().__init__(f"the service is not ready: {stage}")
        self.stage = stage
        self.state = state


class RequestRefused(RlcmError):
    """A question that cannot be answered as asked; `field` names the part at fault."""

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


class OutOfTime(RlcmError):
    """A question was not answered within its time; what it had running was aborted."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"not answered within {seconds:g} s: give timeout_s more, or lower n or max_tokens"
        )
        self.seconds = seconds


class Overloaded(RlcmError):
    """The queue is full; `retry_after` seconds from now there should be room."""

    def __init__(self, waiting: int, retry_after: int) -> None:
        super().__init__(f"{waiting} requests are waiting already: retry in {retry_after} s")
        self.retry_after = retry_after


class TooManyAtOnce(Overloaded):
    """This caller has as many questions under way as its key allows."""

    def __init__(self, most: int, retry_after: int) -> None:
        RlcmError.__init__(
            self,
            f"this key may have {most} questions under way at a time, and has: wait for one to end "
            f"(retry in {retry_after} s), or ask for a key with a higher limit",
        )
        self.retry_after = retry_after


class SettingsRefused(RlcmError):
    """A setting that is unknown, malformed or at odds with another; says where it came from."""


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


class AccessDenied(RlcmError):
    """A request without the right to be served; `known` says that its key itself is good."""

    def __init__(self, message: str, *, known: bool = False) -> None:
        super().__init__(message)
        self.known = known


class NotFound(RlcmError):
    """There is no such certificate, job or key."""


class ModelNotFound(NotFound):
    """Another model is asked for than the one that is served."""

    def __init__(self, asked: str, served: str) -> None:
        super().__init__(f"the model {asked[:80]!r} is not served here: ask for {served!r}")


class NoReport(NotFound):
    """There is such a certificate, and nothing to show of it."""


class Conflict(RlcmError):
    """The state of a certificate or job does not allow what was asked."""
