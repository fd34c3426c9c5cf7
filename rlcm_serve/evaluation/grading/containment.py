"""What holds a model's programs on this machine, and what does not: the one list of gaps."""

from __future__ import annotations

from dataclasses import dataclass

KERNEL = (
    "flaws of the kernel, which programs share: run those that are written to break out in a "
    "virtual machine"
)
FILES = "files: programs read and write what their user may"
ATTRIBUTES = (
    "files' names: programs can tell whether a path exists, and its size, owner and dates; deleted "
    "files that stay mapped take disk space until the test ends"
)
NETWORK = "the network: only Python's own sockets are refused"
PROCESSES = "processes of the same user: programs can send them signals and change them"
MEMORY = (
    "memory that belongs to no process (memfd_create, shared mappings): it is bounded for each "
    "process, not for all of them together"
)
WATCH = "memory of all processes together: /proc cannot be mounted, so each has its own limit only"


@dataclass(frozen=True, slots=True)
class Containment:
    """What a sandbox found that it can do.

    Attributes:
        namespaces: programs have their own network, files and processes.
        other_user: root starts them, and they run as a user that owns nothing.
        calls: the kernel filters their system calls (seccomp).
        files: they open only Python, libraries and their own files, by namespaces or Landlock.
        watched: the memory of all processes of a test together is measured.
    """

    namespaces: bool
    other_user: bool
    calls: bool
    files: bool
    watched: bool

    def gaps(self) -> tuple[str, ...]:
        """What is not covered, a phrase each; the kernel's flaws never are."""
        found = {
            FILES: not self.files,
            ATTRIBUTES: self.files and not self.namespaces,
            NETWORK: not (self.namespaces or self.calls),
            PROCESSES: not (self.namespaces or self.calls or self.other_user),
            MEMORY: not self.calls,
            WATCH: not self.watched,
            KERNEL: True,
        }
        return tuple(gap for gap, applies in found.items() if applies)
