"""Weights in files beside the model: only in the model's folder, only regular files, only the bytes that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from stowplan.errors import ModelError
from stowplan.flow.model import Model

MAX_BYTES = 2**31 - 1


class Folder:
    """The folder of one model; every name in it is checked after links are followed."""

    def __init__(self, model_path: Path, model_name: str) -> None:
        self.root = model_path.parent
        self.model_name = model_name

    def path(self, tensor: str, location: str) -> Path:
        """Return the file that a model names. Raises `ModelError` when it lies outside of the model's folder."""
        where = f"{self.model_name}: the data of constant {tensor[:80]!r} in {location[:200]!r}"
        if not location or PurePath(location).is_absolute() or "\0" in location or ".." in PurePath(location).parts:
            raise ModelError(f"{where}: only files in the model's own folder are read. Export it into one folder")
        try:
            found = (self.root / location).resolve()
            inside = found.is_relative_to(self.root.resolve())
            regular = found.is_file()
        except (OSError, RuntimeError) as err:
            raise ModelError(f"{where}: cannot be found: {err}") from err
        if not inside:
            raise ModelError(f"{where}: is a link to a place outside of the model's folder. Copy the file there")
        if not regular:
            raise ModelError(f"{where}: no such file. Keep it beside the model")
        return found

    def read(self, tensor: str, facts: Mapping[str, str], size: int) -> bytes:
        """Return the bytes of one constant; `facts` are what the model says about where they lie."""
        path = self.path(tensor, facts.get("location", ""))
        where = f"{self.model_name}: the data of constant {tensor[:80]!r} in {path.name}"
        offset, length = _number(where, facts, "offset", 0), _number(where, facts, "length", size)
        if length != size or size > MAX_BYTES:
            raise ModelError(f"{where}: has {length} bytes, its shape says {size}. Export the model again")
        try:
            if offset + size > path.stat().st_size:
                raise ModelError(f"{where}: ends before the {size} bytes at {offset}. Copy the file again")
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(size)
        except OSError as err:
            raise ModelError(f"{where}: cannot be read: {err.strerror or err}") from err
        if len(data) != size:
            raise ModelError(f"{where}: changed while it was read. Try again")
        return data


def external_files(model: Model) -> list[Path]:
    """Return the files that a model's constants lie in, each once; nothing for a damaged model."""
    import onnx

    from stowplan_importer_onnx.parse import text
    from stowplan_importer_onnx.wire import check_wire

    try:
        check_wire(model.name, model.data)
        proto = onnx.ModelProto.FromString(model.data)
    except Exception:
        return []
    folder = Folder(model.path, model.name)
    found: dict[Path, None] = {}
    for tensor in _tensors(proto.graph):
        locations = [text(entry.value) for entry in tensor.external_data if entry.key == "location"]
        for location in locations if tensor.data_location == onnx.TensorProto.EXTERNAL else ():
            try:
                found[folder.path(text(tensor.name), location)] = None
            except ModelError:
                continue  # refused when the model is loaded
    return list(found)


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)


def _number(where: str, facts: Mapping[str, str], key: str, default: int) -> int:
    text = facts.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(f"{where}: {key} {text[:40]!r} is no number. Export the model again")
    return int(text)
