"""Runs a model's program in a sandbox; `grading.sandbox` starts it as a script.

It reads a job (JSON) from the file descriptor in `argv[1]`. It replies with JSON lines: first
whether the sandbox is ready, then one line per test. It builds the sandbox and runs each test in a
process forked from the prepared interpreter, with limits and without privileges. It kills all
processes of a test before the next one. It never knows the expected outputs.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rlcm_serve.evaluation.grading import sandbox_kernel, sandbox_watch
else:  # a script finds its neighbours by path; last, so that none hides the standard library
    sys.path.append(str(Path(__file__).parent))
    import sandbox_kernel
    import sandbox_watch

    sys.path.pop()

NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
"""Namespaces of mounts, host name, System V IPC, processes and the network."""
NEW_USERS = 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 1024, 2048, 1 << 21
KEPT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
CAPABILITY_VERSION = 0x20080522

FIRST_USER, USERS = 60_600, 500
"""User ids that no distribution uses; one of them runs the program if root started this."""
POLL = 0.02  # seconds between two checks of a test's resources

SHOWN = ("/usr", "/lib", "/lib64", "/bin", sys.base_prefix, sys.prefix, sys.exec_prefix)
"""What a program may read: Python and the system's libraries."""

PRELUDE = """\
from string import *
from re import *
from datetime import *
from collections import *
from heapq import *
from bisect import *
from copy import *
from math import *
from random import *
from statistics import *
from itertools import *
from functools import *
from operator import *
from io import *
from sys import *
from json import *
from builtins import *
from typing import *
import string, re, datetime, collections, heapq, bisect, copy, math, random, statistics
import itertools, functools, operator, io, sys, json
sys.setrecursionlimit(50000)
"""
"""The imports that LiveCodeBench puts before every program."""

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Runs one job."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        job: dict[str, Any] = json.load(file)
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    exec(PRELUDE, {})  # imports once, not in every test
    user = FIRST_USER + os.getpid() % USERS if os.getuid() == 0 else None
    if not job["namespaces"]:
        run_apart_as_far_as_allowed(job, user, replies)
        return
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with a killed evaluation
    unshare(NEW_NAMESPACES if user else NEW_NAMESPACES | NEW_USERS)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status) != 0)
    # The first process of its namespace: it dies with its parent, and the others die with it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(PR_SET_DUMPABLE, 0)
    build_root(Path(job["folder"]), job["limits"]["disk"])
    run_tests(job, user, replies)


