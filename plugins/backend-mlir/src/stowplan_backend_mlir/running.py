"""Machine code from bytecode, in the worker: loaded to be called, or written as an object file."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from stowplan.errors import ModelError, RuntimeFailure, UnsupportedError, UsageError
from stowplan.nouns import dataclass
from stowplan_backend_mlir.said import line

ELEMENTS: Mapping[str, tuple[str, type[Any]]] = {
    "i1": ("bool", ctypes.c_bool), "i8": ("int8", ctypes.c_int8), "ui8": ("uint8", ctypes.c_uint8),
    "i16": ("int16", ctypes.c_int16), "ui16": ("uint16", ctypes.c_uint16), "i32": ("int32", ctypes.c_int32),
    "ui32": ("uint32", ctypes.c_uint32), "i64": ("int64", ctypes.c_int64), "ui64": ("uint64", ctypes.c_uint64),
    "index": ("int64", ctypes.c_int64), "f16": ("float16", ctypes.c_uint16), "f32": ("float32", ctypes.c_float),
    "f64": ("float64", ctypes.c_double),
}  # fmt: skip
"""Elements of MLIR: the dtype, and what holds one where it is passed by value."""
ALIGNMENT_BYTES = 64
_TYPE = re.compile(r"!llvm\.func<(\S+) \((.*)\)>$")
_loaded: dict[int, _Loaded] = {}


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """An engine, and what there is to be called in it."""

    engine: Any
    functions: Mapping[str, Any]
    types: Mapping[str, tuple[str, int]]
    missing: tuple[str, ...]


def load(
    blocks: Sequence[bytes], *, functions: dict[str, Any], opt_level: int, shared_libraries: list[str],
    initialize: bool,
) -> tuple[dict[str, Any], Sequence[bytes]]:  # fmt: skip
    """Make machine code of a module and keep it; say under which number, and how long that took."""
    started = time.monotonic_ns()
    module = _module(blocks[0])
    _require_llvm(module)
    engine = _engine(module, opt_level, shared_libraries, pic=False)
    made = time.monotonic_ns()
    types, missing = _symbols(module)
    if initialize:
        engine.initialize()
    number = max(_loaded, default=0) + 1
    _loaded[number] = _Loaded(engine=engine, functions=functions, types=types, missing=missing)
    return {"model": number, "codegen_ns": made - started, "load_ns": time.monotonic_ns() - made}, ()


def run(
    blocks: Sequence[bytes], *, model: int, symbol: str, scalars: list[Any]
) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Call a function once. `blocks` are the bytes of its tensors in order, `scalars` its other arguments."""
    found = _loaded[model]
    signature = found.functions[symbol]
    _check_convention(found, symbol, signature)
    tensors, values = iter(blocks), iter(scalars)
    arguments = [_argument(one, tensors, values) for one in signature["inputs"]]
    results = [_Buffer(one) for one in signature["outputs"] if one["shape"] is not None]
    single = [ELEMENTS[one["element"]][1]() for one in signature["outputs"] if one["shape"] is None]
    packed = [*arguments, *(result.pointer for result in results), *single]
    call = _lookup(found, symbol)
    places = (ctypes.c_void_p * len(packed))(*[ctypes.addressof(one) for one in packed])
    started = time.perf_counter_ns()
    call(places)
    duration = time.perf_counter_ns() - started
    answers = [None if one["shape"] is not None else single[0].value for one in signature["outputs"]]
    return {"duration_ns": duration, "scalars": answers}, [result.bytes for result in results]


def unload(blocks: Sequence[bytes], *, model: int) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Give up what a model holds."""
    _loaded.pop(model, None)
    return {}, ()


def emit(
    blocks: Sequence[bytes], *, form: str, opt_level: int, symbols: dict[str, str]
) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Return an object file of this machine's processor, or LLVM's own text; functions may get other names."""
    started = time.monotonic_ns()
    module = _module(blocks[0])
    _require_llvm(module)
    _rename(module, symbols)
    _, missing = _symbols(module)
    if form == "llvm":
        data = _llvm(module)
    else:
        engine = _engine(module, opt_level, [], pic=True)
        with tempfile.TemporaryDirectory(prefix="stowplan-") as folder:
            path = os.path.join(folder, "model.o")
            engine.dump_to_object_file(path)
            if not os.path.isfile(path):
                raise RuntimeFailure("LLVM wrote no object file")
            with open(path, "rb") as file:
                data = file.read()
    return {"needs": list(missing), "codegen_ns": time.monotonic_ns() - started}, [data]


class _Buffer:
    """The memory of one tensor, aligned, behind a pointer."""

    def __init__(self, kind: Mapping[str, Any], data: bytes | None = None) -> None:
        size = tensor_bytes(kind)
        if data is not None and len(data) != size:
            raise RuntimeFailure(f"an input has {len(data)} bytes, it takes {size}")
        self._size = size
        self._memory = ctypes.create_string_buffer(size + ALIGNMENT_BYTES)
        address = ctypes.addressof(self._memory)
        self._at = -address % ALIGNMENT_BYTES
        if data is not None:
            ctypes.memmove(address + self._at, data, size)
        self.pointer = ctypes.c_void_p(address + self._at)
        self.pointer._memory = self._memory  # type: ignore[attr-defined]  # the argument list keeps it alive

    @property
    def bytes(self) -> bytes:
        return self._memory.raw[self._at : self._at + self._size]


