"""A worker for BuildGrid on this machine: takes leases, stages inputs, runs the command, stores what it made.

    python remote_bot.py ADDRESS FOLDER

Run by the interpreter that has BuildGrid, whose protocol buffers it uses. One action at a time; for tests only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as execution
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2_grpc as execution_grpc
from buildgrid._protos.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import (
    bots_pb2,
    bots_pb2_grpc,
    worker_pb2,
)

INTERNAL = 13
PATIENCE_SECONDS = 20
LARGEST_BATCH_BYTES = 2 << 20
PIECE_BYTES = 1 << 20


class Storage:
    """The content-addressable storage behind a channel; what was read once is kept."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._cas = execution_grpc.ContentAddressableStorageStub(channel)
        self._bytes = bytestream_pb2_grpc.ByteStreamStub(channel)
        self._known: dict[str, bytes] = {}

    def get(self, digest: execution.Digest) -> bytes:
        if digest.size_bytes and digest.hash not in self._known:
            name = f"blobs/{digest.hash}/{digest.size_bytes}"
            parts = self._bytes.Read(bytestream_pb2.ReadRequest(resource_name=name))
            self._known[digest.hash] = b"".join(part.data for part in parts)
        return self._known.get(digest.hash, b"")

    def put(self, data: bytes) -> execution.Digest:
        digest = execution.Digest(hash=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        if len(data) > LARGEST_BATCH_BYTES:
            self._bytes.Write(_pieces(digest, data))
            return digest
        request = execution.BatchUpdateBlobsRequest(requests=[dict(digest=digest, data=data)])
        status = self._cas.BatchUpdateBlobs(request).responses[0].status
        if status.code:
            raise RuntimeError(f"the storage refused {digest.hash}: {status.message}")
        return digest


def _pieces(digest: execution.Digest, data: bytes):
    name = f"uploads/{os.urandom(16).hex()}/blobs/{digest.hash}/{digest.size_bytes}"
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        last = start + len(piece) == len(data)
        yield bytestream_pb2.WriteRequest(resource_name=name, write_offset=start, data=piece, finish_write=last)


def stage(storage: Storage, digest: execution.Digest, folder: Path) -> None:
    """Write a tree of inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = execution.Directory.FromString(storage.get(digest))
    for file in tree.files:
        path = folder / file.name
        path.write_bytes(storage.get(file.digest))
        path.chmod(0o555 if file.is_executable else 0o444)
    for link in tree.symlinks:
        (folder / link.name).symlink_to(link.target)
    for child in tree.directories:
        stage(storage, child.digest, folder / child.name)


def gather(storage: Storage, folder: Path, children: list[execution.Directory]) -> execution.Directory:
    """Store a folder that a command made; its descendants are appended to `children`."""
    tree = execution.Directory()
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            child = gather(storage, path, children)
            children.append(child)
            tree.directories.add(name=path.name, digest=storage.put(child.SerializeToString()))
        else:
            executable = os.access(path, os.X_OK)
            tree.files.add(name=path.name, digest=storage.put(path.read_bytes()), is_executable=executable)
    return tree


def perform(storage: Storage, action: execution.Action, root: Path) -> execution.ActionResult:
    """Run an action in an empty folder and return what it made."""
    command = execution.Command.FromString(storage.get(action.command_digest))
    shutil.rmtree(root, ignore_errors=True)
    stage(storage, action.input_root_digest, root)
    here = root / command.working_directory
    here.mkdir(parents=True, exist_ok=True)
    outputs = dict.fromkeys([*command.output_files, *command.output_directories, *command.output_paths])
    for name in outputs:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
    environment = {variable.name: variable.value for variable in command.environment_variables}
    done = subprocess.run(
        list(command.arguments), cwd=here, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    result = execution.ActionResult(exit_code=done.returncode, stdout_raw=done.stdout, stderr_raw=done.stderr)
    for name in outputs:
        path = here / name
        if path.is_dir():
            children: list[execution.Directory] = []
            whole = execution.Tree(root=gather(storage, path, children), children=children)
            result.output_directories.add(path=name, tree_digest=storage.put(whole.SerializeToString()))
        elif path.exists():
            executable = os.access(path, os.X_OK)
            result.output_files.add(path=name, digest=storage.put(path.read_bytes()), is_executable=executable)
    print(done.returncode, command.arguments[0], *outputs, "", flush=True)
    return result


def serve(address: str, root: Path) -> None:
    channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
    storage, bots = Storage(channel), bots_pb2_grpc.BotsStub(channel)
    device = worker_pb2.Device(handle="cpu")
    device.properties.add(key="OSFamily", value="linux")
    fresh = bots_pb2.BotSession(
        bot_id=f"bot-{os.getpid()}", status=bots_pb2.OK, worker=worker_pb2.Worker(devices=[device])
    )
    session = None
    while True:
        try:
            if session is None:
                request = bots_pb2.CreateBotSessionRequest(parent="", bot_session=fresh)
                session = bots.CreateBotSession(request, timeout=PATIENCE_SECONDS)
            else:
                request = bots_pb2.UpdateBotSessionRequest(name=session.name, bot_session=session)
                session = bots.UpdateBotSession(request, timeout=PATIENCE_SECONDS)
        except grpc.RpcError as err:
            if err.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                print(err.code(), err.details(), flush=True)
                session = None
                time.sleep(0.5)
            continue
        for lease in session.leases:
            if lease.state in (bots_pb2.PENDING, bots_pb2.ACTIVE):
                _take(storage, lease, root)


def _take(storage: Storage, lease: bots_pb2.Lease, root: Path) -> None:
    try:
        lease.result.Pack(perform(storage, _action(storage, lease), root))
    except Exception as err:  # whatever it is, the build waits for an answer
        print(repr(err), flush=True)
        lease.status.code, lease.status.message = INTERNAL, repr(err)
    lease.state = bots_pb2.COMPLETED


def _action(storage: Storage, lease: bots_pb2.Lease) -> execution.Action:
    if lease.payload.Is(execution.Action.DESCRIPTOR):
        action = execution.Action()
        lease.payload.Unpack(action)
        return action
    digest = execution.Digest()
    lease.payload.Unpack(digest)
    return execution.Action.FromString(storage.get(digest))


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