def run_apart_as_far_as_allowed(job: dict[str, Any], user: int | None, replies: int) -> None:
    """Runs the tests without namespaces; `grading.sandbox` says what is then covered."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    if user:
        hidden = [path for path in Path(os.__file__).parents if not path.stat().st_mode & 1]
        if hidden:
            reply(replies, {"refused": f"only root may read {hidden[-1]}, where Python is"})
            return
        os.chown(job["folder"], user, user)
    os.chdir(job["folder"])
    os.environ["TMPDIR"] = job["folder"]
    run_tests(job, user, replies)


def unshare(flags: int) -> None:
    """Leaves the parent's namespaces.

    Raises:
        OSError: this is not allowed here.
    """
    user, group = os.getuid(), os.getgid()
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    if flags & NEW_USERS:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def build_root(root: Path, size: int) -> None:
    """Builds the file system: Python and the system's libraries read-only, /tmp writable."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", str(root), "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=755")
    for path in dict.fromkeys(SHOWN):
        show(root, Path(path))
    for name in ("null", "urandom"):  # not "zero": mapped and shared, it is memory without a file
        show(root, Path("/dev") / name, is_device=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "proc").mkdir()
    with suppress(OSError):  # some containers forbid it; then memory is not watched
        mount("proc", str(root / "proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.chroot(root)
    os.chdir("/tmp")


def show(root: Path, path: Path, is_device: bool = False) -> None:
    """Makes `path` readable at the same place in the new root."""
    inside = root / path.relative_to("/")
    if not path.exists() or inside.exists():
        return
    inside.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        inside.symlink_to(path.readlink())
        return
    if is_device:
        inside.touch()
    else:
        inside.mkdir()
    mount(str(path), str(inside), None, MS_BIND | MS_REC)
    kept = 0 if is_device else os.statvfs(inside).f_flag & KEPT_FLAGS
    if not is_device:
        mount("none", str(inside), None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | kept)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """mount(2).

    Raises:
        OSError: it failed.
    """
    encoded = (source.encode(), target.encode(), kind.encode() if kind else None)
    if libc.mount(*encoded, ctypes.c_ulong(flags), data.encode()):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def run_tests(job: dict[str, Any], user: int | None, replies: int) -> None:
    """Says what holds the programs, then runs all tests in order and replies to each."""
    job["calls"] = succeeds(lambda: sandbox_kernel.refuse_calls(job["namespaces"]))
    job["files"] = job["namespaces"] or succeeds(lambda: refuse_files(job))
    held = {
        "namespaces": job["namespaces"],
        "other_user": user is not None,
        "calls": job["calls"],
        "files": job["files"],
        "watched": Path("/proc/self/statm").exists(),
    }
    reply(replies, {"ready": held})
    for text in job["inputs"]:
        reply(replies, run_test(job, text, user))


def succeeds(attempt: Callable[[], None]) -> bool:
    """Whether this can be done, without doing it here: it cannot be taken back."""
    child = os.fork()
    if not child:
        status = 1
        try:
            libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            attempt()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def refuse_files(job: dict[str, Any]) -> None:
    """Leaves this process what it would see in namespaces, and the test's own folder."""
    sandbox_kernel.refuse_files(SHOWN, job["folder"])


def run_test(job: dict[str, Any], text: str, user: int | None) -> dict[str, Any]:
    """Runs one test in its own process: whether it ended without an error, and its output."""
    given, written = (os.memfd_create(name) for name in ("input", "output"))
    with os.fdopen(given, "w+b") as stdin, os.fdopen(written, "w+b") as stdout:
        stdin.write(text.encode())
        stdin.seek(0)
        child = os.fork()
        if not child:
            become_program(job, user, given, written)
        ended = watch(child, job)
        ended = ended and os.fstat(written).st_size <= job["limits"]["output"]
        stdout.seek(0)
        return {"ended": ended, "output": stdout.read().decode(errors="replace") if ended else ""}


def become_program(job: dict[str, Any], user: int | None, given: int, written: int) -> NoReturn:
    """Runs the program in this process, and exits."""
    status = 1
    try:
        os.dup2(given, 0)
        os.dup2(written, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        drop_privileges(job, user)
        run(job["code"], job["function"])
        status = 0
    finally:
        os._exit(status)


def drop_privileges(job: dict[str, Any], user: int | None) -> None:
    """Sets the limits and drops all privileges for good."""
    limits = job["limits"]
    processes = limits["processes"]
    if not user and not job["namespaces"]:  # then the limit counts all processes of the user
        processes += sandbox_watch.processes_of(os.getuid())
    for kind, most in (
        (resource.RLIMIT_CPU, limits["cpu"]),
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["output"]),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)())
    if not job["namespaces"] and job["files"]:
        refuse_files(job)
    if job["calls"]:
        sandbox_kernel.refuse_calls(job["namespaces"])
    elif not job["namespaces"]:
        sys.addaudithook(refuse_sockets)


def refuse_sockets(event: str, _: object) -> None:
    """An audit hook that refuses Python's sockets; it does not cover programs started from it."""
    if event.startswith("socket."):
        raise PermissionError("there is no network here")


def run(code: str, function: str | None) -> None:
    """Runs the program on standard input, or calls its function with one argument per line."""
    program = types.ModuleType("__main__")
    sys.modules["__main__"] = program
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    answers = sys.stdout
    if function is not None:
        arguments = [json.loads(line) for line in sys.stdin.read().split("\n")]
        sys.stdout = io.StringIO()
    exec(PRELUDE, program.__dict__)
    try:
        exec(compile(code, "program.py", "exec"), program.__dict__)
        if function is not None:
            owner = program.Solution() if hasattr(program, "Solution") else program
            result = getattr(owner, function)(*arguments)
            json.dump(result, answers, default=lambda value: value.tolist())  # numpy's numbers
    except SystemExit:
        if function is not None:
            raise
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    answers.flush()


def watch(child: int, job: dict[str, Any]) -> bool:
    """Waits until a test ends or exceeds a limit, then kills it; whether it ended without error."""
    limits = job["limits"]
    deadline = time.monotonic() + limits["wall"]
    ended = False
    handle = os.pidfd_open(child)
    while not ended and time.monotonic() < deadline and sandbox_watch.is_within(job):
        ended = bool(select.select([handle], [], [], POLL)[0])
    os.close(handle)
    return sandbox_watch.kill_all(child, job["namespaces"]) == 0 and ended


def reply(replies: int, message: dict[str, Any]) -> None:
    """Sends one line to the parent."""
    with os.fdopen(os.dup(replies), "wb") as file:
        file.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
