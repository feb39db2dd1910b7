"""A server's door for other processes: a Unix socket, a thread per connection, tensors in shared memory."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stowplan_backend_litert import wire
from stowplan_backend_litert.arrays import arranged, flat
from stowplan_backend_litert.errors import ClosedError, LiteRtError, OptionError, WorkerDiedError
from stowplan_backend_litert.ownership import ProcessOwner

if TYPE_CHECKING:
    from stowplan_backend_litert.server import Server


class Listener:
    """Accepts clients until it is closed. The socket is in a folder that only this user can enter."""

    def __init__(self, server: Server, path: str | None) -> None:
        self._server = server
        self._folder = None if path else tempfile.mkdtemp(prefix="stowplan-")
        self.path = path or os.path.join(self._folder or "", "server")
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(self.path)
        except OSError as err:
            self._socket.close()
            raise OptionError(f"{self.path}: no server can listen there: {err.strerror or err}") from err
        self._socket.listen()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="stowplan-listener", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            os.unlink(self.path)
        if self._folder:
            with suppress(OSError):
                os.rmdir(self._folder)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="stowplan-client", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        server = self._server
        memory = None
        try:
            caller = ProcessOwner.of(_peer(connection))
            ports = dict(inputs=wire.ports_as_json(server.inputs), outputs=wire.ports_as_json(server.outputs))
            wire.send(connection, wire.VALUE, ports)
            memory = _receive_memory(connection, server)
            while True:
                _, request = wire.receive(connection)
                _answer(connection, server, memory, request, caller)
        except (EOFError, OSError, LiteRtError, KeyError, TypeError, ValueError):
            pass  # a client that is gone, or that does not speak our language, is no longer served
        finally:
            if memory is not None:
                memory.close()
            with self._lock:
                self._connections.discard(connection)
            connection.close()


class Client:
    """A server in another process, used like the server itself. One request at a time per client."""

    def __init__(self, address: str, *, timeout: float = 10.0) -> None:
        wire.require_posix()
        self._lock = threading.Lock()
        self._memory: wire.Memory | None = None
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(address)
            _, ports = wire.receive(self._socket)
        except (OSError, EOFError) as err:
            self._socket.close()
            raise ClosedError(f"{address}: no server answers there: {err}") from err
        self.inputs, self.outputs = (wire.ports_from_json(ports[role]) for role in ("inputs", "outputs"))
        self._memory = wire.Memory(self.inputs, self.outputs)
        socket.send_fds(self._socket, [wire.MEMORY], [self._memory.descriptor])
        self._socket.settimeout(None)  # the server's time-outs hold from here on

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], *, timeout: float | None = None) -> list[bytes]:
        """Run once; raises what `Server.run` raises, and `WorkerDiedError` when the server is gone."""
        with self._lock:
            if self._memory is None:
                raise ClosedError("this client was closed")
            data = [flat(item, port) for item, port in zip(arranged(inputs, self.inputs), self.inputs, strict=True)]
            for view, item in zip(self._memory.inputs, data, strict=True):
                view[:] = item
            try:
                wire.send(self._socket, wire.RUN, dict(timeout=timeout))
                kind, value = wire.receive(self._socket)
            except (EOFError, OSError, ValueError) as err:
                raise WorkerDiedError("the server is gone; this request is lost") from err
            except BaseException:  # Ctrl-C: the answer that is still to come must not become the next request's
                self._end()
                raise
            if kind == wire.FAILED:
                raise wire.raised(value)
            return [bytes(view) for view in self._memory.outputs]

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._socket.close()
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(
    connection: socket.socket, server: Server, memory: wire.Memory, request: dict[str, Any], caller: ProcessOwner
) -> None:
    try:
        results = server.run(memory.inputs, timeout=request["timeout"], caller=caller)
    except LiteRtError as err:
        wire.send(connection, wire.FAILED, wire.failure(err))
        return
    for place, result in zip(memory.outputs, results, strict=True):
        place[:] = result
    wire.send(connection, wire.DONE)


def _receive_memory(connection: socket.socket, server: Server) -> wire.Memory:
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        raise EOFError("the client left")
    return wire.Memory(server.inputs, server.outputs, descriptors[0])


def _peer(connection: socket.socket) -> int:
    """Return the number of the process at the other end; 0, which owns nothing, where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    data = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", data)[0]
    return pid
