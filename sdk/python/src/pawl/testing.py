"""Starts `pawl serve` on a temporary SQLite database, for tests.

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
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from ._async.client import AsyncClient
from ._sync.client import Client

__all__ = ["BinaryNotFound", "Server", "find_binary", "serve"]


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
    ) -> None:
        self.binary = find_binary(binary)
        self._dir = tempfile.mkdtemp(prefix="pawl-test-")
        #: The database: sqlite:PATH, or the URL of PostgreSQL.
        self.db = db or f"sqlite:{self._dir}/work.db"
        self._args, self._timeout = list(args), timeout
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
) -> Server:
    """Starts a server on a temporary SQLite database, or on `db`; it takes calls when this returns.

    Args:
        binary: the program; without it PAWL_BINARY, or `pawl` on PATH.
        db: another database: sqlite:PATH, or the URL of PostgreSQL.
        args: more flags of `pawl serve`.
        env: more environment variables of it.
        timeout: seconds until it must take calls.
    """
    return Server(binary=binary, db=db, args=args, env=env, timeout=timeout)


def free_port() -> int:
    """A port of the loopback address that nothing listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
