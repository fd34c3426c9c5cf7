"""Tests that need Ray, in the lane `ray` (make test-ray); without Ray they are left out."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("ray") else ["test_*.py"]
