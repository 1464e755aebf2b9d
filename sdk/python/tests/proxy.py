"""A TCP proxy that breaks connections."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Passes connections on to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._drop = 0
        self._holding = b""
        self._cut = False
        self.dropped = 0  # answers that did not get through

    def drop_answers(self, n: int, holding: bytes = b'"ckp_') -> None:
        """The next n answers with these bytes in them are lost, with their connections."""
        with self._lock:
            self._drop += n
            self._holding = holding

    def cut(self) -> None:
        """Breaks all connections, and each new one, until mend."""
        with self._lock:
            self._cut = True
            connections, self._open = self._open, []
        for c in connections:
            _end(c)

    def mend(self) -> None:
        """Lets connections through again."""
        with self._lock:
            self._cut = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                cut = self._cut
            if cut:
                _end(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                _end(client)
                continue
            with self._lock:
                self._open += [client, server]
            threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, to: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    drop = answers and self._drop > 0 and self._holding in data
                    if drop:
                        self._drop -= 1
                        self.dropped += 1
                if drop:
                    break
                to.sendall(data)
        _end(source)
        _end(to)

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        self.cut()


def _end(c: socket.socket) -> None:
    with contextlib.suppress(OSError):
        c.shutdown(socket.SHUT_RDWR)
    c.close()
