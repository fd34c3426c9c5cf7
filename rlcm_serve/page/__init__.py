"""The page that the service shows in a browser: plain files, as they are sent."""

from rlcm_serve.page.assets import Asset, Assets

__all__ = ["Asset", "Assets"]
