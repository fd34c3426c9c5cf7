"""Certificates: fitted, worded, verified, forecast, and evaluated on other traces."""
