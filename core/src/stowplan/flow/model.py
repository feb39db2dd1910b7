"""A model file as it lies on disk: its bytes and their digest, nothing parsed yet."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stowplan.errors import ModelError
from stowplan.nouns import dataclass, field

MAX_MODEL_BYTES = 2**31 - 1  # a flatbuffer's offsets are 32 bits signed; larger files cannot be valid


@dataclass(frozen=True, kw_only=True)
class Model:
    """The bytes of one model file; `digest` is their SHA-256 in hexadecimal."""

    path: Path
    data: bytes = field(repr=False)
    digest: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @classmethod
    def read(cls, path: str | Path, max_bytes: int = MAX_MODEL_BYTES) -> Model:
        """Read a model file of at most `max_bytes`. Raises `ModelError` when that is not possible."""
        path = Path(path)
        if "\0" in str(path):
            raise ModelError(f"{str(path)!r}: is no file name")
        try:
            if path.is_dir():
                raise ModelError(f"{path}: is a directory; name a model file in it")
            size = path.stat().st_size
            if size > max_bytes:
                raise ModelError(f"{path}: {size} bytes are more than a model may have ({max_bytes} bytes)")
            with path.open("rb") as file:
                data = file.read(max_bytes + 1)
        except FileNotFoundError:
            raise ModelError(f"{path}: no such file") from None
        except OSError as err:
            raise ModelError(f"{path}: cannot be read: {err.strerror or err}") from err
        if not data:
            raise ModelError(f"{path}: the file is empty; export the model again")
        return cls(path=path, data=data, digest=hashlib.sha256(data).hexdigest())
