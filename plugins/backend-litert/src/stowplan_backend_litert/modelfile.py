"""A model file as LiteRT holds it: read whole, verified, and opened from memory, never from the file.

LiteRtCreateModelFromFile does not verify the flatbuffer it is given: a damaged file ends the process.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Union

from stowplan.nouns import dataclass
from stowplan_backend_litert.calls import ask, ask_text, destroy
from stowplan_backend_litert.environments import Environment
from stowplan_backend_litert.errors import LiteRtError, ModelRefusedError, OptionError
from stowplan_backend_litert.quiet import captured
from stowplan_backend_litert.vetting import vet

if TYPE_CHECKING:
    from stowplan.flow.model import Model

IDENTIFIER = b"TFL3"
MOST_SIGNATURES = 4096
MAX_MODEL_BYTES = 2**31 - 1  # a flatbuffer's offsets are 32 bits signed
Source = Union[str, "os.PathLike[str]", bytes, "Model"]


@dataclass(frozen=True)
class Signature:
    """One entry of a model: its key, its place, and LiteRT's handle."""

    key: str
    index: int
    handle: int

    @property
    def operators(self) -> int:
        """How many operators the signature's subgraph has."""
        count: int = ask("GetNumSubgraphOps", ask("GetSignatureSubgraph", self.handle), kind=ctypes.c_size_t)
        return count


class ModelFile:
    """A verified model. LiteRT keeps pointing into `data`, which therefore lives as long as this does.

    One for each attempt to compile: an NPU's compiler rewrites the model it is given, even when it fails.
    """

    def __init__(self, env: int, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        with captured():
            self.handle: int | None = _open(env, self.name, self.data)

    def signatures(self) -> tuple[Signature, ...]:
        """Return the signatures; a model that names none has the one that LiteRT gives it."""
        count = ask("GetNumModelSignatures", self.handle, kind=ctypes.c_size_t)
        if count > MOST_SIGNATURES:
            raise ModelRefusedError(f"{self.name}: claims {count} signatures; the file is damaged, export it again")
        return tuple(self._signature(index) for index in range(count))

    def signature(self, wanted: int | str) -> Signature:
        """Return one signature by index or key. Raises `OptionError` with those there are."""
        found = self.signatures()
        for signature in found:
            if wanted == signature.key or (type(wanted) is int and wanted == signature.index):
                return signature
        keys = ", ".join(f"{s.index} {s.key}" for s in found[:8]) or "none"
        raise OptionError(f"{self.name}: no signature {wanted!r}; it has {keys}")

    def close(self) -> None:
        destroy("Model", self.handle)
        self.handle = None

    def _signature(self, index: int) -> Signature:
        handle = ask("GetModelSignature", self.handle, index)
        return Signature(ask_text("GetSignatureKey", handle), index, handle)


def signatures(env: Environment, source: Source) -> list[str]:
    """Return the keys of a model's signatures, without compiling it; a default one where the model names none.

    Raises `ModelRefusedError`.
    """
    name, data = read(source)
    handle = env.acquire(("cpu",))
    try:
        model = ModelFile(handle, name, data)
        try:
            return [signature.key for signature in model.signatures()]
        finally:
            model.close()
    finally:
        env.release()


def read(source: Source, max_bytes: int = 0) -> tuple[str, bytes]:
    """Return a name for messages and the bytes of a model. Raises `ModelRefusedError`."""
    if isinstance(source, bytes):
        name, data = "model", source
    elif isinstance(source, (str, os.PathLike)):
        name, data = os.path.basename(os.fspath(source)), _contents(os.fspath(source), max_bytes)
    else:
        name, data = source.name, source.data
    if max_bytes and len(data) > max_bytes:
        raise ModelRefusedError(f"{name}: {len(data)} bytes, max_model_bytes allows {max_bytes}")
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise ModelRefusedError(f"{name}: is no TFLite model (the identifier TFL3 is missing); export it again")
    return name, data


def _contents(path: str, max_bytes: int) -> bytes:
    """Return a file's bytes. `Model.read` would do, and hash them: a model that is run at once has no use for that."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > (max_bytes or MAX_MODEL_BYTES):
                limit = f"max_model_bytes allows {max_bytes}" if max_bytes else f"a model has at most {MAX_MODEL_BYTES}"
                raise ModelRefusedError(f"{path}: {size} bytes, {limit}")
            data = file.read(MAX_MODEL_BYTES + 1)
    except FileNotFoundError:
        raise ModelRefusedError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ModelRefusedError(f"{path}: is a directory; name a model file in it") from None
    except (OSError, ValueError) as err:
        raise ModelRefusedError(f"{path}: cannot be read: {getattr(err, 'strerror', None) or err}") from err
    if not data:
        raise ModelRefusedError(f"{path}: the file is empty; export the model again")
    return data


def _open(env: int, name: str, data: bytes) -> int:
    try:
        handle: int = ask("CreateModelFromBuffer", env, data, len(data))
    except LiteRtError as err:
        raise ModelRefusedError(f"{name}: LiteRT refuses it: {err}; export it again", status=err.status) from err
    try:
        vet(name, data)
    except ModelRefusedError:
        destroy("Model", handle)
        raise
    return handle
