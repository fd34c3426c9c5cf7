"""The versions that training requires, checked before anything is loaded.

The trainer overrides private methods of TRL, which may change in any version. A test compares their
parameters with those of the pinned version.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from training.errors import TrainingRefused

PINNED = {"trl": "1.16.0", "vllm": "0.31"}
"""The tested versions; "0.31" allows every version that begins with it."""


def check_versions(
    installed: Mapping[str, str] | None = None,
    pinned: Mapping[str, str] = PINNED,
    how: str = "`make install`",
) -> None:
    """Checks that the pinned versions are installed.

    Args:
        installed: versions by package; None reads them from the environment.
        pinned: the versions that are required.
        how: what installs them, for the message.

    Raises:
        TrainingRefused: a package is missing or has another version; the message names the fix.
    """
    for package, wanted in pinned.items():
        found = _version(package) if installed is None else installed.get(package)
        if found is None or f"{found}.".partition("+")[0].find(f"{wanted}.") != 0:
            has = "is not installed" if found is None else f"is {found}"
            raise TrainingRefused(
                f"{package} {has}, and training was made for {wanted}: install "
                f"'{package}=={wanted}{'' if wanted.count('.') == 2 else '.0'}' ({how})"
            )


def _version(package: str) -> str | None:
    for name in (package, f"{package}-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
