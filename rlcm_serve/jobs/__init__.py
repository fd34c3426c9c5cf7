"""Background calibration on the live engine: from labelled problems to a certificate."""

from rlcm_serve.jobs.calibration_jobs import CalibrationJobs

__all__ = ["CalibrationJobs"]
