"""Offers the importer of ONNX models; the reader, onnx and numpy are imported only when a model is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from pathlib import Path

    from stowplan.flow.graph import Graph
    from stowplan.flow.model import Model
    from stowplan.plugins.kinds import Description, Importer


@dataclass(frozen=True)
class OnnxImporter:
    """Reads `.onnx` files: float32, QDQ, QOperator and dynamic int8 networks."""

    name: str = "onnx"
    summary: str = "ONNX models, float32 and int8 (QDQ, QOperator, dynamic)"
    suffixes: tuple[str, ...] = (".onnx",)

    def sniff(self, data: bytes) -> bool:
        """The version of the format comes first in every file that a library wrote: field 1, a small number."""
        return len(data) > 2 and data[0] == 0x08 and 0 < data[1] < 0x40 and data[2] in (0x12, 0x1A, 0x3A, 0x42)

    def load(self, model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        from stowplan_importer_onnx.load import load

        return load(model, input_shapes)

    def external_files(self, model: Model) -> Sequence[Path]:
        """Return the files beside the model that hold its weights; those that it may not name are refused later."""
        from stowplan_importer_onnx.external import external_files

        return external_files(model)

    def oracles(self) -> Sequence[tuple[str, Callable[[bytes], Callable[[Sequence[bytes]], list[bytes]]]]]:
        """Return other runtimes for these models: a package, and what opens a model in it."""
        from stowplan_importer_onnx.oracles import ORACLES

        return ORACLES

    def exposed(self, model: Model) -> Model:
        """Return the model with what every node makes among its outputs: graphs keep only those in its order."""
        from stowplan_importer_onnx.witnesses import exposed

        return exposed(model)

    def witnesses(self) -> Sequence[tuple[str, Callable[[Model], Callable[[Sequence[bytes]], Mapping[str, bytes]]]]]:
        """Return those that show all their values: a package, and what opens a model in it."""
        from stowplan_importer_onnx.witnesses import WITNESSES

        return WITNESSES

    def describe(self, model: Model) -> Description:
        from stowplan_importer_onnx.describe import describe

        return describe(model)


@hook
def stowplan_importers() -> Iterable[Importer]:
    return [OnnxImporter()]
