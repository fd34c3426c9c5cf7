"""Numbers behind a stated risk: exit rule, recorded reasoning, Learn-then-Test, certificates."""

from calibration.certificate import Certificate, CertifiedLevel, InfeasibleLevel, Level
from calibration.certify import certify
from calibration.errors import (
    CalibrationError,
    CertificateError,
    InfeasibleAlpha,
    TraceError,
)
from calibration.exit_rule import (
    FULL_BUDGET,
    INITIAL_STATE,
    ExitPolicy,
    ExitReason,
    Exits,
    ExitState,
    answers_at_end,
    find_exits,
    step,
)
from calibration.fingerprint import Fingerprint
from calibration.fwer import Promise, fixed_sequence
from calibration.metrics import (
    ReliabilityBin,
    auroc,
    brier_score,
    expected_calibration_error,
    positive_calibration_error,
    reliability_bins,
)
from calibration.path import policy_grid
from calibration.pvalues import binomial_p_value, clopper_pearson_upper, fewest_problems
from calibration.replay import Evaluation, Replay, evaluate, replay
from calibration.trace_table import Reading, Rollout
from calibration.traces import Traces, read_traces, write_traces
from calibration.voting import NO_ANSWER, Vote, confidence_vote, majority_vote

__all__ = [
    "FULL_BUDGET",
    "INITIAL_STATE",
    "NO_ANSWER",
    "CalibrationError",
    "Certificate",
    "CertificateError",
    "CertifiedLevel",
    "Evaluation",
    "ExitPolicy",
    "ExitReason",
    "ExitState",
    "Exits",
    "Fingerprint",
    "InfeasibleAlpha",
    "InfeasibleLevel",
    "Level",
    "Promise",
    "Reading",
    "ReliabilityBin",
    "Replay",
    "Rollout",
    "TraceError",
    "Traces",
    "Vote",
    "answers_at_end",
    "auroc",
    "binomial_p_value",
    "brier_score",
    "certify",
    "clopper_pearson_upper",
    "confidence_vote",
    "evaluate",
    "expected_calibration_error",
    "fewest_problems",
    "find_exits",
    "fixed_sequence",
    "majority_vote",
    "policy_grid",
    "positive_calibration_error",
    "read_traces",
    "reliability_bins",
    "replay",
    "step",
    "write_traces",
]
