"""Programs that want what they may not have; also where no namespaces can be made."""

import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from rlcm_serve.evaluation.grading import containment
from rlcm_serve.evaluation.grading import sandbox as sandbox_module
from rlcm_serve.evaluation.grading.sandbox import Limits, Outcome, Sandbox
from tests.rlcm_serve.evaluation.grading.sandboxes import LIMITS, one

pytestmark = pytest.mark.slow

PYTHON = sys.executable
FAILED = Outcome(ended=False, output="")
FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
HIDING_BOMB = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""
LEFT_BEHIND = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
print("done")
"""


@pytest.fixture(scope="module")
def apart() -> Sandbox:
    """With namespaces: some promises hold only there."""
    sandbox = Sandbox(LIMITS)
    list(sandbox.run("", [""]))
    if not sandbox.is_apart:
        pytest.skip("no namespaces may be made here")
    return sandbox


def processes() -> set[int]:
    """What this test has running."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


def test_a_program_reads_its_input_and_writes_its_output(sandbox: Sandbox) -> None:
    outcomes = [*sandbox.run("print(int(input()) + 1)", ["1\n", "x\n", "41"])]
    assert outcomes == [Outcome(True, "2\n"), FAILED, Outcome(True, "42\n")]


def test_a_function_is_called_with_an_argument_a_line(sandbox: Sandbox) -> None:
    method = "class Solution:\n    def add(self, a: int, b: List[int]):\n        return (a, b)"
    assert one(sandbox, method, "1\n[2]", "add").output == "[1, [2]]"
    assert (
        one(sandbox, "def add(a):\n    print('noise')\n    return a", '"x"', "add").output == '"x"'
    )
    assert one(sandbox, "def other(a): pass", "1", "add") == FAILED


def test_a_program_may_exit_and_may_leave_its_work_to_a_thread(sandbox: Sandbox) -> None:
    assert one(sandbox, "import sys\nprint(5)\nsys.exit(0)") == Outcome(True, "5\n")
    thread = (
        "import threading\nthreading.stack_size(2**27)\n"
        "threading.Thread(target=lambda: print(7)).start()"
    )
    assert one(sandbox, thread) == Outcome(True, "7\n")


@pytest.mark.parametrize("code", ["1/0", "x = (", "import os; os._exit(3)", "raise SystemError"])
def test_a_program_that_fails_has_no_output(sandbox: Sandbox, code: str) -> None:
    assert one(sandbox, f"print(1, flush=True)\n{code}") == FAILED


def test_an_endless_loop_is_ended(sandbox: Sandbox) -> None:
    start = time.perf_counter()
    assert one(sandbox, "while True: pass") == FAILED
    assert one(sandbox, "import time; time.sleep(600)") == FAILED
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("code", [FORK_BOMB, HIDING_BOMB], ids=["plain", "in sessions"])
def test_a_fork_bomb_is_held_and_nothing_is_left_of_it(sandbox: Sandbox, code: str) -> None:
    before = processes()
    start = time.perf_counter()
    outcomes = [*sandbox.run(f"if input() == 'bomb':\n    exec({code!r})\nprint(1)", ["bomb", "x"])]
    assert outcomes == [FAILED, Outcome(True, "1\n")]  # the next test finds room again
    assert time.perf_counter() - start < 60
    assert processes() == before


def test_so_many_processes_and_no_more(sandbox: Sandbox) -> None:
    count = (
        "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n"
        "            time.sleep(60)\n        n += 1\nexcept OSError:\n    print(n)"
    )
    outcome = one(sandbox, count)
    assert not outcome.ended or int(outcome.output) <= LIMITS.processes + 8


def test_ten_gigabytes_are_not_had(sandbox: Sandbox) -> None:
    assert one(sandbox, "print(len(bytearray(10 * 2**30)))") == FAILED
    assert one(sandbox, "x = []\nwhile True: x.append(bytearray(2**24))") == FAILED


def test_nor_by_many_processes_together() -> None:
    limits = Limits(cpu=4, wall=5.0, memory=2**29)
    code = (
        "import os, time\nfor _ in range(3):\n    if os.fork() == 0: break\n"
        "x = bytearray(os.urandom(2**10)) * 2**18\ntime.sleep(4)\nprint(1)"
    )
    assert one(Sandbox(limits), code) == FAILED  # 4 x 256 MiB


def test_a_gigabyte_of_output_is_not_kept(sandbox: Sandbox) -> None:
    start = time.perf_counter()
    assert one(sandbox, "for _ in range(1024): print('x' * 2**20)") == FAILED
    assert one(sandbox, "import os\nos.write(1, b'x' * 2**24)\nos.write(1, b'x')") == FAILED
    assert time.perf_counter() - start < 60


def test_a_file_may_only_grow_so_large(sandbox: Sandbox) -> None:
    write = "with open('file', 'wb') as f:\n    for _ in range({}): f.write(b'x' * 2**20)\nprint(1)"
    assert one(sandbox, write.format(8)).ended
    assert one(sandbox, write.format(64)) == FAILED


def test_nothing_outlives_its_test(sandbox: Sandbox) -> None:
    before = processes()
    assert one(sandbox, LEFT_BEHIND) == Outcome(True, "done\n")
    assert processes() == before
    workers = [p.info for p in psutil.process_iter(["cmdline", "ppid"]) if p.info["ppid"] == 1]
    assert not any("sandbox_worker" in str(worker["cmdline"]) for worker in workers)


def test_python_has_no_socket(sandbox: Sandbox) -> None:
    code = "import socket\nsocket.create_connection(('127.0.0.1', {}), timeout=1)\nprint(1)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert one(sandbox, code.format(server.getsockname()[1])) == FAILED


