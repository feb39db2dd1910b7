"""Reads the format: everything is checked, because model files come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod

from stowplan.errors import ModelError, UnsupportedError, UsageError
from stowplan.flow.graph import Graph, Operator, Signature, Tensor
from stowplan.flow.model import Model
from stowplan.plugins.kinds import Description, OperatorFact

LAYERS = ("relu", "tanh", "logistic", "abs", "neg", "square", "exp")
INPUT = "input"
MOST_ELEMENTS = 1 << 24
MOST_LAYERS = 1000


def load(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph. Raises `ModelError`, `UnsupportedError`, or `UsageError` for shapes of unknown inputs."""
    shape, layers = parse(model)
    for name, asked in input_shapes.items():
        if name != INPUT:
            raise UsageError(f"{model.name}: has no input {name!r}; its input is {INPUT}")
        if asked != shape:
            raise UsageError(f"{model.name}: {INPUT} is {shape} and cannot become {asked}")
    if reasons := unsupported(layers):
        raise UnsupportedError(f"{model.name}: cannot be converted: {'; '.join(reasons)}", reasons)
    last = len(layers)
    return Graph(
        name=model.path.stem,
        tensors=tuple(Tensor(name=name, shape=shape, dtype="float32") for name in names(layers)),
        operators=tuple(
            Operator(kind=kind, inputs=(i,), outputs=(i + 1,), source=f"layer {i} ({kind})")
            for i, kind in enumerate(layers)
        ),
        inputs=(0,),
        outputs=(last,),
        constants={},
        signatures=(Signature(key="main", inputs=((INPUT, 0),), outputs=(("output", last),)),),
    )


def describe(model: Model) -> Description:
    """Return what the file holds, layers that do not convert included."""
    shape, layers = parse(model)
    return Description(
        format="acme",
        version="1",
        inputs=((INPUT, shape, "float32"),),
        outputs=((names(layers)[-1], shape, "float32"),),
        operators=tuple(
            OperatorFact(
                index=i,
                kind=kind,
                name=f"layer {i}",
                outputs=((shape, "float32"),),
                reason="" if kind in LAYERS else "unknown",
            )
            for i, kind in enumerate(layers)
        ),
        subgraph_count=1,
        weight_bytes=0,
        reasons=unsupported(layers),
    )


def parse(model: Model) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the shape of the input and the layers. Raises `ModelError` that begins with the file's name."""
    try:
        document = json.loads(model.data)
    except (ValueError, RecursionError) as err:
        raise ModelError(f"{model.name}: is no JSON ({' '.join(str(err).split())}); export it again") from err
    if not isinstance(document, dict) or document.get("format") != "acme":
        raise ModelError(f'{model.name}: does not say "format": "acme"; is it another kind of file?')
    shape, layers = document.get("input"), document.get("layers")
    if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in shape):
        raise ModelError(f'{model.name}: "input" has to be a list of sizes such as [1, 8, 8, 2]')
    if len(shape) > 4 or prod(shape) > MOST_ELEMENTS:
        raise ModelError(f'{model.name}: "input" has more than 4 sizes or {MOST_ELEMENTS} elements')
    if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
        raise ModelError(f'{model.name}: "layers" has to be a list of names')
    if not 0 < len(layers) <= MOST_LAYERS:
        raise ModelError(f"{model.name}: has {len(layers)} layers; 1 to {MOST_LAYERS} are possible")
    return tuple(shape), tuple(layers)


def unsupported(layers: tuple[str, ...]) -> tuple[str, ...]:
    """Return why layers cannot be converted, all of them at once."""
    known = ", ".join(LAYERS)
    return tuple(f"layer {i} is {kind!r:.60}, known are {known}" for i, kind in enumerate(layers) if kind not in LAYERS)


def names(layers: tuple[str, ...]) -> list[str]:
    return [INPUT, *(f"layer{i}" for i in range(len(layers) - 1)), "output"]
