"""Calibration in the background: labelled problems in, a certificate out, on the live engine."""

from rlcm_serve.jobs.calibration_jobs import CalibrationJobs

__all__ = ["CalibrationJobs"]
