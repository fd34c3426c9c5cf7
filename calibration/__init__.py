"""Numbers behind a stated risk: exit rule, recorded reasoning, Learn-then-Test, certificates.

Names are loaded when they are first used: some of them import scipy or pyarrow.
Part of rlcm-serve.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibration.certificate.certificate import Certificate
    from calibration.certificate.certify import certify
    from calibration.certificate.certify_kinds import KindsPlan, certify_kinds, plan_kinds
    from calibration.certificate.evaluate import (
        Evaluation,
        LevelReplay,
        evaluate,
        replay_certificate,
    )
    from calibration.certificate.kinds import Kind
    from calibration.certificate.levels import CertifiedLevel, InfeasibleLevel, Level
    from calibration.certificate.plan import Forecast, Plan, plan
    from calibration.certificate.verify import verify
    from calibration.errors import (
        CalibrationError,
        CertificateError,
        InfeasibleAlpha,
        TraceError,
    )
    from calibration.metrics.ranking import auroc
    from calibration.metrics.reliability import (
        ReliabilityBin,
        expected_calibration_error,
        positive_calibration_error,
        reliability_bins,
    )
    from calibration.metrics.scoring import brier_score
    from calibration.policy.exit_rule import (
        FULL_BUDGET,
        INITIAL_STATE,
        ExitPolicy,
        ExitReason,
        ExitState,
        answers_at_end,
        step,
    )
    from calibration.policy.exit_search import Exits, find_exits
    from calibration.policy.voting import NO_ANSWER, Vote, confidence_vote, majority_vote
    from calibration.simulation.losses import Losses
    from calibration.simulation.procedure import Procedure
    from calibration.simulation.replay import Replay, outcomes, replay
    from calibration.simulation.risks import ERROR, REGRET, SELECTIVE, Outcomes, Risk, risk_named
    from calibration.testing.chains import Chain, family_of_chains
    from calibration.testing.families import Correction, Family, Grid, LowExit
    from calibration.testing.fwer import (
        Promise,
        bonferroni,
        certify_levels,
        fixed_sequence,
        graph_test,
        holm,
    )
    from calibration.testing.graphs import Graph, chain_graph
    from calibration.testing.methods import Method
    from calibration.testing.p_values import (
        PValue,
        binomial_p_value,
        clopper_pearson_upper,
        fewest_problems,
        p_values,
        upper_bounds,
    )
    from calibration.traces.fingerprint import Fingerprint
    from calibration.traces.table import Reading, Rollout
    from calibration.traces.traces import Traces, read_traces, write_traces

_HOMES = {
    "certificate.certificate": "Certificate",
    "certificate.levels": "CertifiedLevel InfeasibleLevel Level",
    "certificate.certify": "certify",
    "certificate.certify_kinds": "KindsPlan certify_kinds plan_kinds",
    "certificate.kinds": "Kind",
    "certificate.evaluate": "Evaluation LevelReplay evaluate replay_certificate",
    "certificate.plan": "Forecast Plan plan",
    "certificate.verify": "verify",
    "errors": "CalibrationError CertificateError InfeasibleAlpha TraceError",
    "metrics.ranking": "auroc",
    "metrics.reliability": "ReliabilityBin expected_calibration_error positive_calibration_error "
    "reliability_bins",
    "metrics.scoring": "brier_score",
    "policy.exit_rule": "FULL_BUDGET INITIAL_STATE ExitPolicy ExitReason ExitState answers_at_end "
    "step",
    "policy.exit_search": "Exits find_exits",
    "policy.voting": "NO_ANSWER Vote confidence_vote majority_vote",
    "simulation.losses": "Losses",
    "simulation.procedure": "Procedure",
    "simulation.replay": "Replay outcomes replay",
    "simulation.risks": "ERROR REGRET SELECTIVE Outcomes Risk risk_named",
    "testing.chains": "Chain family_of_chains",
    "testing.families": "Correction Family Grid LowExit",
    "testing.fwer": "Promise bonferroni certify_levels fixed_sequence graph_test holm",
    "testing.graphs": "Graph chain_graph",
    "testing.methods": "Method",
    "testing.p_values": "PValue binomial_p_value clopper_pearson_upper fewest_problems p_values "
    "upper_bounds",
    "traces.fingerprint": "Fingerprint",
    "traces.table": "Reading Rollout",
    "traces.traces": "Traces read_traces write_traces",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ERROR", "FULL_BUDGET", "INITIAL_STATE", "NO_ANSWER", "REGRET", "SELECTIVE", "CalibrationError",
    "Certificate", "CertificateError", "CertifiedLevel", "Chain", "Correction", "Evaluation",
    "ExitPolicy", "ExitReason", "ExitState", "Exits", "Family", "Fingerprint", "Forecast", "Graph",
    "Grid", "InfeasibleAlpha", "InfeasibleLevel", "Kind", "KindsPlan", "Level", "LevelReplay",
    "Losses", "LowExit", "Method", "Outcomes", "PValue", "Plan", "Procedure", "Promise", "Reading",
    "ReliabilityBin", "Replay", "Risk", "Rollout", "TraceError", "Traces", "Vote", "answers_at_end",
    "auroc", "binomial_p_value", "bonferroni", "brier_score", "certify", "certify_kinds",
    "certify_levels", "chain_graph", "clopper_pearson_upper", "confidence_vote", "evaluate",
    "expected_calibration_error", "family_of_chains", "fewest_problems", "find_exits",
    "fixed_sequence", "graph_test", "holm", "majority_vote", "outcomes", "p_values", "plan",
    "plan_kinds", "positive_calibration_error", "read_traces", "reliability_bins", "replay",
    "replay_certificate", "risk_named", "step", "upper_bounds", "verify", "write_traces",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'calibration' has no attribute {name!r}")
    return getattr(import_module(f"calibration.{_HOME_OF[name]}"), name)
