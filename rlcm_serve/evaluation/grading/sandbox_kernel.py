"""What the kernel refuses to a program, without privileges: system calls (seccomp) and files.

`sandbox_worker` imports it as a script's neighbour, so it needs nothing but the standard library.
Both hold for the process that calls and for all that it starts, and cannot be taken back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ARCHITECTURE = 0xC000003E  # x86-64; the numbers below are its own
X32 = 0x40000000  # the same calls under other numbers
NUMBER, KIND, ARGUMENTS = 0, 4, 16  # where they are in what a filter reads
LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # of the kernel's BPF
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
WORD = 0xFFFFFFFF

NETWORK = (41, 42, 43, 49, 50, 288)  # socket, connect, accept, bind, listen, accept4
DESCRIPTORS_SENT = (46, 307)  # sendmsg, sendmmsg
URING = (425, 426, 427)  # makes every other call without a filter
NAMELESS_MEMORY = (319, 447, 29, 30, 240, 278)
"""memfd_create, memfd_secret, shmget, shmat, mq_open, vmsplice: no process's memory counts it."""
LEFT_IN_THE_KERNEL = (64, 68, 248, 249, 250)  # semget, msgget, add_key, request_key, keyctl
INTO_PROCESSES = (101, 310, 311, 312, 434, 438, 440, 256, 279)
"""ptrace, process_vm_readv and _writev, kcmp, pidfd_open, pidfd_getfd, process_madvise,
migrate_pages, move_pages."""
PRIORITIES = (141, 142, 144, 203, 251, 314)
"""setpriority, sched_setparam, _setscheduler, _setaffinity, ioprio_set, sched_setattr."""
NAMESPACES = (155, 161, 165, 166, 272, 308, 428, 429, 430, 431, 432, 433, 442)
"""pivot_root, chroot, mount, umount2, unshare, setns, and the calls that mount in steps."""
RARELY_CHECKED = (135, 298, 321, 323)  # personality, perf_event_open, bpf, userfaultfd
SIGNALS = (62, 129, 200, 234, 297, 424)
"""kill, rt_sigqueueinfo, tkill, tgkill, rt_tgsigqueueinfo, pidfd_send_signal."""
FILE_ATTRIBUTES = (
    *(76, 90, 91, 92, 93, 94, 132, 188, 189, 190),
    *(197, 198, 199, 235, 260, 261, 268, 280, 452),
)
"""truncate, chmod, chown, times and extended attributes, which Landlock does not cover."""

EVERYWHERE = (
    *(NETWORK + DESCRIPTORS_SENT + URING + NAMELESS_MEMORY + LEFT_IN_THE_KERNEL),
    *(INTO_PROCESSES + PRIORITIES + NAMESPACES + RARELY_CHECKED),
)
WITHOUT_NAMESPACES = SIGNALS + FILE_ATTRIBUTES

REFUSED_FOR = (
    (9, 3, 0x21, 0x21, True),  # mmap: shared and anonymous, which outlives its resident pages
    (53, 1, 0xF, 1, False),  # socketpair: all but streams can be pointed at other sockets
    (56, 0, 0x7E020000, 0, False),  # clone: into new namespaces
    (72, 1, WORD, 8, True),  # fcntl: F_SETOWN, F_SETSIG and F_SETOWN_EX, which send signals
    (72, 1, WORD, 10, True),
    (72, 1, WORD, 15, True),
    (16, 1, WORD, 0x8901, True),  # ioctl: FIOSETOWN and SIOCSPGRP do so too
    (16, 1, WORD, 0x8902, True),
    (157, 0, WORD, 4, True),  # prctl: PR_SET_DUMPABLE, which hides open files from the watch
    (302, 0, WORD, 0, False),  # prlimit64: of another process
)
"""Calls refused for an argument: number, which argument, mask, value, whether it must be equal."""
CLONE3 = 435  # its flags are out of a filter's sight; C libraries go back to clone

HANDLED = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}  # kinds of access, by Landlock's version
READ, READ_FILE, WRITE_FILE = 0b1101, 0b100, 0b110
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446

libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls(namespaces: bool) -> None:
    """Refuses all system calls above to this process.

    Args:
        namespaces: whether it has its own; otherwise signals and files' attributes are refused.

    Raises:
        OSError: the kernel does not filter calls, or this is no x86-64.
    """
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, f"no table of system calls for {platform.machine()}")
    program = _program(EVERYWHERE if namespaces else EVERYWHERE + WITHOUT_NAMESPACES)
    described = _Filter(len(program) // 8, program)
    _check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0))


def _program(numbers: Iterable[int]) -> bytes:
    refuse, absent = (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, REFUSE | errno.ENOSYS)
    steps = [(LOAD, 0, 0, KIND), (EQUAL, 1, 0, ARCHITECTURE), refuse]
    steps += [(LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), refuse]
    steps += [(EQUAL, 0, 1, CLONE3), absent]
    for number in numbers:
        steps += [(EQUAL, 0, 1, number), refuse]
    for number, argument, mask, value, equal in REFUSED_FOR:
        steps += [
            (EQUAL, 0, 5, number),
            (LOAD, 0, 0, ARGUMENTS + 8 * argument),
            (AND, 0, 0, mask),
            (EQUAL, 0, 1, value) if equal else (EQUAL, 1, 0, value),
            refuse,
            (LOAD, 0, 0, NUMBER),
        ]
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def refuse_files(readable: Iterable[str], writable: str) -> None:
    """Refuses to open, list, change and run all files but these (Landlock).

    Args:
        readable: folders; those that do not exist are left out.
        writable: a folder.

    Raises:
        OSError: the kernel has no Landlock.
    """
    version = _check(libc.syscall(CREATE_RULESET, None, 0, 1))
    handled = HANDLED.get(version, 0xFFFF)
    scoped = 3 if version > 5 else 0  # abstract sockets and signals, too
    asked = struct.pack("QQQ", handled, 3 if version > 3 else 0, scoped)  # and TCP
    rules = _check(libc.syscall(CREATE_RULESET, asked, len(asked), 0))
    _allow(rules, writable, handled)
    _allow(rules, os.devnull, WRITE_FILE)
    _allow(rules, "/dev/urandom", READ_FILE)
    for path in filter(os.path.isdir, readable):
        _allow(rules, path, READ)
    _check(libc.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    if not Path(path).exists():
        return
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _check(libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", access, beneath), 0))
    os.close(beneath)


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
