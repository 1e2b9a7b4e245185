"""The faulty network of the tests does what it says."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.proxy import Proxy, proxy_to


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy in front of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_echo_all, args=(listener,), daemon=True)
    thread.start()
    with proxy_to(listener.getsockname()[1]) as proxy:
        yield proxy
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    listener.close()


def _echo_all(listener: socket.socket) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(client,), daemon=True).start()


def _echo(client: socket.socket) -> None:
    with client:
        try:
            while data := client.recv(4096):
                client.sendall(data)
        except OSError:
            return


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=1)


def test_it_forwards_both_ways(proxy: Proxy) -> None:
    with connected(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"


def test_refusing_ends_old_connections_and_takes_no_new_ones_until_it_opens_again(proxy: Proxy) -> None:
    port = proxy.port
    with connected(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
        proxy.refuse()
        assert client.recv(5) == b""
    with pytest.raises(ConnectionRefusedError):
        connected(proxy).close()

    proxy.open()
    assert proxy.port == port
    with connected(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"


@pytest.mark.parametrize("fault", ["silence", "half_open"])
def test_without_an_answer_the_connection_stays_open_and_all_comes_later(proxy: Proxy, fault: str) -> None:
    with connected(proxy) as client:
        getattr(proxy, fault)()
        client.sendall(b"hello")
        with pytest.raises(TimeoutError):
            client.recv(5)
        proxy.open()
        assert client.recv(5) == b"hello"


def test_a_line_is_cut_after_so_many_bytes(proxy: Proxy) -> None:
    with connected(proxy) as client:
        proxy.cut_after(3)
        client.sendall(b"hello")
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := client.recv(5):
                received += data
    assert received in {b"", b"hel"}


def test_cutting_leaves_the_door_open(proxy: Proxy) -> None:
    with connected(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
        proxy.cut()
        assert client.recv(5) == b""
    with connected(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
