import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from rlcm_serve.api.server import http_server
from rlcm_serve.api.server.http_server import HttpServer, listen, url_of
from rlcm_serve.api.server.server import drain
from rlcm_serve.errors import SettingsRefused
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import PROBLEM, Running
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine

BODY = {"problem": PROBLEM, "alpha": 0.1}


class Served:
    """The whole app on a port of this machine, in this process, with signals that end it."""

    def __init__(self, state: Path, drain_s: float, scripts: tuple[Script, ...]) -> None:
        self.engine = ScriptedEngine(*scripts)
        settings = Settings(state=state, drain_s=drain_s)
        self.running = Running(self.engine, state, [], settings)
        sockets = listen("127.0.0.1", 0)
        self.server = HttpServer(lambda fail: self.running.app, lambda: drain(self.running.context))
        self.client = httpx.AsyncClient(base_url=url_of(sockets), timeout=20)
        self.serving = asyncio.create_task(self.server.serve(sockets))

    async def is_stopping(self) -> None:
        """Waits until the signal has arrived."""
        await until(lambda: self.running.context.draining.closed)

    async def ended(self) -> None:
        async with asyncio.timeout(10):
            await self.serving


@asynccontextmanager
async def served(
    state: Path, *scripts: Script, drain_s: float = 20, ready: bool = True
) -> AsyncIterator[Served]:
    one = Served(state, drain_s, scripts)
    async with one.client:
        await one.client.get("/health")
        if ready:
            await one.running.until_settled()
        yield one
        if not one.serving.done():
            one.server.drain()
        await one.ended()
    one.running.context.database.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Lets the loop turn until it is."""
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def stop(number: signal.Signals = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_service(tmp_path: Path, number: signal.Signals) -> None:
    async with served(tmp_path) as one:
        stop(number)
        await one.ended()
        assert one.engine.stopped
        with pytest.raises(httpx.ConnectError):
            await one.client.get("/health")


async def test_what_runs_is_finished_and_nothing_new_begun(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        one.engine.hold(1)
        asking = asyncio.create_task(one.client.post("/solve", json=BODY))
        await one.engine.all_held.wait()
        stop()
        await one.is_stopping()
        assert (await one.client.get("/health")).status_code == 200
        readyz = await one.client.get("/readyz")
        assert (readyz.status_code, readyz.json()["stage"]) == (503, "stopping")
        refused = await one.client.post("/solve", json=BODY)
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) > 0
        assert refused.headers["connection"] == "close"
        assert not one.serving.done()
        assert not one.engine.stopped
        one.engine.killed.set()  # lets it go on
        answered = await asking
        assert (answered.status_code, answered.json()["answer"]) == (200, "7")
        assert answered.headers["connection"] == "close"
        await one.ended()
        assert one.engine.stopped


async def test_those_who_wait_for_a_place_are_told_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        one.running.context.admission.max_running = 1
        one.engine.hold(1)
        asking = [asyncio.create_task(one.client.post("/solve", json=BODY)) for _ in range(3)]
        await one.engine.all_held.wait()
        await until(lambda: one.running.context.admission.waiting == 2)
        stop()
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        await one.is_stopping()
        one.engine.killed.set()
        statuses = sorted([(await one_asked).status_code for one_asked in asking])
        assert statuses == [200, 503, 503]


async def test_what_does_not_finish_in_time_is_told_why(tmp_path: Path) -> None:
    async with served(tmp_path, drain_s=0.2) as one:
        one.engine.hold(2)
        plain = asyncio.create_task(one.client.post("/solve", json=BODY))
        stream = asyncio.create_task(one.client.post("/solve", json=BODY | {"stream": True}))
        await one.engine.all_held.wait()
        stop()
        answered, streamed = await asyncio.gather(plain, stream)
        assert answered.status_code == 503
        assert answered.json()["detail"] == "the service is not ready: stopping"
        assert streamed.status_code == 200
        lines = streamed.text.replace("\r\n", "\n")  # both are good in a stream of events
        events = [event for event in lines.split("\n\n") if event]
        assert events[0].startswith("event: start\n")
        name, data = events[-1].split("\n")
        assert name == "event: error"
        assert json.loads(data.removeprefix("data: "))["stage"] == "stopping"
        await one.ended()
        assert one.engine.stopped
        assert one.engine.thinking == 0, "nothing is left running in the engine"


async def test_a_service_that_is_still_starting_ends_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, ready=False) as one:
        assert (await one.client.get("/readyz")).status_code == 503
        stop()
        await one.ended()
        assert one.engine.stopped


async def test_a_second_signal_ends_the_process_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(http_server.os, "_exit", ended.set_result)
    async with served(tmp_path) as one:
        one.engine.hold(1)
        asking = asyncio.create_task(one.client.post("/solve", json=BODY))
        await one.engine.all_held.wait()
        stop()
        await one.is_stopping()
        stop(signal.SIGINT)
        async with asyncio.timeout(5):
            assert await ended == 128 + signal.SIGINT
        one.engine.killed.set()
        await asking


async def test_a_failure_ends_the_server_and_is_kept(tmp_path: Path) -> None:
    async with served(tmp_path, ready=False) as one:
        error = RuntimeError("no engine")
        one.server.fail(error)
        await one.ended()
        assert one.server.failure is error


# A process of its own, because what counts is how it ends.
PROCESS = """
import asyncio, sys, time
from rlcm_serve.api.server import http_server

