"""Reads models in the format acme for stowplan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.model import Model
    from stowplan.plugins.kinds import Description, Importer

STOWPLAN_CONTRACT = 1


class AcmeImporter:
    """Reads JSON such as `{"format": "acme", "input": [1, 8, 8, 2], "layers": ["relu", "tanh"]}`."""

    name: str = "acme"
    summary: str = "chains of float32 functions, written as JSON"
    suffixes: tuple[str, ...] = (".acme",)

    def sniff(self, data: bytes) -> bool:
        return data[:1] == b"{" and b'"acme"' in data[:100]

    def load(self, model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        from stowplan_importer_acme.read import load

        return load(model, input_shapes)

    def describe(self, model: Model) -> Description:
        from stowplan_importer_acme.read import describe

        return describe(model)


@hook
def stowplan_importers() -> Sequence[Importer]:
    return [AcmeImporter()]
