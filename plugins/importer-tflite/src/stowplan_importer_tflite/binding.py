"""The shapes of a model's inputs: free dimensions become 1, or what the user asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.errors import UsageError
from stowplan.nouns import NamedTuple
from stowplan_importer_tflite.parse import FileModel, FileTensor, shown, spelled

MAX_DIMENSION = 2**31 - 1


class Binding(NamedTuple):
    """Shapes by tensor index, and a note for each dimension that the file leaves open.

    `advice` is for refusals: how to set dimensions behind the first that became 1, where networks seldom take a 1.
    """

    shapes: Mapping[int, tuple[int, ...]]
    notes: tuple[str, ...]
    advice: str = ""


def bind(model_name: str, file: FileModel, names: Sequence[str], asked: Mapping[str, tuple[int, ...]]) -> Binding:
    """Return the inputs' shapes. Raises `UsageError` for a name that is no input or a shape of another rank."""
    main = file.subgraphs[0]
    by_name = _input_names(file, names)
    chosen: dict[int, tuple[int, ...]] = {}
    for name, shape in asked.items():
        if name not in by_name:
            known = ", ".join(shown(names[tensor]) for tensor in main.inputs)
            raise UsageError(f"{model_name}: no input is called {shown(name)}; there is {known or 'none at all'}")
        chosen[by_name[name]] = _checked(model_name, name, main.tensors[by_name[name]], shape)
    shapes: dict[int, tuple[int, ...]] = {}
    notes: list[str] = []
    for tensor in main.inputs:
        shapes[tensor] = chosen.get(tensor, main.tensors[tensor].bound)
        notes += _notes(names[tensor], main.tensors[tensor], chosen.get(tensor))
    guessed = [t for t in main.inputs if t not in chosen and any(main.tensors[t].free[1:])]
    advice = "".join(_advice(names[tensor], main.tensors[tensor]) for tensor in guessed[:1])
    return Binding(shapes=shapes, notes=tuple(notes), advice=advice)


def _advice(name: str, tensor: FileTensor) -> str:
    wanted = spelled(stated_shape(tensor))
    return f" Free dimensions became 1; give their sizes with --input-shape {name[:80]}:{wanted}."


def stated_shape(tensor: FileTensor) -> tuple[int, ...]:
    """Return the file's shape with -1 for free dimensions."""
    return tuple(-1 if free else size for size, free in zip(tensor.shape, tensor.free, strict=True))


def _input_names(file: FileModel, names: Sequence[str]) -> Mapping[str, int]:
    """Map the names users know to tensors: of the tensors first, then a signature's where they mean one tensor only."""
    main = file.subgraphs[0]
    found: dict[str, int] = {}
    for signature in file.signatures:
        if signature.subgraph == 0:
            for name, tensor in signature.inputs:
                if tensor not in main.inputs:
                    continue
                found[name] = tensor if found.get(name, tensor) == tensor else -1
    found = {name: tensor for name, tensor in found.items() if tensor >= 0}
    return found | {names[tensor]: tensor for tensor in main.inputs}


def _checked(model_name: str, name: str, tensor: FileTensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    where = f"{model_name}: input {shown(name)}"
    if len(shape) != len(tensor.shape):
        stated = spelled(stated_shape(tensor))
        raise UsageError(
            f"{where}: {spelled(shape)} has {len(shape)} dimensions, the model's {stated} {len(tensor.shape)}"
        )
    if not all(1 <= size <= MAX_DIMENSION for size in shape):
        raise UsageError(f"{where}: {'x'.join(map(str, shape))} has a dimension below 1 or far too large")
    return tuple(shape)


def _notes(name: str, tensor: FileTensor, asked: tuple[int, ...] | None) -> list[str]:
    if asked is None:
        return [f"input {shown(name)}: free dimension {i} bound to 1" for i, free in enumerate(tensor.free) if free]
    stated = stated_shape(tensor)
    return [f"input {shown(name)}: {spelled(stated)} set to {spelled(asked)}"] if stated != asked else []
