"""Starts `pawl serve` on a temporary SQLite database, for tests, moves its clock, and lets workers die.

    with pawl.testing.serve() as server:
        client = server.client()

The binary is the one that is given, that PAWL_BINARY names, that was installed with the package,
or `pawl` on PATH.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from . import _crashes
from . import types as t
from ._async.client import AsyncClient
from ._crashes import Crash, Crashed, Handlers
from ._json import format_time, parse_time
from ._sync.client import Client

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "START",
    "BinaryNotFound",
    "Crash",
    "Crashed",
    "Handlers",
    "Server",
    "crash_after",
    "each_crash",
    "find_binary",
    "run_one",
    "serve",
]

#: Where a clock that stands begins, without another time.
START = datetime(2026, 1, 29, 10, tzinfo=timezone.utc)


class BinaryNotFound(FileNotFoundError):
    """There is no `pawl` to start."""


def find_binary(binary: str | os.PathLike[str] | None = None) -> str:
    """The path of the binary: the one given, or that of PAWL_BINARY, of the package, or `pawl` on PATH."""
    for given, said in ((binary, "the binary given"), (os.environ.get("PAWL_BINARY"), "PAWL_BINARY")):
        if not given:
            continue
        found = shutil.which(os.fspath(given))
        if found is None:
            raise BinaryNotFound(f"{said}, {os.fspath(given)!r}, is no program that can be run")
        return found
    found = _packaged() or shutil.which("pawl")
    if found is None:
        raise BinaryNotFound(
            "there is no `pawl` on PATH; put it there, name it in PAWL_BINARY, or pass binary= "
            "(`make build` in Pawl's repository makes it)"
        )
    return found


def _packaged() -> str | None:
    """The program that a wheel for this platform has installed beside the package."""
    name = "pawl.exe" if os.name == "nt" else "pawl"
    package = Path(__file__).resolve().parent
    places = [Path(sysconfig.get_path("scripts")), package.parent / "bin"]  # the second: pip install --target
    if os.name == "posix":
        places.insert(1, Path(sysconfig.get_path("scripts", "posix_user")))
    for place in places:
        if (package / "_program").exists() and os.access(place / name, os.X_OK):
            return str(place / name)
    return None


class Server:
    """A server that runs. Use it in a `with` statement, or call `close`."""

    def __init__(
        self,
        *,
        binary: str | os.PathLike[str] | None = None,
        db: str | None = None,
        args: Sequence[str] = (),
        env: dict[str, str] | None = None,
        timeout: float = 60.0,
        clock: bool | datetime = False,
    ) -> None:
        self.binary = find_binary(binary)
        self._dir = tempfile.mkdtemp(prefix="pawl-test-")
        #: The database: sqlite:PATH, or the URL of PostgreSQL.
        self.db = db or f"sqlite:{self._dir}/work.db"
        self._args, self._timeout = list(args), timeout
        self._stands = bool(clock)
        if clock:
            self._args += ["--test-clock", format_time(clock if isinstance(clock, datetime) else START)]
        # The binary refuses settings that it does not know, and this one is for its callers.
        self._env = {k: v for k, v in os.environ.items() if k != "PAWL_BINARY"} | (env or {})
        self._log = Path(self._dir) / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[Client] = []
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process of the server; 0 = it does not run."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Starts the server, at the port it had; returns when it takes calls."""
        command = [self.binary, "serve", "--db", self.db, "--addr", f"127.0.0.1:{self.port}", *self._args]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._env)
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.02)
        said = self.log()
        self.close()
        raise RuntimeError(f"`{' '.join(command)}` does not get ready:\n{said}")

    def log(self) -> str:
        """The end of what the server has logged."""
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""

    def kill(self) -> None:
        """Ends the server at once, as a power failure does. `start` starts it again with its database."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def now(self) -> datetime:
        """The time of a clock that stands (`serve(clock=True)`)."""
        return self.advance(0)

    def advance(self, by: float | timedelta) -> datetime:
        """Moves a clock that stands (`serve(clock=True)`) forward, by seconds; returns where it stands then.

            server.advance(timedelta(days=3))

        What falls due on the way happens at its time, in order: ends of sleeps, back-offs and leases, deadlines,
        ticks of schedules. What falls due up to a second later happens too, and the clock then stands there: a worker
        adds the time that its handler took to the end of a sleep. Workers that run do not notice the time that
        has passed: an item that they hold is lost if its lease has run out on the way.
        """
        if not self._stands:
            raise RuntimeError("the clock of this server is not for tests: start it with serve(clock=True)")
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        answer = httpx.post(
            f"{self.url}/v1/test/advance", json={"seconds": seconds}, timeout=600, trust_env=False, verify=False
        )
        if answer.status_code != 200:
            raise ValueError(f"the clock was not moved: {answer.text}")
        return parse_time(answer.json()["now"])

    def client(self, key: str = "", **options: Any) -> Client:
        """A client of the server, which is closed with it."""
        out = Client(self.url, key, **options)
        self._clients.append(out)
        return out

    def async_client(self, key: str = "", **options: Any) -> AsyncClient:
        """A client of the server for asyncio. Close it in its event loop."""
        return AsyncClient(self.url, key, **options)

    def close(self) -> None:
        """Ends the server and removes its files."""
        for client in self._clients:
            client.close()
        self._clients = []
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._dir, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(
    *,
    binary: str | os.PathLike[str] | None = None,
    db: str | None = None,
    args: Sequence[str] = (),
    env: dict[str, str] | None = None,
    timeout: float = 60.0,
    clock: bool | datetime = False,
) -> Server:
    """Starts a server on a temporary SQLite database, or on `db`; it takes calls when this returns.

    Args:
        binary: the program; without it PAWL_BINARY, or `pawl` on PATH.
        db: another database: sqlite:PATH, or the URL of PostgreSQL.
        args: more flags of `pawl serve`.
        env: more environment variables of it.
        timeout: seconds until it must take calls.
        clock: whether the clock of the database stands until `advance` moves it; at a time, or at START. It is for
            new SQLite databases.
    """
    return Server(binary=binary, db=db, args=args, env=env, timeout=timeout, clock=clock)


def run_one(client: Client, handlers: Handlers) -> t.ItemView:
    """Lets handlers, by their types, run one claimable item once; returns the item as it is afterwards.

        with pawl.testing.serve(clock=True) as server:
            client = server.client()
            client.create_task("remind")
            assert pawl.testing.run_one(client, {"remind": remind})["state"] == "waiting"  # it sleeps for three days
            server.advance(timedelta(days=3))
            assert pawl.testing.run_one(client, {"remind": remind})["state"] == "completed"

    It raises LookupError if there is no such item.
    """
    return _crashes.run_one(client, handlers)


def crash_after(
    server: Server, writes: int, handlers: Handlers, client: Client | None = None, *, lost: bool = False
) -> tuple[t.ItemView, bool]:
    """Lets handlers run one claimable item, and its worker die after some writes of the item have arrived.

        item, crashed = pawl.testing.crash_after(server, 1, {"pay": pay})  # after its first saved step

    Writes are saved steps and other checkpoints, waits, children, messages, effects, other calls that change
    something, and the call that ends the attempt; heartbeats and progress are none. With `lost` the worker goes on
    until its next write, which does not arrive, as it always does with 0. Nothing that the worker does after that
    reaches the server, and the handler does not go on: its call raises `Crashed`, which `except Exception` does not
    stop. Then the lease runs out: the server needs `clock=True`. It returns the item as it is then, and whether the
    worker died: False if there were fewer writes.
    """
    return _crashes.crash_after(server, client or server.client(), writes, handlers, lost)


def each_crash(
    server: Server,
    handlers: Handlers,
    type: str,
    payload: Any = None,
    *,
    prepare: Callable[[Client], object] | None = None,
    **options: Unpack[t.NewTaskOptions],
) -> Iterator[Crash]:
    """Checks that a task survives every crash of its worker.

        for life in pawl.testing.each_crash(server, {"pay": pay}, "pay", {"eur": 20}):
            assert life.item["state"] == "completed", life

    For 0, 1, 2 and so on it creates the task in a namespace of its own, lets the worker die after so many writes, in
    whichever attempt of the item or of a child that is, and runs what there is until the item has ended. It does so
    twice: the worker dies at once, or (`life.lost`) at its next write, which does not arrive: then the work between
    the two is done again. The last life is one without a crash. The task has one item. The server needs `clock=True`.

    Args:
        server: of `serve(clock=True)`.
        handlers: functions by the types of their items.
        type: of the task.
        payload: of the task.
        prepare: is called with a client of each new namespace, for example to register the type.
        options: of the task, as of `create_task`.
    """
    return _crashes.each_crash(server, handlers, type, payload, prepare, options)


def free_port() -> int:
    """A port of the loopback address that nothing listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
