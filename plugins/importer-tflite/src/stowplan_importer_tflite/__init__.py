"""Offers the importer of TensorFlow Lite models; the reader is imported only when a model is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.model import Model
    from stowplan.plugins.kinds import Description, Importer


@dataclass(frozen=True)
class TfliteImporter:
    """Reads `.tflite` files: operators of convolutional networks in int8 (per tensor or per channel) and float32."""

    name: str = "tflite"
    summary: str = "TensorFlow Lite models, int8 and float32"
    suffixes: tuple[str, ...] = (".tflite", ".lite")

    def sniff(self, data: bytes) -> bool:
        return data[4:8] == b"TFL3"

    def load(self, model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        from stowplan_importer_tflite.load import load

        return load(model, input_shapes)

    def oracles(self) -> Sequence[tuple[str, Callable[[bytes], Callable[[Sequence[bytes]], list[bytes]]]]]:
        """Return other runtimes for these models: a package, and what opens a model in it."""
        from stowplan_importer_tflite.oracles import ORACLES

        return ORACLES

    def witnesses(self) -> Sequence[tuple[str, Callable[[Model], Callable[[Sequence[bytes]], Mapping[str, bytes]]]]]:
        """Return those that show all their tensors: a package, and what opens a model in it."""
        from stowplan_importer_tflite.witnesses import WITNESSES

        return WITNESSES

    def describe(self, model: Model) -> Description:
        from stowplan_importer_tflite.describe import describe

        return describe(model)


@hook
def stowplan_importers() -> Iterable[Importer]:
    return [TfliteImporter()]
