"""The application for `serve run`, `serve deploy` and Ray's configuration files.

Whoever starts the cluster sets the variables of `rlcm_serve.ray.cluster.ENVIRONMENT` on each node.
"""

from __future__ import annotations

from collections.abc import Mapping

from ray import serve

from rlcm_serve.ray.replica import application
from rlcm_serve.ray.scale import Scale
from rlcm_serve.settings import load_settings


def build(args: Mapping[str, object]) -> serve.Application:
    """The application; the section `deployments` of a configuration file sets its scale.

    Args:
        args: settings of the service by name, which override its variables and its settings file.

    Raises:
        SettingsRefused: a setting is unknown or wrong.
    """
    return application(load_settings(args).settings, Scale())