def test_root_and_its_rights_are_left(sandbox: Sandbox) -> None:
    code = (
        "import ctypes, os\nsets = (ctypes.c_uint32 * 6)()\n"
        "ctypes.CDLL(None).capget((ctypes.c_uint32 * 2)(0x20080522, 0), sets)\n"
        "print(os.getuid(), *sets)"
    )
    user, *sets = map(int, one(sandbox, code).output.split())
    assert user != 0
    assert not any(sets[at] for at in (0, 1, 3, 4))  # effective and permitted


def test_there_is_no_network_whatever_is_tried(apart: Sandbox) -> None:
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "class Address(ctypes.Structure):\n"
        "    _fields_ = [('family', ctypes.c_ushort), ('port', ctypes.c_ushort),"
        " ('host', ctypes.c_uint), ('pad', ctypes.c_char * 8)]\n"
        "s = libc.socket(2, 1, 0)\n"
        "a = Address(2, {port}, 0x0100007f, b'')\n"
        "print(libc.connect(s, ctypes.byref(a), ctypes.sizeof(a)))"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = socket.htons(server.getsockname()[1])
        assert one(apart, code.replace("{port}", str(port))) == Outcome(True, "-1\n")


def test_files_of_others_are_out_of_sight(apart: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("answers")
    secret.chmod(0o644)
    assert one(apart, f"print(open({str(secret)!r}).read())") == FAILED
    for place in (tmp_path, Path(__file__), Path("/etc/passwd"), Path.home() / ".cache"):
        seen = one(apart, f"import os; print(os.path.exists({str(place)!r}))")
        assert seen == Outcome(True, "False\n")


def test_what_is_seen_cannot_be_changed(apart: Sandbox) -> None:
    for place in ("/usr/x", str(Path(os.__file__).parent / "x"), "/x", "/dev/x"):
        assert one(apart, f"open({place!r}, 'w').write('x')\nprint(1)") == FAILED


def test_all_files_together_may_only_grow_so_large(apart: Sandbox) -> None:
    code = "for n in range(100): open(f'/tmp/{n}', 'wb').write(b'x' * 2**20)\nprint(1)"
    assert one(apart, code) == FAILED


def test_other_processes_are_neither_seen_nor_hit(apart: Sandbox) -> None:
    code = (
        "import os\npids = [n for n in os.listdir('/proc') if n.isdecimal()]\n"
        "try:\n    os.kill(1, 9)\nexcept OSError: pass\n"
        "try:\n    os.kill(-1, 9)\nexcept OSError: pass\nprint(len(pids) <= 2)"
    )
    assert [*apart.run(code, ["", ""])] == [Outcome(True, "True\n")] * 2


def test_verdicts_do_not_hang_on_the_hash_seed(sandbox: Sandbox) -> None:
    assert len({one(sandbox, "print(hash('a'), {'a', 'b', 'c'})").output for _ in range(4)}) == 1


def test_processes_left_behind_are_killed(sandbox: Sandbox) -> None:
    before = processes()
    start = time.perf_counter()
    with closing(sandbox.run("import time; time.sleep(int(input()))", ["0", "600"])) as outcomes:
        assert next(outcomes).ended
    assert time.perf_counter() - start < 60
    assert processes() == before


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")
    with pytest.raises(RuntimeError, match="the sandbox did not start"):
        [*Sandbox(LIMITS).run("print(1)", [""])]


def test_without_namespaces_it_is_said_and_limits_hold(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: object) -> list[Outcome]:
        raise RuntimeError("not here")

    sandbox = Sandbox(LIMITS)
    monkeypatch.setattr(Sandbox, "_outcomes", refuse)
    with pytest.raises(RuntimeError, match="not here"):
        [*sandbox.run("print(1)", [""])]
    assert sandbox.is_apart is False
    assert "without namespaces" in caplog.text


def test_a_killed_evaluation_leaves_no_program_running() -> None:
    code = (
        "from rlcm_serve.evaluation.grading.sandbox import *\n"
        "outcomes = Sandbox(Limits(cpu=600, wall=5.0)).run('import time; time.sleep(600)', [''])\n"
        "print('started', flush=True)\nnext(outcomes)"
    )
    with subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        time.sleep(1.5)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


def test_what_is_not_covered_is_said_once_before_the_first_program(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    fresh = Sandbox(LIMITS, namespaces=sandbox.is_apart is not False)
    list(fresh.run("", [""]))
    list(fresh.run("", [""]))
    assert fresh.containment is not None
    (said,) = [line for line in caplog.messages if "does not cover" in line]
    assert all(gap in said for gap in fresh.containment.gaps())


def test_on_a_kernel_without_filters_the_limits_hold_and_the_gaps_are_said(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = Path(sandbox_module.__file__).parent
    for path in folder.glob("sandbox_*.py"):
        text = path.read_text().replace('"x86_64"', '"another"').replace("= 444,", "= 9444,")
        (tmp_path / path.name).write_text(text)
    monkeypatch.setattr(sandbox_module, "_WORKER", tmp_path / "sandbox_worker.py")
    old = Sandbox(LIMITS, namespaces=sandbox.is_apart is not False)
    assert one(old, "print(1)") == Outcome(True, "1\n")
    assert one(old, "x = []\nwhile True: x.append(bytearray(2**24))") == FAILED
    assert old.containment is not None
    expected = {containment.MEMORY, containment.KERNEL}
    if not old.is_apart:
        expected |= {containment.FILES, containment.NETWORK}
        assert one(old, "import socket; socket.socket()") == FAILED
    assert set(old.containment.gaps()) - {containment.PROCESSES} == expected