http_server.LAST_WORDS = 0.5
SECONDS = 60 if sys.argv[1] == "loading" else 0

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        asyncio.get_running_loop().run_in_executor(None, time.sleep, SECONDS)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("cleaned up", flush=True)
        if sys.argv[1] == "stuck":
            time.sleep(60)
        await send({"type": "lifespan.shutdown.complete"})

async def drain():
    await asyncio.sleep(0)

sockets = http_server.listen("127.0.0.1", 0)
server = http_server.HttpServer(lambda fail: app, drain)

async def tell():
    print("serving", flush=True)

startup = server.startup
async def start(sockets=None):
    await startup(sockets)
    print("serving", flush=True)
server.startup = start
server.run(sockets)
print("left", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("kind", "said"),
    [("quick", "cleaned up\nleft\n"), ("loading", "cleaned up\n"), ("stuck", "cleaned up\n")],
)
def test_the_process_ends_with_status_0(kind: str, said: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROCESS, kind]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, said, "")


class TestSockets:
    def test_a_free_port_is_taken_at_once(self) -> None:
        (opened,) = listen("127.0.0.1", 0)
        with opened, socket.create_connection(opened.getsockname()):
            port = opened.getsockname()[1]
            assert url_of([opened]) == f"http://127.0.0.1:{port}"

    def test_a_port_that_is_taken_is_refused_with_the_remedy(self) -> None:
        (taken,) = listen("127.0.0.1", 0)
        with taken:
            port = taken.getsockname()[1]
            with pytest.raises(SettingsRefused) as refused:
                listen("127.0.0.1", port)
        assert str(refused.value) == (
            f"cannot listen on 127.0.0.1:{port}: Address already in use; stop what listens there, "
            "or choose another --port or --host"
        )

    def test_a_host_that_is_no_host_is_refused(self) -> None:
        with pytest.raises(
            SettingsRefused, match=r"host is 'no host': .*; give a name or an addre"
        ):
            listen("no host", 0)

    def test_an_address_of_another_machine_is_refused(self) -> None:
        with pytest.raises(
            SettingsRefused, match=r"cannot listen on 192\.0\.2\.1:80: Cannot assign"
        ):
            listen("192.0.2.1", 80)

    def test_all_addresses_of_a_name_share_the_port(self, monkeypatch: pytest.MonkeyPatch) -> None:
        both = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 17, "", ("127.0.0.1", 0)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **how: both)
        opened = listen("here", 0)
        addresses = [one.getsockname() for one in opened]
        for one in opened:
            one.close()
        assert [address[0] for address in addresses] == ["127.0.0.1", "127.0.0.2"]
        assert addresses[0][1] == addresses[1][1]

    @pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
    def test_ipv6(self) -> None:
        (opened,) = listen("::1", 0)
        with opened:
            assert url_of([opened]) == f"http://[::1]:{opened.getsockname()[1]}"


class TestStart:
    """`rlcm serve` where it does not come to a start; nothing heavy is loaded first."""

    @pytest.fixture(autouse=True)
    def state(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setenv("RLCM_STATE", str(tmp_path / "state"))
        return tmp_path / "state"

    def refusal(self, rlcm: Rlcm, command: str) -> str:
        status, out, err = rlcm(f"serve {command}")
        assert (status, out) == (1, "")
        (line,) = err.splitlines()
        return line

    def test_a_port_that_is_taken(self, rlcm: Rlcm) -> None:
        (taken,) = listen("127.0.0.1", 0)
        with taken:
            port = taken.getsockname()[1]
            line = self.refusal(rlcm, f"--port {port} --model ./none")
        assert line.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")

    def test_no_key_where_keys_are_needed(self, rlcm: Rlcm, state: Path) -> None:
        line = self.refusal(rlcm, "--host 0.0.0.0 --port 0")
        assert line == (
            "error: others can reach the host '0.0.0.0', and there is no API key that could open "
            "the service: make one with "
            f"`rlcm keys new --scope solve --name NAME --state {state}`"
        )
        database = f"sqlite:///{state}/other.db"
        line = self.refusal(rlcm, f"--auth on --port 0 --database {database}")
        assert line.startswith("error: auth is on, and there is no API key")
        assert f"--name NAME --database {database}`" in line

    @pytest.mark.slow
    def test_the_remedy_works(self, rlcm: Rlcm) -> None:
        line = self.refusal(rlcm, "--auth on --port 0 --model ./none")
        remedy = line.split("`")[1].removeprefix("rlcm ")
        assert rlcm(remedy)[0] == 0
        done = installed("serve --auth on --port 0 --model ./none")
        assert done.returncode == 1
        assert done.stderr.startswith("error: no model folder './none'")

    @pytest.mark.slow
    def test_a_model_that_is_not_there_is_one_sentence(self) -> None:
        done = installed("serve --port 0 --model ./none")
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: no model folder './none'")


def installed(command: str) -> subprocess.CompletedProcess[str]:
    """`rlcm` in a process of its own, because its logging is for a whole process."""
    rlcm = Path(sys.executable).with_name("rlcm")
    return subprocess.run(
        [rlcm, *command.split()], capture_output=True, text=True, timeout=120, check=False
    )
