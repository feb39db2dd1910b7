"""From a source to a module that holds nothing but its meaning: converted, shapes bound, names and places left out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from hashlib import sha256
from io import BytesIO
from typing import Any

from stowplan.errors import ModelError, UnsupportedError, UsageError
from stowplan_backend_mlir import said
from stowplan_backend_mlir.mending import mend
from stowplan_backend_mlir.plan import NEWEST_BYTECODE
from stowplan_backend_mlir.said import line
from stowplan_backend_mlir.vetting import vet

ENTRY = "model"
"""What the function of a converted model is called; an object file may be given another name."""
_STRIPPED = ("tf.", "tfl.", "tf_saved_model.")
_KNOWN = ("tosa", "func", "builtin", "tensor", "arith")
held: dict[int, Any] = {}
"""Modules that were parsed and not yet transformed."""


def parse(
    blocks: Sequence[bytes], *, signature: int | str, context_options: dict[str, Any], ticks: bool = False
) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Read a model or a module, and say what it has and what it is, whatever it is called.

    For `ticks` the places that operations come from are kept.
    """
    from torch_mlir import ir

    context = ir.Context()
    with context, ir.Location.unknown():
        _set_up(context, context_options)
        if blocks[0][4:8] == b"TFL3":
            module, ports = _converted(context, blocks[0], signature, ticks)
        else:
            module, ports = _parsed(ir, blocks[0]), None
        functions = _functions(module)
        structure = _structure(module, keep_places=ticks)
    number = max(held, default=0) + 1
    held.clear()  # one that was never transformed was found in a cache
    held[number] = module
    return {"module": number, "structure": structure, "functions": functions, "ports": ports}, ()


def bytecode(module: Any, version: int) -> bytes:
    written = BytesIO()
    module.operation.write_bytecode(written, version)
    return written.getvalue()


def run_passes(module: Any, text: str) -> None:
    """Run passes given as text on a module. Raises what MLIR raises."""
    from torch_mlir import passmanager

    passmanager.PassManager.parse(f"builtin.module({text})").run(module.operation)


def _set_up(context: Any, options: dict[str, Any]) -> None:
    from torch_mlir import ir
    from torch_mlir.dialects import irdl

    context.allow_unregistered_dialects = bool(options.get("allow_unregistered_dialects", False))
    if "irdl" in options:
        try:
            irdl.load_dialects(ir.Module.parse(options["irdl"]))
        except (ir.MLIRError, ValueError, TypeError, RuntimeError) as err:
            raise UsageError(f"context_options: irdl defines no dialects: {line(err)}") from None


