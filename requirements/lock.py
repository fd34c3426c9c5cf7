"""Writes the hashes of a lock, after a change: `python requirements/lock.py cpu.lock`.

Each pinned version is followed by the hashes of the files that pip takes for it on Linux x86-64
with Python 3.11: with this machine's C library, and with the oldest one that the version supports.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
WHEELS = ["--only-binary", ":all:", "--no-binary", "antlr4-python3-runtime"]  # it has no wheel
DRY_RUN = ["--no-deps", *WHEELS, "--dry-run", "--ignore-installed"]
C_LIBRARIES = ["1", "2010", "2014", *(f"_2_{minor}" for minor in range(5, 37))]
OLDEST_FIRST = [f"--platform=manylinux{name}_x86_64" for name in C_LIBRARIES]


def hashes(pins: list[str], *options: str) -> dict[str, str]:
    """The SHA-256 of the file that pip takes for each of these lines `NAME==VERSION`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        where = ["--report", str(report), "--target", folder]
        subprocess.run([*PIP, *DRY_RUN, *where, *options, *pins], check=True)
        taken = json.loads(report.read_text())["install"]
    found = {
        f"{file['metadata']['name']}=={file['metadata']['version']}": file["download_info"]
        for file in taken
    }
    return {_key(pin): file["archive_info"]["hashes"]["sha256"] for pin, file in found.items()}


def _key(pin: str) -> str:
    return pin.lower().replace("_", "-").replace(".", "-")


def main(lock: Path) -> None:
    """Rewrites the lock: its comments, then every pin with its hashes."""
    lines = [line for line in lock.read_text().splitlines() if not line.startswith(" ")]
    comments = [line for line in lines if line.startswith("#")]
    pins = sorted({line.split()[0] for line in lines if line} - {"#"}, key=str.lower)
    newest, oldest = hashes(pins), hashes(pins, *OLDEST_FIRST)
    locked = []
    for pin in pins:
        digests = dict.fromkeys((newest[_key(pin)], oldest[_key(pin)]))
        locked.append(" \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in digests)]))
    lock.write_text("\n".join([*comments, *locked, ""]))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(HERE / name)
