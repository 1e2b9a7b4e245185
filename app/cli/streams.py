"""The standard streams of a process, so that every command can write to them, whatever they are.

What their encoding does not have is replaced. An output that is full, closed or not read any more ends the command
with `OutputLost`; what standard error cannot take is dropped, for there is nobody else to tell.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar, cast

Raw = TypeVar("Raw", bound=io.FileIO)


class OutputLost(Exception):
    """Standard output cannot take what was to be shown.

    No OSError: the libraries of the command line would make of a broken pipe what they think best.
    """

    def __init__(self, reason: OSError) -> None:
        closed = reason.errno == errno.EBADF
        super().__init__(f"standard output {'is closed' if closed else f'cannot be written ({reason.strerror})'}")
        self.reader_gone = reason.errno == errno.EPIPE


class _Output(io.FileIO):
    lost: OutputLost | None = None

    def write(self, data: Any, /) -> int:  # noqa: ANN401 (bytes in one of their forms)
        # What comes after the loss, from clean-up on the way out, is dropped.
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = OutputLost(error)
                raise self.lost from error
        return memoryview(data).nbytes


class _Errors(io.FileIO):
    def write(self, data: Any, /) -> int:  # noqa: ANN401 (bytes in one of their forms)
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


@contextmanager
def standard_streams() -> Iterator[None]:
    """Until the block ends. Raises `OutputLost` at the end too: what is buffered may fail as late as that."""
    before = sys.stdin, sys.stdout, sys.stderr
    _occupy_closed_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (it is not ours to close)
    output = _raw(_Output, sys.stdout, 1)
    errors = _raw(_Errors, sys.stderr, 2)
    sys.stdout, sys.stderr = _text(output, sys.stdout), _text(errors, sys.stderr)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        # Raised again, should anybody have caught it on its way.
        if output is not None and output.lost is not None:
            raise output.lost
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def _occupy_closed_descriptors() -> None:
    """Let no file or connection be opened in the place of a closed stream, to be written to by mistake."""
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is what it gets. Reading only, for 1: a write must fail as it does when closed.
            os.set_inheritable(os.open(os.devnull, flags), True)


def _raw(kind: type[Raw], stream: TextIO | None, number: int) -> Raw | None:
    """None where the stream is no file of the process, as in tests."""
    try:
        return kind(number if stream is None else stream.fileno(), "w", closefd=False)
    except (OSError, ValueError, AttributeError):
        return None


def _text(raw: io.FileIO | None, stream: TextIO | None) -> TextIO:
    if raw is None:
        return cast(TextIO, stream)
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=getattr(stream, "line_buffering", True) or getattr(stream, "write_through", False),
    )
