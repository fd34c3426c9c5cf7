"""Certificates: fitting, wording, verification, forecasts, and evaluation on other traces."""
