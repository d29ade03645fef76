"""A TCP proxy between workers and their server that can cut every connection, or swallow what is sent for a while."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress


class Proxy:
    """Forwards connections to 127.0.0.1:`port`. Listens on `host` and `self.port` until it is closed."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = port
        self._server = socket.create_server((host, 0))
        self.port = self._server.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        threading.Thread(target=self._pump, args=(client, server, pair), daemon=True).start()
        self._pump(server, client, pair)

    def _pump(self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        try:
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self) -> None:
        """Reset every connection, as a router that forgot them does."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._end(pair)

    def swallow(self) -> None:
        """From now on, nothing arrives anywhere, and nobody is told."""
        self._open.clear()

    def deliver(self) -> None:
        """Forward again, also what was held back."""
        self._open.set()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._server.close()
        self._open.set()
        self.cut()
