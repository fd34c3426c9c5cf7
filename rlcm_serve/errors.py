"""Everything that can go wrong on purpose.

RlcmError
|-- ModelRefused        a model this service cannot control, and why
|-- CertificateMismatch a certificate that does not speak of this engine
|-- EngineDead          vLLM stopped; no request can be served until a restart
|-- NotReady            the service is still starting, or could not
|-- RequestRefused      a question the service will not take, naming the field
'-- Infeasible          no policy is certified at the risk asked for
"""

from __future__ import annotations


class RlcmError(Exception):
    """Base of this service's own errors; `str(error)` says what was wrong and what to do."""


class ModelRefused(RlcmError):
    """The model cannot be served under exit control."""


class CertificateMismatch(RlcmError):
    """A certificate was fitted on something else than this engine, or two claim one procedure."""


class EngineDead(RlcmError):
    """The engine process is gone, or could not start."""


class NotReady(RlcmError):
    """No question can be answered yet; `stage` says how far the start has come."""

    def __init__(self, stage: str) -> None:
        super().__init__(f"the service is not ready: {stage}")
        self.stage = stage


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
