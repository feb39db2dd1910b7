"""Other runtimes that show every tensor of a run, by the names of the graph: for `stowplan verify -v`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.model import Model
from stowplan_importer_tflite.leftovers import cleared
from stowplan_importer_tflite.load import unique_names, whole
from stowplan_importer_tflite.oracles import ARENA_BYTES, refusal
from stowplan_importer_tflite.parse import parse
from stowplan_importer_tflite.prepare import FLIP

Witness = Callable[[Sequence[bytes]], Mapping[str, bytes]]


def open_micro(model: Model) -> Witness:
    """Load a model into TFLite Micro, all tensors kept. Raises as the runtimes of `oracles.py` do."""
    import numpy as np  # comes with the package
    from tflite_micro.python.tflite_micro import runtime

    interpreter: Any = None
    for size in ARENA_BYTES:
        with refusal("tflite-micro", last=size == ARENA_BYTES[-1]):
            config = runtime.InterpreterConfig.kPreserveAllTensors
            interpreter = runtime.Interpreter.from_bytes(model.data, arena_size=size, intrepreter_config=config)
            break

    def run(inputs: Sequence[bytes]) -> Mapping[str, bytes]:
        for index, data in enumerate(inputs):
            detail = interpreter.get_input_details(index)
            interpreter.set_input(np.frombuffer(data, detail["dtype"]).reshape(detail["shape"]), index)
        interpreter.invoke()
        return dict(_named(model, lambda index: interpreter.GetTensor(index, 0)["tensor_data"]))

    return run


def open_reference(model: Model) -> Witness:
    """Load a model into LiteRT's reference kernels, all tensors kept. Raises as `open_micro` does."""
    import numpy as np
    from ai_edge_litert import interpreter as litert

    with refusal("ai-edge-litert", last=True):
        interpreter = litert.Interpreter(
            model_content=model.data,
            experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
            num_threads=1,
        )
        interpreter.allocate_tensors()

    def run(inputs: Sequence[bytes]) -> Mapping[str, bytes]:
        for detail, data in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], np.frombuffer(data, detail["dtype"]).reshape(detail["shape"]))
        interpreter.invoke()
        return dict(_named(model, interpreter.get_tensor))

    return run


def _named(model: Model, tensor: Callable[[int], Any]) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each tensor that an operator of the file makes, in int8 where it was legacy uint8."""
    import numpy as np

    file = parse(model)
    prepared = whole(file).subgraphs[0]
    names = unique_names(prepared)
    made: dict[int, bytes] = {}
    for index in dict.fromkeys(t for operator in file.subgraphs[0].operators for t in operator.outputs):
        if prepared.tensors[index].dtype not in SIZE_BYTES:
            continue  # a handle, of which TFLite Micro dies when it is asked for it
        try:
            array = np.ascontiguousarray(tensor(index))
        except (ValueError, RuntimeError):
            continue  # it has no memory of its own there
        flipped = array.dtype == np.uint8 and prepared.tensors[index].dtype == "int8"
        made[index] = array.tobytes().translate(FLIP) if flipped else array.tobytes()
    for index, data in cleared(file.subgraphs[0], made).items():
        yield names[index], data


WITNESSES: tuple[tuple[str, Callable[[Model], Witness]], ...] = (
    ("tflite-micro", open_micro),
    ("ai-edge-litert", open_reference),
)
"""Package and opener, the nearest to our arithmetic first."""