def tensor_bytes(kind: Mapping[str, Any]) -> int:
    """Return the bytes of a tensor's type. Raises `UnsupportedError` for one that has no fixed size."""
    from stowplan.flow.dtypes import size_bytes

    if kind["element"] not in ELEMENTS:
        raise UnsupportedError(f"elements of type {kind['element']} cannot be passed", [kind["element"]])
    if min(kind["shape"], default=0) < 0:
        raise UnsupportedError("a tensor with free dimensions cannot be passed: give it a static shape", ["shape"])
    count: int = prod(kind["shape"])
    return count * size_bytes(ELEMENTS[kind["element"]][0])


def _module(data: bytes) -> Any:
    from torch_mlir import ir

    with ir.Context():
        try:
            return ir.Module.parse(data)
        except ir.MLIRError as err:
            raise ModelError(f"its bytecode cannot be read by this MLIR: {line(err)}") from None


def _engine(module: Any, opt_level: int, libraries: list[str], pic: bool) -> Any:
    from torch_mlir.execution_engine import ExecutionEngine

    try:
        return ExecutionEngine(
            module, opt_level=opt_level, shared_libs=libraries, enable_object_dump=True, enable_pic=pic
        )
    except RuntimeError as err:
        raise RuntimeFailure(f"LLVM makes no code of it: {line(err)}") from None


def _require_llvm(module: Any) -> None:
    """Raise `UsageError` naming operations that LLVM's dialect does not have."""
    from torch_mlir import ir

    found: dict[str, None] = {}

    def note(operation: Any) -> Any:
        if operation.name.partition(".")[0] not in ("llvm", "builtin"):
            found[operation.name] = None
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    if found:
        left = ", ".join(list(found)[:3])
        raise UsageError(f"is not in LLVM's dialect, it still has {left}: its pipeline ends before LLVM")


def _symbols(module: Any) -> tuple[dict[str, tuple[str, int]], tuple[str, ...]]:
    """Return result and number of parameters of each function, and the names of those that are not here."""
    from torch_mlir import ir

    types, missing = {}, []
    for one in module.body.operations:
        operation = one.operation
        if operation.name != "llvm.func":
            continue
        name = str(ir.StringAttr(operation.attributes["sym_name"]).value)
        matched = _TYPE.match(str(ir.TypeAttr(operation.attributes["function_type"]).value))
        if not len(operation.regions[0].blocks):
            missing.append(name)
        elif matched:
            types[name] = (matched[1], len(matched[2].split(", ")) if matched[2] else 0)
    return types, tuple(sorted(missing))


def _check_convention(found: _Loaded, symbol: str, signature: Mapping[str, Any]) -> None:
    """Refuse to call a function that the pipeline left with other arguments than the default one does."""
    outputs = signature["outputs"]
    scalars = [one for one in outputs if one["shape"] is None]
    wanted = len(signature["inputs"]) + len(outputs) - len(scalars)
    result, count = found.types.get(symbol, ("", -1))
    if count != wanted or len(scalars) > 1 or (result == "void") != (not scalars):
        raise UsageError(
            f"function {symbol} takes {max(count, 0)} arguments, where its {wanted} tensors and scalars are one each: "
            "its pipeline passes results otherwise; end it as the default one does"
        )


def _argument(kind: Mapping[str, Any], tensors: Any, values: Any) -> Any:
    if kind["shape"] is not None:
        return _Buffer(kind, next(tensors)).pointer
    if kind["element"] not in ELEMENTS:
        raise UnsupportedError(f"a value of type {kind['element']} cannot be passed", [kind["element"]])
    try:
        return ELEMENTS[kind["element"]][1](next(values))
    except TypeError as err:
        raise RuntimeFailure(f"a value of type {kind['element']} cannot be made of that: {err}") from None


def _lookup(found: _Loaded, symbol: str) -> Callable[[Any], None]:
    address = found.engine.raw_lookup(symbol)
    if not address:
        needs = f"; it calls {', '.join(found.missing)}, and one of those is not here" if found.missing else ""
        raise RuntimeFailure(f"function {symbol} cannot be linked{needs}")
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def _rename(module: Any, symbols: Mapping[str, str]) -> None:
    from torch_mlir import ir

    table = ir.SymbolTable(module.operation)
    for old, new in symbols.items():
        if old not in table:
            raise UsageError(f"no function {old!r} to be called {new!r}")
        operation = table[old]
        with module.context:
            ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
            ir.SymbolTable.set_symbol_name(operation, new)


def _llvm(module: Any) -> bytes:
    from torch_mlir.dialects import llvm

    text: str = llvm.translate_module_to_llvmir(module.operation)
    return text.encode()
