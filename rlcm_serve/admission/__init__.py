"""Admission: which questions run now, which wait, which are refused, and for how long."""

from rlcm_serve.admission.admission import ALONE_AFTER, Admission, Place
from rlcm_serve.admission.fair_queue import Tenant
from rlcm_serve.admission.rates import RateLimits, Rates

__all__ = ["ALONE_AFTER", "Admission", "Place", "RateLimits", "Rates", "Tenant"]
