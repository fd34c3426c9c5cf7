"""The service's settings, and where each came from."""

from rlcm_serve.settings.model import Settings
from rlcm_serve.settings.sources import Loaded, load_settings

__all__ = ["Loaded", "Settings", "load_settings"]
