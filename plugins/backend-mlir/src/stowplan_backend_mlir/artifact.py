"""What a compilation gives: bytecode of a stated version, what it was made from, and how long each part took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.cache.files import sha256
from stowplan.errors import ModelError
from stowplan.nouns import dataclass, field
from stowplan.plugins.kinds import Port

BYTECODE = "module.mlirbc"


@dataclass(frozen=True, kw_only=True)
class Function:
    """What a call of a function gives and gets: types as plain data (shape, None for a scalar; element)."""

    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a run that is timed: the number of its operator in the model, the operator's kind and output."""

    index: int
    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """Transformed bytecode. `key` has all inputs and the structure, `lookup_key` the source's bytes in its place.

    `document` is what the key is the digest of, `cache` is "hit", "structure" (the source was another, its meaning the
    same), "miss" or "off". A part that was not done took 0 ns. `inputs` and `outputs` are None for what was no TFLite
    model; `dequantized` of its `operators` compute in float with integer weights. `parts` are those of a run that code
    made for a profile tells apart.
    """

    name: str
    key: str
    lookup_key: str
    structure: str
    bytecode: bytes = field(repr=False)
    digest: str
    document: Mapping[str, Any] = field(repr=False)
    functions: Mapping[str, Function] = field(repr=False)
    inputs: tuple[Port, ...] | None = None
    outputs: tuple[Port, ...] | None = None
    operators: int = 0
    dequantized: int = 0
    parts: tuple[Part, ...] = ()
    cache: str = "miss"
    timings_ns: Mapping[str, int] = field(default_factory=dict, compare=False)
    labels: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def bytecode_version(self) -> int:
        """The version that the bytecode says it has."""
        return version_of(self.bytecode)

    def validated(self) -> Artifact:
        """Return itself. Raises `ModelError` when the bytecode is not that which was compiled."""
        if sha256(self.bytecode) != self.digest:
            raise ModelError(f"{self.name}: its bytecode is not what was compiled: compile it again")
        return self


def version_of(bytecode: bytes) -> int:
    """Return the version in the head of bytecode: a number of 7 bits behind four bytes of magic, its low bit set."""
    if bytecode[:4] != b"ML\xefR" or len(bytecode) < 5 or not bytecode[4] & 1:
        raise ModelError("is no MLIR bytecode")
    return bytecode[4] >> 1


def functions_of(found: Mapping[str, Any]) -> dict[str, Function]:
    return {name: Function(inputs=tuple(one["inputs"]), outputs=tuple(one["outputs"])) for name, one in found.items()}


def ports_of(found: Sequence[Mapping[str, Any]]) -> tuple[Port, ...]:
    """Return tensors as ports. Raises `UnsupportedError` for elements that have no dtype here."""
    from stowplan_backend_mlir.running import ELEMENTS, tensor_bytes

    return tuple(
        Port(name=one["name"], shape=tuple(one["shape"]), size_bytes=tensor_bytes(one),
             dtype=ELEMENTS[one["element"]][0])
        for one in found
    )  # fmt: skip
