"""Another runtime that runs ONNX models, for `stowplan verify`: onnxruntime, if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stowplan.errors import RuntimeFailure

Run = Callable[[Sequence[bytes]], list[bytes]]


def open_onnxruntime(model: bytes) -> Run:
    """Load a model into onnxruntime, without its optimizations. Raises `ImportError` or `RuntimeFailure`."""
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session: Any = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as err:  # its exceptions have no common base but this
        raise RuntimeFailure(f"onnxruntime does not run it: {str(err).splitlines()[0][:200]}") from err

    def run(inputs: Sequence[bytes]) -> list[bytes]:
        feeds = {}
        for declared, data in zip(session.get_inputs(), inputs, strict=True):
            array = np.frombuffer(data, _DTYPES[declared.type])
            free = [axis for axis, size in enumerate(declared.shape) if not isinstance(size, int)]
            shape = [1 if axis in free else size for axis, size in enumerate(declared.shape)]
            if free:  # the first one, a batch mostly, takes what was asked for
                shape[free[0]] = -1
            feeds[declared.name] = array.reshape(shape)
        try:
            return [np.ascontiguousarray(array).tobytes() for array in session.run(None, feeds)]
        except Exception as err:
            raise RuntimeFailure(f"onnxruntime does not run it: {str(err).splitlines()[0][:200]}") from err

    return run


_DTYPES = {
    "tensor(float)": "float32", "tensor(int8)": "int8", "tensor(uint8)": "uint8", "tensor(int16)": "int16",
    "tensor(uint16)": "uint16", "tensor(int32)": "int32", "tensor(uint32)": "uint32", "tensor(int64)": "int64",
    "tensor(uint64)": "uint64", "tensor(bool)": "bool",
}  # fmt: skip
ORACLES: tuple[tuple[str, Callable[[bytes], Run]], ...] = (("onnxruntime", open_onnxruntime),)
"""Package and opener."""
