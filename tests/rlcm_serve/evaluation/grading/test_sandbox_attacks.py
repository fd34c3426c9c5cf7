"""Programs written to break out, by system calls as well; in each form of the sandbox.

What they try works outside: `test_outside_these_calls_work` runs the same code there.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from rlcm_serve.evaluation.grading.sandbox import Outcome, Sandbox
from tests.rlcm_serve.evaluation.grading.sandboxes import (
    LIMITS,
    SandboxOfNobody,
    evaluation_of,
    one,
)

pytestmark = pytest.mark.slow

FAILED = Outcome(ended=False, output="")
REFUSED = Outcome(ended=True, output="refused\n")
CALLS = """
import ctypes, mmap, os, struct
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
def call(*numbers):
    numbers = [ctypes.c_long(n) if isinstance(n, int) else n for n in numbers]
    return libc.syscall(*numbers) >= 0
print("done" if {} else "refused")
"""
SYSTEM_CALLS = {
    "TCP": "call(41, 2, 1, 0)",
    "UDP": "call(41, 2, 2, 0)",
    "local sockets": "call(41, 1, 1, 0)",
    "netlink": "call(41, 16, 3, 0)",
    "packets": "call(41, 17, 3, 0)",
    "pair of datagrams": "call(53, 1, 2, 0, (ctypes.c_int * 2)())",
    "the calls of x32": "call(0x40000000 + 41, 2, 1, 0)",
    "io_uring": "call(425, 4, (ctypes.c_char * 120)())",
    "nameless file": "call(319, b'x', 0)",
    "nameless secret": "call(447, 0)",
    "System V memory": "call(29, 0, 2**24, 0o1600)",
    "System V semaphores": "call(64, 0, 1, 0o1600)",
    "message queue": "call(240, b'rlcm-test', 0o102, 0o600, None)",
    "shared memory": "call(9, 0, 2**24, 3, 0x21, -1, 0)",
    "user namespace": "call(272, 0x10000000)",
    "mount namespace": "call(272, 0x00020000)",
    "clone into a user namespace": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "mount": "call(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "root folder": "call(161, b'/tmp')",
    "tracing": "call(101, 16, os.getppid(), 0, 0)",
    "memory of the parent": "call(310, os.getppid(), 0, 0, 0, 0, 0)",
    "handle of the parent": "call(434, os.getppid(), 0)",
    "limits of the parent": "call(302, os.getppid(), 0, struct.pack('QQ', 1, 1), None)",
    "cores of the parent": "call(203, os.getppid(), 8, struct.pack('Q', 1))",
    "priority": "call(141, 0, os.getppid(), 19)",
    "signals by files": "call(72, 0, 8, os.getppid())",
    "hiding": "call(157, 4, 0, 0, 0, 0)",
    "keys": "call(248, b'user', b'x', b'y', 1, -2)",
    "kernel programs": "call(321, 0, (ctypes.c_int * 18)(1, 4, 4, 1), 72)",
    "counters": "call(298, struct.pack('II', 1, 112) + bytes(104), 0, -1, -1, 0)",
    "page faults": "call(323, 1)",
    "the clock": "call(227, 0, struct.pack('qq', 1, 0))",
    "host name": "call(170, b'x', 1)",
    "higher limits": "call(302, 0, 7, struct.pack('QQ', 4096, 4096), None)",
}
"""By name: an expression that is true if it was had."""
WORKS_OUTSIDE = (
    *("TCP", "UDP", "local sockets", "netlink", "pair of datagrams", "nameless file"),
    *("System V semaphores", "shared memory", "handle of the parent", "signals by files", "hiding"),
)
"""What anybody may do on any Linux, containers included."""


@pytest.mark.parametrize("name", WORKS_OUTSIDE)
def test_outside_these_calls_work(name: str) -> None:
    command = [sys.executable, "-c", CALLS.format(SYSTEM_CALLS[name])]
    ran = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, text=True)
    assert ran.stdout == "done\n", ran.stderr


@pytest.mark.parametrize("name", SYSTEM_CALLS)
def test_system_calls_are_refused(any_sandbox: Sandbox, name: str) -> None:
    assert one(any_sandbox, CALLS.format(SYSTEM_CALLS[name])) == REFUSED


def test_a_program_started_from_it_has_no_socket_either(any_sandbox: Sandbox) -> None:
    code = (
        "import subprocess, sys\n"
        "ran = subprocess.run(['/usr/bin/env', sys.executable, '-c', 'import socket; "
        "socket.socket()'])\nprint('refused' if ran.returncode else 'done')"
    )
    assert one(any_sandbox, code) == REFUSED


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/{parent}/environ",
        "/proc/{parent}/mem",
        "/proc/{parent}/root/etc/passwd",
        "/proc/{parent}/fd/0",
        "/proc/{evaluation}/environ",
        "/proc/{evaluation}/mem",
        "/dev/zero",
        "/dev/mem",
        "{repository}/pyproject.toml",
        "{secret}",
    ],
)
def test_files_are_not_opened(any_sandbox: Sandbox, path: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("answers")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    place = path.format(
        parent="{os.getppid()}",
        evaluation=evaluation_of(any_sandbox),
        secret=secret,
        repository=Path.cwd(),
    )
    code = (
        f"import os\ntry:\n    open(f{place!r}, 'rb').read(1)\n    print('done')\n"
        "except OSError:\n    print('refused')"
    )
    assert one(any_sandbox, code) == REFUSED


def test_folders_are_not_listed(any_sandbox: Sandbox) -> None:
    for place in ("/etc", "/var", "/dev/shm"):
        code = (
            f"import os\ntry:\n    print(os.listdir({place!r}))\nexcept OSError: print('refused')"
        )
        assert one(any_sandbox, code) == REFUSED


def test_a_link_opens_nothing_more(any_sandbox: Sandbox) -> None:
    code = (
        "import os\nos.symlink('/etc/passwd', 'soft')\nhad = 0\n"
        "try:\n    os.link('/etc/passwd', 'hard')\n    had = 1\nexcept OSError: pass\n"
        "try:\n    open('soft').read()\n    had = 1\nexcept OSError: pass\n"
        "print('done' if had else 'refused')"
    )
    assert one(any_sandbox, code) == REFUSED


@pytest.mark.parametrize(
    "act", ["open({0!r}, 'w')", "open({1!r}, 'w')", "os.truncate({0!r}, 0)", "os.remove({0!r})"]
)
def test_nothing_is_written_outside(any_sandbox: Sandbox, tmp_path: Path, act: str) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o777)
    mine = tmp_path / "mine"
    mine.write_text("as it was")
    mine.chmod(0o666)
    code = (
        f"import os\ntry:\n    {act.format(str(mine), str(tmp_path / 'new'))}\n    print('done')\n"
        "except OSError:\n    print('refused')"
    )
    assert one(any_sandbox, code) == REFUSED
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert mine.read_text() == "as it was"


def test_it_has_a_folder_of_its_own(any_sandbox: Sandbox) -> None:
    """Otherwise the refusals above could mean that nothing works."""
    code = (
        "import os, tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x')\n"
        "os.mkdir('a')\nopen('a/b', 'w').write('12')\nos.rename('a/b', 'c')\n"
        "print(open('c').read(), os.listdir('a'), open('/dev/null', 'w').write('x'))"
    )
    assert one(any_sandbox, code) == Outcome(True, "12 [] 1\n")


def test_what_programs_use_still_works(any_sandbox: Sandbox) -> None:
    code = (
        "import asyncio, multiprocessing, subprocess\n"
        "async def two():\n    await asyncio.sleep(0)\n    return 2\n"
        "def put(q): q.send(3)\n"
        "here, there = multiprocessing.Pipe()\n"
        "child = multiprocessing.Process(target=put, args=(there,))\nchild.start()\n"
        "print(asyncio.run(two()), here.recv(), subprocess.check_output(['/bin/echo', '4']))"
    )
    assert one(any_sandbox, code) == Outcome(True, "2 3 b'4\\n'\n")


def test_no_descriptor_and_no_secret_comes_in(
    any_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    code = (
        "import os\nfound = []\n"
        "for n in range(4096):\n    try:\n        os.fstat(n)\n        found.append(n)\n"
        "    except OSError: pass\nprint(found, sorted(os.environ))"
    )
    known = "['LANG', 'OPENBLAS_NUM_THREADS', 'PATH', 'PYTHONHASHSEED'{}]"
    found = one(any_sandbox, code).output
    assert found in [f"[0, 1, 2] {known.format(more)}\n" for more in ("", ", 'TMPDIR'")]


def test_signals_reach_nobody_else(any_sandbox: Sandbox) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        code = (
            "import os, signal\n"
            f"for pid in ({bystander.pid}, {evaluation_of(any_sandbox)}, os.getppid()):\n"
            "    try:\n        os.kill(pid, signal.SIGKILL)\n    except OSError:\n        pass\n"
            "print('alive')"
        )
        alive = Outcome(True, "alive\n")
        assert [*any_sandbox.run(code, ["", ""])] == [alive, alive]
        assert bystander.poll() is None
        bystander.kill()


def test_signals_do_not_save_it(any_sandbox: Sandbox) -> None:
    code = (
        "import signal\nfor n in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
    )
    assert [*any_sandbox.run(code, ["", ""])] == [FAILED, FAILED]


MANY = "for n in range(20): open(str(n), 'wb').write(b'x' * 2**23)"
DELETED = """
import os
kept = []
for n in range(20):
    kept.append(open('f', 'wb'))
    kept[-1].write(b'x' * 2**23)
    kept[-1].flush()
    os.remove('f')
