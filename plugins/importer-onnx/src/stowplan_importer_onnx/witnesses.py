"""All values of a model among its outputs, in order and by name: for `stowplan verify -v`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import onnx

from stowplan.flow.model import Model
from stowplan_importer_onnx.oracles import open_onnxruntime
from stowplan_importer_onnx.parse import reading

Witness = Callable[[Sequence[bytes]], Mapping[str, bytes]]


def exposed(model: Model) -> Model:
    """Return the model with what every node makes among its outputs, in the order of the nodes."""
    with reading(model.name):
        proto = onnx.load_model_from_string(model.data)
    declared = {value.name: value for value in proto.graph.output}
    made = dict.fromkeys(name for node in proto.graph.node for name in node.output if name)
    names = [*made, *(name for name in declared if name not in made)]
    outputs = [declared.get(name) or onnx.ValueInfoProto(name=name) for name in names]
    del proto.graph.output[:]
    proto.graph.output.extend(outputs)
    data = proto.SerializeToString()
    return Model(path=model.path, data=data, digest=hashlib.sha256(data).hexdigest())


def open_exposed(model: Model) -> Witness:
    """Load a model that `exposed` made into onnxruntime. Raises as the runtimes of `oracles.py` do."""
    run = open_onnxruntime(model.data)
    names = [value.name for value in onnx.load_model_from_string(model.data).graph.output]

    def witness(inputs: Sequence[bytes]) -> Mapping[str, bytes]:
        return dict(zip(names, run(inputs), strict=True))

    return witness


WITNESSES: tuple[tuple[str, Callable[[Model], Witness]], ...] = (("onnxruntime", open_exposed),)
"""Package and opener."""
