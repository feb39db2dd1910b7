"""Imports a built model the way the pipeline does, and finds the models that lie beside the checkout."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.operators import KINDS
from stowplan_importer_tflite import TfliteImporter

MODELS = Path(__file__).parents[3] / "shared" / "models"


def model_of(data: bytes) -> Model:
    return Model(path=Path("model.tflite"), data=data, digest=hashlib.sha256(data).hexdigest())


def import_bytes(data: bytes, **input_shapes: tuple[int, ...]) -> Graph:
    """Import a model and check that each operator carries exactly the attributes its kind defines."""
    graph = TfliteImporter().load(model_of(data), input_shapes)
    for operator in graph.operators:
        assert set(operator.attributes) == set(KINDS[operator.kind].attributes), operator
    return graph


def shared_models(pattern: str = "**/*.tflite") -> list[Path]:
    """Return the models beside the checkout. Skips the test where there are none."""
    if not MODELS.is_dir():
        pytest.skip("needs the models in ../shared/models")
    return sorted(MODELS.glob(pattern))