"""
EMPTY = "for n in range(40_000): open(str(n), 'w').close()"


@pytest.mark.parametrize("files", [MANY, DELETED, EMPTY], ids=["many", "deleted", "empty"])
def test_all_files_together_may_only_grow_so_large(any_sandbox: Sandbox, files: str) -> None:
    if files == EMPTY and any_sandbox.is_apart:
        files += "\nassert 0"  # its own file system is in memory, and ends with the test
    assert one(any_sandbox, f"{files}\nimport time\ntime.sleep(0.5)\nprint(1)") == FAILED


def test_nobody_hides_behind_a_program_that_none_may_read(any_sandbox: Sandbox) -> None:
    code = (
        "import os\nf = os.open('hidden', os.O_WRONLY | os.O_CREAT, 0o111)\n"
        "os.write(f, open('/bin/sleep', 'rb').read())\nos.close(f)\n"
        "try:\n    open('hidden').close()\n    print('may be read')\nexcept OSError:\n"
        "    os.execv('hidden', ['sleep', '{}'])"
    )
    outcome = one(any_sandbox, code.replace("{}", "1"))
    hidden_from_root = any_sandbox.is_apart or not isinstance(any_sandbox, SandboxOfNobody)
    assert outcome == (Outcome(True, "") if hidden_from_root else FAILED)


def test_its_input_may_only_grow_so_large(any_sandbox: Sandbox) -> None:
    assert one(any_sandbox, "import os\nwhile True: os.write(0, b'x' * 2**20)") == FAILED


def test_a_mapped_file_is_limited_like_any_other(any_sandbox: Sandbox) -> None:
    """Its pages count for no process once they are unmapped, but its size is limited."""
    code = (
        f"f = open('f', 'w+b')\ntry:\n    f.truncate({LIMITS.output + 1})\n    print('done')\n"
        "except OSError:\n    print('refused')"
    )
    assert one(any_sandbox, code) == REFUSED