def _parsed(ir: Any, data: bytes) -> Any:
    try:
        return ir.Module.parse(data if data.startswith(b"ML\xefR") else data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ModelError("is neither a TFLite model nor MLIR, as bytecode or as text") from None
    except ir.MLIRError as err:
        raise ModelError(f"MLIR cannot read it: {line(err)}") from None


def _converted(context: Any, data: bytes, signature: int | str, places: bool) -> tuple[Any, dict[str, Any]]:
    """Return a TFLite model as a module in TOSA with one function, its free dimensions bound to 1."""
    from torch_mlir import ir

    vetted = vet(data)
    strict, context.allow_unregistered_dialects = context.allow_unregistered_dialects, True
    tosa = _tosa(data, places)
    try:
        module = _parsed(ir, tosa)  # what the converter left in TFLite's own dialect is refused by name
    except ModelError as err:
        raise UnsupportedError(f"what the converter makes of it is no TOSA: {err}", [str(err)]) from None
    context.allow_unregistered_dialects = strict
    function = _chosen(module, signature)
    position = [one.operation for one in module.body.operations].index(function.operation)
    _require_tosa(function)
    _keep_only(module, function)
    names = _names(function)
    _bind(module, function)
    mend(function)
    for attribute in [one for one in _attributes(module.operation) if one.startswith(_STRIPPED)]:
        del module.operation.attributes[attribute]
    for attribute in _attributes(function):
        if attribute not in ("sym_name", "function_type"):
            del function.attributes[attribute]
    function.attributes["sym_name"] = ir.StringAttr.get(ENTRY)
    inputs, outputs = _types(function)
    return module, {
        "inputs": _ports(names[0], inputs), "outputs": _ports(names[1], outputs),
        "operators": vetted[position].operators, "dequantized": vetted[position].dequantized,
        "names": vetted[position].outputs if places else (),
    }  # fmt: skip


def _tosa(data: bytes, places: bool) -> bytes:
    """Run the converter, which reads files only. What it complains of goes to standard error."""
    import tosa_converter_for_tflite as converter

    before, written = said.so_far(), BytesIO()
    debug = converter.TosaConverterDebugInfo.Enable if places else converter.TosaConverterDebugInfo.Disabled
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(data)
        file.flush()
        try:
            converter.tflite_flatbuffer_to_tosa_mlir(
                file.name, written, converter.TosaConverterOutputFormat.Bytecode, debug
            )
        except (RuntimeError, ValueError) as err:
            why = line(said.since(before, "rror") or err)
            if "legalize" in str(err):
                raise UnsupportedError(f"cannot be converted to TOSA: {why}", [why]) from None
            raise ModelError(f"the converter cannot read it: {why}") from None
    return written.getvalue()


def _chosen(module: Any, signature: int | str) -> Any:
    """Return the function of a signature: by number, or by the name that it is exported under."""
    functions = [one for one in module.body.operations if one.operation.name == "func.func"]
    exported = [(one, _texts(one, "tf_saved_model.exported_names")) for one in functions]
    entries = [one for one, names in exported if names] or functions
    if isinstance(signature, int):
        if signature < len(entries):
            return entries[signature]
    else:
        for one, names in exported:
            if signature in names:
                return one
    known = ", ".join(f"{name[:60]!r}" for _, names in exported for name in names) or "none has a name"
    raise UsageError(f"has no signature {signature!r:.80}; it has {len(entries)}: {known}")


def _require_tosa(function: Any) -> None:
    """Raise `UnsupportedError` naming every operator that the converter left as it was."""
    left = []
    for name, operation in _operations(function):
        if name == "tosa.custom":
            left.append(f"custom operator {_text(operation, 'operator_name')}")
        elif name.startswith("tfl.") and name != "tfl.no_value":
            left.append(name.removeprefix("tfl.").upper())
        elif name.partition(".")[0] not in _KNOWN and name != "tfl.no_value":
            left.append(name)
        elif name.startswith("tosa.variable"):
            left.append("state that is kept between runs")
    if left:
        reasons = list(dict.fromkeys(left))
        raise UnsupportedError(f"not in TOSA: {', '.join(reasons)[:400]}; run it with backend c or litert", reasons)


def _keep_only(module: Any, function: Any) -> None:
    for other in list(module.body.operations):
        if other.operation != function.operation:
            other.operation.erase()


def _bind(module: Any, function: Any) -> None:
    """Bind free dimensions of inputs to 1, and let the types of all that follows from them say so."""
    from torch_mlir import ir

    inputs, outputs = _types(function)
    for one in (*inputs, *outputs):
        if not isinstance(one, ir.RankedTensorType):
            raise UnsupportedError(f"an input or output of type {one} has no shape; export it with one", [str(one)])
    shapes = []
    for number, one in enumerate(map(ir.RankedTensorType, inputs)):
        sizes = [1 if one.is_dynamic_dim(axis) else one.get_dim_size(axis) for axis in range(one.rank)]
        if not one.has_static_shape:
            shapes.append(f"arg{number}:{'x'.join(map(str, sizes))}")
    if not shapes and all(ir.RankedTensorType(one).has_static_shape for one in outputs):
        return
    try:
        given = f"tosa-experimental-input-shape{{args={','.join(shapes)}}}," if shapes else ""
        run_passes(module, f"func.func({given}tosa-infer-shapes)")
    except ir.MLIRError as err:
        raise UnsupportedError(f"its free dimensions cannot be bound to 1: {line(err)}", [line(err)]) from None
    _return_bound(function)


def _return_bound(function: Any) -> None:
    """Return what is cast to a type with free dimensions before the cast."""
    from torch_mlir import ir

    last = list(function.regions[0].blocks[0].operations)[-1].operation
    for number, value in enumerate(list(last.operands)):
        if isinstance(value.owner, ir.Block):
            continue
        if value.owner.name == "tensor.cast" and not ir.RankedTensorType(value.type).has_static_shape:
            last.operands[number] = value.owner.operands[0]
    types = [value.type for value in last.operands]
    for one in types:
        if not isinstance(one, ir.RankedTensorType) or not ir.RankedTensorType(one).has_static_shape:
            raise UnsupportedError(f"an output of type {one} depends on what is computed", [str(one)])
    inputs = [value.type for value in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, types))


