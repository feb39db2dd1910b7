"""The process that holds a model for `Isolated`: it compiles, says what it has, and runs until nobody is there."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from stowplan.flow.model import Model
from stowplan.nouns import asdict
from stowplan_backend_litert import wire
from stowplan_backend_litert.compiled import CompiledModel
from stowplan_backend_litert.environments import Environment
from stowplan_backend_litert.errors import LiteRtError, OptionError

CALLS = ("profile", "pending_events", "summarise_profile", "profile_nodes", "reset_profile", "pause_profile",
         "resume_profile", "signatures", "io_sizes")  # fmt: skip
"""What may be asked for by name beside a run."""


def main(descriptor: int) -> None:
    """Serve one connection. The first message has the model's path and the options."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent, which ends this process
    with socket.socket(fileno=descriptor) as connection:
        _, wanted = wire.receive(connection)
        try:
            model = _compiled(wanted)
        except LiteRtError as err:
            wire.send(connection, wire.FAILED, wire.failure(err))
            return
        wire.send(connection, wire.VALUE, _facts(model))
        memory = _memory(connection, model)
        model.watch((ctypes.c_char * 2).from_buffer(memory.head))
        try:
            while True:
                _answer(connection, model, memory)
        except (EOFError, OSError):
            os._exit(0)  # nobody is left to hear of anything that closing could report


def _compiled(wanted: dict[str, Any]) -> CompiledModel:
    source: Any = wanted["path"]
    if wanted["descriptor"] is not None:
        with os.fdopen(wanted["descriptor"], "rb") as file:
            source = Model(path=Path(wanted["name"]), data=file.read(), digest="")
    env = Environment(**wanted["environment"])
    return CompiledModel(env, source, **wanted["options"])


def _facts(model: CompiledModel) -> dict[str, Any]:
    return dict(
        inputs=wire.ports_as_json(model.inputs), outputs=wire.ports_as_json(model.outputs),
        acceleration=asdict(model.acceleration), cpu_delegated=model.cpu_delegated, note=model.profile_note,
        signature=model.signature, signatures=model.signatures(),
    )  # fmt: skip


def _memory(connection: socket.socket, model: CompiledModel) -> wire.Memory:
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        os._exit(0)
    return wire.Memory(model.inputs, model.outputs, descriptors[0])


def _answer(connection: socket.socket, model: CompiledModel, memory: wire.Memory) -> None:
    kind, value = wire.receive(connection)
    try:
        if kind == wire.RUN and value is None:
            model.run(memory.inputs, memory.outputs)
            wire.send(connection, wire.DONE)
        elif kind == wire.RUN:
            results, metrics = model.run_with_metrics(memory.inputs, value["detail_level"])
            for place, result in zip(memory.outputs, results, strict=True):
                place[:] = result
            wire.send(connection, wire.VALUE, asdict(metrics))
        else:
            wire.send(connection, wire.VALUE, _called(model, value))
    except LiteRtError as err:
        wire.send(connection, wire.FAILED, wire.failure(err))


def _called(model: CompiledModel, value: dict[str, Any]) -> Any:
    if value["name"] not in CALLS:
        raise OptionError(f"no call {value['name']!r}")
    result = getattr(model, value["name"])(*value["arguments"])
    if isinstance(result, list):
        return [asdict(item) if is_dataclass(item) and not isinstance(item, type) else item for item in result]
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]))
