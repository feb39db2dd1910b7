"""The shapes of a model's inputs: free dimensions become 1, or what the user asks for."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.errors import UsageError
from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.parse import FileInput, FileModel, shown, spelled

MAX_DIMENSION = 2**31 - 1


class Binding(NamedTuple):
    """Shapes by input name, and a note for each dimension that the file leaves open.

    `advice` is for refusals: how to set dimensions behind the first that became 1, where networks seldom take a 1.
    """

    shapes: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...]
    advice: str = ""


def entries(file: FileModel) -> list[FileInput]:
    """Return the inputs that a user gives: old files list their constants as well."""
    return [declared for declared in file.graph.inputs if declared.name not in file.graph.constants]


def bind(model_name: str, file: FileModel, asked: Mapping[str, tuple[int, ...]]) -> Binding:
    """Return the inputs' shapes. One name for several dimensions is one size; a name that is asked for gives it."""
    declared = {value.name: value for value in entries(file)}
    named: dict[str, int] = {}
    for name, shape in asked.items():
        if name not in declared:
            known = ", ".join(shown(other) for other in declared)
            raise UsageError(f"{model_name}: no input is called {shown(name)}; there is {known or 'none at all'}")
        _check(model_name, declared[name], shape)
        named |= {d: n for d, n in zip(declared[name].dims, shape, strict=True) if isinstance(d, str) and d}
    shapes: dict[str, tuple[int, ...]] = {}
    notes: list[str] = []
    for value in declared.values():
        if value.name in asked:
            shapes[value.name] = tuple(asked[value.name])
            if tuple(value.dims) != shapes[value.name]:
                notes.append(f"input {shown(value.name)}: {spelled(value.dims)} set to {spelled(asked[value.name])}")
            continue
        shapes[value.name] = tuple(d if isinstance(d, int) else named.get(d, 1) for d in value.dims)
        for index, dimension in enumerate(value.dims):
            if isinstance(dimension, str):
                called = f" ({dimension[:40]})" if dimension else ""
                size = named.get(dimension, 1)
                notes.append(f"input {shown(value.name)}: free dimension {index}{called} bound to {size}")
    assumed = [value for value in declared.values() if _is_guessed(value, shapes[value.name], asked)]
    return Binding(shapes, tuple(notes), "".join(map(_advice, assumed[:1])))


def _is_guessed(value: FileInput, shape: tuple[int, ...], asked: Mapping[str, tuple[int, ...]]) -> bool:
    free = [isinstance(d, str) and n == 1 for d, n in zip(value.dims, shape, strict=True)]
    return value.name not in asked and any(free[1:])


def _advice(value: FileInput) -> str:
    wanted = "x".join(str(d)[:40] or "?" for d in value.dims)
    return f" Free dimensions became 1; give their sizes with --input-shape {value.name[:80]}:{wanted}."


def stated_shape(value: FileInput) -> tuple[int, ...]:
    """Return a declared shape with -1 for free dimensions."""
    return tuple(d if isinstance(d, int) else -1 for d in value.dims)


def _check(model_name: str, value: FileInput, shape: tuple[int, ...]) -> None:
    where = f"{model_name}: input {shown(value.name)}"
    if len(shape) != len(value.dims):
        stated = spelled(value.dims)
        raise UsageError(
            f"{where}: {spelled(shape)} has {len(shape)} dimensions, the model's {stated} {len(value.dims)}"
        )
    if not all(1 <= size <= MAX_DIMENSION for size in shape):
        raise UsageError(f"{where}: {'x'.join(map(str, shape))} has a dimension below 1 or far too large")