def _structure(module: Any, keep_places: bool) -> str:
    """Return the digest of a module without places: same operations, types and constants, same digest."""
    from torch_mlir import ir

    bare = ir.Module.parse(bytecode(module, NEWEST_BYTECODE)) if keep_places else module
    run_passes(bare, "strip-debuginfo")
    return sha256(bytecode(bare, NEWEST_BYTECODE)).hexdigest()


def _functions(module: Any) -> dict[str, Any]:
    """Return the types of each function that has a body: what a call has to give and gets."""
    found = {}
    for one in module.body.operations:
        if one.operation.name == "func.func" and len(one.operation.regions[0].blocks):
            inputs, outputs = _types(one)
            found[_text(one, "sym_name")] = {
                "inputs": [_described(kind) for kind in inputs], "outputs": [_described(kind) for kind in outputs],
            }  # fmt: skip
    return found


def _described(kind: Any) -> dict[str, Any]:
    """Return a type as plain data: shape (None for a scalar), element, and its text."""
    from torch_mlir import ir

    for shaped in (ir.RankedTensorType, ir.MemRefType):
        if isinstance(kind, shaped):
            of = shaped(kind)
            sizes = [-1 if of.is_dynamic_dim(axis) else of.get_dim_size(axis) for axis in range(of.rank)]
            return {"shape": sizes, "element": str(of.element_type), "tensor": shaped is ir.RankedTensorType}
    return {"shape": None, "element": str(kind), "tensor": False}


def _ports(names: Sequence[str], types: Sequence[Any]) -> list[dict[str, Any]]:
    given = [*names, *("" for _ in types)]
    return [{"name": name, **_described(kind)} for name, kind in zip(given, types, strict=False)]


def _names(function: Any) -> tuple[list[str], list[str]]:
    """Return what inputs and outputs are called in the model."""
    from torch_mlir import ir

    if "tf.entry_function" not in _attributes(function):
        return [], []
    found = ir.DictAttr(function.attributes["tf.entry_function"])
    sides = [ir.StringAttr(found[side]).value if side in found else "" for side in ("inputs", "outputs")]
    return sides[0].split(","), sides[1].split(",")


def _types(function: Any) -> tuple[list[Any], list[Any]]:
    from torch_mlir import ir

    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(kind.inputs), list(kind.results)


def _operations(function: Any) -> list[tuple[str, Any]]:
    from torch_mlir import ir

    found: list[tuple[str, Any]] = []

    def note(operation: Any) -> Any:
        found.append((operation.name, operation))
        return ir.WalkResult.ADVANCE

    function.operation.walk(note)
    return found


def _attributes(operation: Any) -> list[str]:
    return [str(one) for one in operation.attributes]


def _text(operation: Any, name: str) -> str:
    from torch_mlir import ir

    return str(ir.StringAttr(operation.attributes[name]).value)


def _texts(operation: Any, name: str) -> list[str]:
    from torch_mlir import ir

    if name not in _attributes(operation):
        return []
    return [str(ir.StringAttr(one).value) for one in ir.ArrayAttr(operation.attributes[name])]
