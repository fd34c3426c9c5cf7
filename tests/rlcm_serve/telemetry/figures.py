"""Figures of live monitoring, made by hand."""

from dataclasses import replace

from calibration import Certificate
from rlcm_serve.solving.guarantees import Withdrawn
from rlcm_serve.store.answers.figures import (
    DriftFigures,
    LevelFigures,
    MonitoringFigures,
    TestFigures,
)
from rlcm_serve.store.shadows.figures import ShadowFigures

DIGEST = "571b667eda0c" + "0" * 52
COUNTS = {"audited": 240, "waiting": 12, "expired": 3, "right": 210, "wrong": 15}
LEVEL = LevelFigures(
    certificate=DIGEST,
    risk="selective",
    alpha=0.1,
    delta=0.05,
    questions=5000,
    answered=4700,
    labels=COUNTS | {"others_right": 40, "others_wrong": 9},
    test=TestFigures(
        labels=225,
        answers=4700,
        behind=130,
        risk=0.068,
        low=0.031,
        high=0.119,
        log_wealth=-0.8,
        threshold=3.0,
        alarmed_at=None,
    ),
    drift=(
        DriftFigures("confidence", 0.91, 0.84, 0.3, 0.4, 0.6, 200, 1e4, 9.1, alarmed=True),
        DriftFigures("declined", 0.07, 0.06, 0.5, 0.4, 0.6, 200, 1e4, 0.1, alarmed=False),
    ),
    drift_alarmed_at=1100.0,
    shadow=ShadowFigures(
        questions=4700,
        drawn=240,
        dropped=3,
        waiting=2,
        missing=1,
        agree=222,
        disagree=12,
        disagreement=0.052,
        low=0.021,
        high=0.11,
        log_wealth=-1.2,
        threshold=4.38,
        above_at=None,
    ),
    history=(),
)
FIGURES = MonitoringFigures(
    time=1200.0,
    looked=1199.0,
    waiting=12,
    oldest=1000.0,
    levels=(LEVEL,),
    withdrawn={},
    events=(),
    unusable=0,
)
NEW = replace(
    FIGURES, looked=None, waiting=0, oldest=None, levels=(replace(LEVEL, questions=0, test=None),)
)
_LOST = Withdrawn("risk alarm", 1100.0)
WITHDRAWN = replace(FIGURES, withdrawn={DIGEST[:12]: _LOST})


def figures_of(certificate: Certificate, figures: MonitoringFigures = FIGURES) -> MonitoringFigures:
    """The same figures of another certificate."""
    return replace(
        figures,
        levels=tuple(replace(one, certificate=certificate.digest) for one in figures.levels),
        withdrawn={certificate.id: _LOST} if figures.withdrawn else {},
    )
