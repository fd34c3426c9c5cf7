"""The HTTP interface. Its routes decide nothing."""

from rlcm_serve.api.app import create_app

__all__ = ["create_app"]
