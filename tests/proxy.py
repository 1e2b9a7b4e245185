"""A TCP proxy that fails as networks do: it refuses, goes silent, forwards one way only, or cuts the line."""

import contextlib
import socket
import threading
from collections.abc import Iterator

CHUNK = 65536


class Proxy:
    """Forwards a port of its own to a server; the fault of the moment holds for old and new connections."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._flowing = {"up": threading.Event(), "down": threading.Event()}
        self._cut_after: int | None = None
        self._port = 0

    @property
    def port(self) -> int:
        return self._port

    def open(self) -> None:
        """Accept and forward, on the same port as before."""
        self._cut_after = None
        self._let_flow("up", "down")
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=64)
            self._port = self._listener.getsockname()[1]
            self._run(self._accept, self._listener)

    def refuse(self) -> None:
        """Cut every connection and refuse new ones, as a server that is gone."""
        listener, self._listener = self._listener, None
        if listener is not None:
            _shut(listener)
        self.cut()

    def silence(self) -> None:
        """Accept and never answer, in both directions."""
        self._stop_flow("up", "down")

    def half_open(self) -> None:
        """Take what the client sends and never bring back an answer."""
        self._let_flow("up")
        self._stop_flow("down")

    def cut(self) -> None:
        """End every connection of this moment; new ones are accepted."""
        with self._lock:
            cut, self._sockets = self._sockets, set()
        for each in cut:
            _shut(each)

    def cut_after(self, size: int) -> None:
        """Let `size` more bytes of the clients through, then cut all connections in the middle of the stream."""
        self._cut_after = size

    @property
    def left(self) -> int:
        """How many bytes may still pass before the cut."""
        return self._cut_after or 0

    def close(self) -> None:
        """End everything and wait for the threads."""
        self.refuse()
        self._let_flow("up", "down")
        for thread in self._threads:
            thread.join(timeout=10)

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                listener.close()
                return
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self._join(client, server)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            self._sockets |= {client, server}
        ends = threading.Barrier(2)
        self._run(self._forward, client, server, "up", ends)
        self._run(self._forward, server, client, "down", ends)

    def _forward(self, source: socket.socket, sink: socket.socket, way: str, ends: threading.Barrier) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self._flowing[way].wait()
                allowed = self._allowed(data, way)
                sink.sendall(allowed)
                if len(allowed) < len(data):
                    self.cut()
                    break
        _shut(sink)
        # Whoever comes last closes both: closing under the other thread's feet could hit a re-used descriptor.
        if ends.wait() == 0:
            with self._lock:
                self._sockets -= {source, sink}
            source.close()
            sink.close()

    def _allowed(self, data: bytes, way: str) -> bytes:
        if way == "down" or self._cut_after is None:
            return data
        with self._lock:
            allowed = data[: self._cut_after]
            self._cut_after -= len(allowed)
        return allowed

    def _stop_flow(self, *ways: str) -> None:
        for way in ways:
            self._flowing[way].clear()

    def _let_flow(self, *ways: str) -> None:
        for way in ways:
            self._flowing[way].set()


@contextlib.contextmanager
def proxy_to(port: int, host: str = "127.0.0.1") -> Iterator[Proxy]:
    """An open proxy in front of a server."""
    proxy = Proxy(host, port)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
