"""Other runtimes that run TFLite models, for `stowplan verify`: what is installed, opened when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stowplan.errors import RuntimeFailure
from stowplan.flow.model import Model
from stowplan_importer_tflite.leftovers import cleared
from stowplan_importer_tflite.parse import FileSubgraph, parse

Run = Callable[[Sequence[bytes]], list[bytes]]
ARENA_BYTES = (8 << 20, 64 << 20, 512 << 20)
"""TFLite Micro cannot say how much it needs; a model is tried with each of these."""


def open_micro(model: bytes) -> Run:
    """Load a model into TFLite Micro. Raises `ImportError` without the package, `RuntimeFailure` when it refuses."""
    import numpy as np  # comes with the package
    from tflite_micro.python.tflite_micro import runtime

    main = _main(model)
    interpreter: Any = None
    for size in ARENA_BYTES:
        with refusal("tflite-micro", last=size == ARENA_BYTES[-1]):
            interpreter = runtime.Interpreter.from_bytes(model, arena_size=size)
            break

    def run(inputs: Sequence[bytes]) -> list[bytes]:
        for index, data in enumerate(inputs):
            detail = interpreter.get_input_details(index)
            array = np.frombuffer(data, detail["dtype"]).reshape(detail["shape"])
            interpreter.set_input(array, index)
        interpreter.invoke()
        count = range(len(main.outputs))
        return _outputs(main, [np.ascontiguousarray(interpreter.get_output(index)).tobytes() for index in count])

    return run


def _main(model: bytes) -> FileSubgraph:
    return parse(Model(path=Path("model"), data=model, digest="")).subgraphs[0]


def _outputs(main: FileSubgraph, found: list[bytes]) -> list[bytes]:
    """Return a run's outputs without what it left unwritten."""
    known = cleared(main, dict(zip(main.outputs, found, strict=True)))
    return [known[tensor] for tensor in main.outputs]


def open_reference(model: bytes) -> Run:
    """Load a model into LiteRT's reference kernels. Raises as `open_micro` does."""
    import numpy as np
    from ai_edge_litert import interpreter as litert

    main = _main(model)
    with refusal("ai-edge-litert", last=True):
        interpreter = litert.Interpreter(
            model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF, num_threads=1
        )
        interpreter.allocate_tensors()

    def run(inputs: Sequence[bytes]) -> list[bytes]:
        for detail, data in zip(interpreter.get_input_details(), inputs, strict=True):
            array = np.frombuffer(data, detail["dtype"]).reshape(detail["shape"])
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        found = [np.array(interpreter.get_tensor(d["index"])).tobytes() for d in interpreter.get_output_details()]
        return _outputs(main, found)

    return run


@contextmanager
def refusal(name: str, last: bool) -> Iterator[None]:
    """Turn what a runtime raises into a `RuntimeFailure` if this was the `last` try; else go on."""
    try:
        yield
    except (RuntimeError, ValueError) as err:
        if last:
            raise RuntimeFailure(f"{name} does not run it: {str(err).splitlines()[0] if str(err) else err!r}") from err


ORACLES: tuple[tuple[str, Callable[[bytes], Run]], ...] = (
    ("tflite-micro", open_micro),
    ("ai-edge-litert", open_reference),
)
"""Package and opener, the nearest to our arithmetic first."""
