"""The process of the embedded graph: starts ArcadeDB as told on standard input and ends when that closes."""

import json
import os
import signal
import sys
import threading
from typing import NoReturn, TypedDict

BOLT_PLUGIN = "Bolt:com.arcadedb.bolt.BoltProtocolPlugin"


class Orders(TypedDict):
    """What the parent writes as the first line."""

    root: str
    password: str
    database: str
    bolt_port: int
    http_port: int
    heap: str


def main() -> None:
    orders: Orders = json.loads(sys.stdin.buffer.readline())
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    threading.Thread(target=_watch_parent, args=(over,), daemon=True).start()
    try:
        _serve(orders, over)
    except Exception as error:
        # One line at the end of the log: that is what the parent shows.
        _leave(1, f"The graph server could not be started: {error}")
    _leave(0, "The graph server has stopped.")


def _leave(code: int, line: str) -> NoReturn:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
    # The virtual machine has nothing left to do, and its own way out takes seconds or, after a failed start, for ever.
    os._exit(code)


def _watch_parent(over: threading.Event) -> None:
    # Standard input ends with the parent, however it ends: no signal, no operating system's favour is needed.
    sys.stdin.buffer.read()
    over.set()


def _serve(orders: Orders, over: threading.Event) -> None:
    import arcadedb_embedded  # noqa: PLC0415 (after the input is watched: the import takes a while)
    from arcadedb_embedded.jvm import start_jvm  # noqa: PLC0415

    # -Xrs leaves the signals to Python, so that SIGTERM closes the database in order.
    start_jvm(heap_size=orders["heap"], jvm_args=["-Xrs", "-XX:+UseG1GC"])
    server = arcadedb_embedded.create_server(
        orders["root"],
        orders["password"],
        config={
            "host": "127.0.0.1",
            "mode": "production",
            "server_plugins": BOLT_PLUGIN,
            "bolt_port": orders["bolt_port"],
            "http_port": orders["http_port"],
        },
    )
    server.start()
    server.create_database(orders["database"])
    over.wait()
    server.stop()


if __name__ == "__main__":
    main()
