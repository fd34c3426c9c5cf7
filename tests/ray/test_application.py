"""The configuration file for clusters, held against Ray's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from rlcm_serve.errors import SettingsRefused
from rlcm_serve.ray.application import build
from rlcm_serve.ray.replica import NAME

pytestmark = pytest.mark.ray

FILE = Path(__file__).parents[2] / "deploy/ray/serve.yaml"


def test_the_configuration_file_is_one_of_ray_serve_and_names_what_exists() -> None:
    told = ServeDeploySchema.model_validate(yaml.safe_load(FILE.read_text("utf-8")))
    (application,) = told.applications
    module, _, name = application.import_path.partition(":")
    assert (module, name) == (build.__module__, build.__name__)
    assert [deployment.name for deployment in application.deployments] == [NAME]
    assert build(application.args)._bound_deployment.name == NAME


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(SettingsRefused, match="modell"):
        build({"modell": "embedded"})
