"""For each alert, series on which it fires, in the notation of `promtool test rules`."""

LEVEL = 'certificate="c1", risk="selective", alpha="0.1"'

FIRING: dict[str, dict[str, str]] = {
    "RlcmDown": {'up{job="rlcm-serve", instance="a"}': "0x120"},
    "RlcmEngineDown": {'rlcm_engine_up{instance="a"}': "0x120"},
    "RlcmEngineDiesOften": {'rlcm_engine_restarts_total{instance="a"}': "0+1x120"},
    "RlcmEngineHangs": {'rlcm_engine_hangs_total{instance="a"}': "0x60 1x60"},
    "RlcmDatabaseDown": {'rlcm_database_up{instance="a"}': "0x120"},
    "RlcmQueueFull": {
        'rlcm_queue_waiting{instance="a"}': "256x120",
        'rlcm_queue_waiting_limit{instance="a"}': "256x120",
        'rlcm_queue_running{instance="a"}': "48x120",  # the others are kept for other keys
        'rlcm_queue_running_limit{instance="a"}': "64x120",
    },
    "RlcmEvidenceFails": {'rlcm_evidence_failures_total{instance="a"}': "0+1x120"},
    "RlcmErrorRate": {
        'rlcm_http_requests_total{route="/solve", status="200"}': "0+9x120",
        'rlcm_http_requests_total{route="/solve", status="503"}': "0+1x120",
        'rlcm_http_requests_total{route="/health", status="200"}': "0+900x120",
    },
    "RlcmQuestionsFail": {
        'rlcm_questions_total{outcome="answered", guarantee="yes"}': "0+9x120",
        'rlcm_question_failures_total{kind="engine_dead"}': "0+1x120",
    },
    "RlcmAbstentionJump": {
        'rlcm_questions_total{outcome="answered", guarantee="yes"}': "0+9x60 540+2x60",
        'rlcm_questions_total{outcome="abstained", guarantee="yes"}': "0+1x60 60+8x60",
    },
    "RlcmBrokenReadings": {'rlcm_broken_readings_total{instance="a"}': "0+1x120"},
    "RlcmNothingPromised": {
        'rlcm_certificates{instance="a"}': "0x120",
        'rlcm_engine_up{instance="a"}': "1x120",
    },
    "RlcmCertificateVoid": {'rlcm_certificate_void{certificate="c1", instance="a"}': "1x120"},
    "RlcmRiskAlarm": {
        f'rlcm_live_risk_alarmed{{{LEVEL}, instance="a"}}': "1x120",
        f'rlcm_live_risk_alarmed{{{LEVEL}, instance="b"}}': "1x120",
    },
    "RlcmGuaranteeWithdrawn": {'rlcm_live_withdrawn{certificate="c1", instance="a"}': "1x120"},
    "RlcmDriftAlarm": {
        f'rlcm_live_drift_alarmed{{{LEVEL}, statistic="tokens", instance="a"}}': "1x120"
    },
    "RlcmLabelsExpire": {
        f'rlcm_live_labels{{{LEVEL}, verdict="expired", instance="a"}}': "0+0.1x120",
        f'rlcm_live_labels{{{LEVEL}, verdict="right", instance="a"}}': "0+5x120",
    },
    "RlcmMonitoringStands": {
        'rlcm_monitoring_behind_seconds{instance="a"}': "0+60x120",
        'rlcm_monitoring_behind_seconds{instance="b"}': "0+60x120",
        'rlcm_monitoring_behind_seconds{instance="c", namespace="other"}': "2x120",
    },
    "RlcmMonitorUnusable": {
        'rlcm_monitors_unusable{instance="a"}': "0x120",
        'rlcm_monitors_unusable{instance="b"}': "1x120",
    },
}
"""A step is a minute; two hours. Of two processes of one database, one alert is enough."""

UP: dict[str, str] = {'up{job="rlcm-serve", instance="a"}': "1x120"}
"""Prometheus reaches the service."""

GONE: dict[str, str] = {'up{job="rlcm-serve", instance="a"}': "1x60 _x60"}
"""All pods are gone, and their series with them."""

QUIET: dict[str, str] = {
    'rlcm_engine_up{instance="a"}': "1x120",
    'rlcm_database_up{instance="a"}': "1x120",
    'rlcm_engine_restarts_total{instance="a"}': "1x120",
    'rlcm_engine_hangs_total{instance="a"}': "0x120",
    'rlcm_queue_waiting{instance="a"}': "12x120",
    'rlcm_queue_waiting_limit{instance="a"}': "256x120",
    'rlcm_queue_running{instance="a"}': "64x120",
    'rlcm_queue_running_limit{instance="a"}': "64x120",
    'rlcm_evidence_failures_total{instance="a"}': "0x120",
    'rlcm_http_requests_total{route="/solve", status="200"}': "0+99x120",
    'rlcm_http_requests_total{route="/solve", status="503"}': "0+1x120",
    'rlcm_questions_total{outcome="answered", guarantee="yes"}': "0+80x120",
    'rlcm_questions_total{outcome="abstained", guarantee="yes"}': "0+20x120",
    'rlcm_question_failures_total{kind="engine_dead"}': "0x120",
    'rlcm_broken_readings_total{instance="a"}': "0x120",
    'rlcm_certificates{instance="a"}': "3x120",
    'rlcm_certificate_void{certificate="c1", instance="a"}': "0x120",
    f'rlcm_live_risk_alarmed{{{LEVEL}, instance="a"}}': "0x120",
    'rlcm_live_withdrawn{certificate="c1", instance="a"}': "0x120",
    f'rlcm_live_drift_alarmed{{{LEVEL}, statistic="tokens", instance="a"}}': "0x120",
    f'rlcm_live_labels{{{LEVEL}, verdict="expired", instance="a"}}': "0x120",
    'rlcm_monitors_unusable{instance="a"}': "0x120",
    'rlcm_monitoring_behind_seconds{instance="a"}': "2x120",
    'rlcm_monitoring_behind_seconds{instance="b"}': "0+60x120",  # another process looks
}
"""A service that is well."""

REPLACED: dict[str, str] = {
    f'rlcm_live_risk_alarmed{{{LEVEL}, instance="a"}}': "1x90 _x30",
    'rlcm_live_withdrawn{certificate="c1", instance="a"}': "1x90 _x30",
    f'rlcm_live_drift_alarmed{{{LEVEL}, statistic="tokens", instance="a"}}': "1x90 _x30",
}
"""A certificate that was replaced after its alarms: it has no series then."""
