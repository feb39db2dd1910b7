"""Plans on this machine beside LiteRT's XNNPACK with one thread: the time of one run, in turn, on the standard models.

Both are called from Python with the input in place already: `Interpreter.invoke` and the C runtime's `stow_invoke`.
Floats are added one after another here, whatever the rows are cut into, which XNNPACK does not promise; see README.md
of plugins/backend-c.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from measure import MODELS, arguments, show

HOST_MODELS = {
    "vww": "vww-person/mlperf_vww_int8.tflite",
    "kws": "kws/mlperf_kws_dscnn_int8.tflite",
    "resnet8": "image-cls/mlperf_resnet8_int8.tflite",
    "ad01": "anomaly/mlperf_ad01_int8.tflite",
    "strww": "wakeword/mlperf_streaming_ww_int8.tflite",
    "vww fp32": "vww-person/mlperf_vww_fp32.tflite",
    "resnet8 fp32": "image-cls/mlperf_resnet8_fp32.tflite",
    "ad01 fp32": "anomaly/mlperf_ad01_fp32.tflite",
}
GOALS = {"vww": 1.0, "kws": 1.0, "resnet8": 0.9, "ad01": 1.0}
"""Ratio of medians that a model is to stay below."""
Invoke = Callable[[], object]


def sample(shape: tuple[int, ...], dtype: Any) -> Any:
    random = np.random.default_rng(1234)
    if np.dtype(dtype) == np.float32:
        return random.random(shape, dtype=np.float32)
    return random.integers(-128, 128, shape).astype(dtype)


def litert(path: str) -> Invoke:
    from ai_edge_litert.interpreter import Interpreter

    model = Interpreter(path, num_threads=1)
    model.allocate_tensors()
    takes = model.get_input_details()[0]
    model.set_tensor(takes["index"], sample(tuple(takes["shape"]), takes["dtype"]))
    return lambda model=model: model.invoke()  # type: ignore[misc]


def stowplan(path: str) -> tuple[Invoke, str]:
    """Return what runs a model's plan with all the memory it likes, and which kernels that uses."""
    from pathlib import Path

    from stowplan.build.pipeline import CompileRequest, compile_model
    from stowplan_backend_c.host import HostCompiled

    compiled = HostCompiled(compile_model(CompileRequest(model_path=Path(path), prove=False)).data)
    port = compiled.inputs[0]
    x = sample(port.shape, "float32" if port.dtype == "float32" else port.dtype)
    compiled.run([x.tobytes()])
    invoke = compiled.invoker()
    return invoke, compiled.kernels


def seconds(invoke: Invoke) -> float:
    start = time.perf_counter()
    invoke()
    return time.perf_counter() - start


def compare(path: str, rounds: int) -> dict[str, object]:
    """Run both in turn and return medians and minima in microseconds, and the ratio of the medians."""
    theirs = litert(path)
    ours, kernels = stowplan(path)
    times: dict[str, list[float]] = {"litert": [], "stowplan": []}
    for number in range(rounds + 10):
        for name, invoke in (("litert", theirs), ("stowplan", ours)):
            invoke()  # each finds the caches as it leaves them itself, as in a loop of its own
            passed = seconds(invoke)
            if number >= 10:
                times[name].append(1e6 * passed)
    middle = {name: statistics.median(values) for name, values in times.items()}
    return dict(
        kernels=kernels,
        litert_us=round(middle["litert"], 2), litert_min_us=round(min(times["litert"]), 2),
        stowplan_us=round(middle["stowplan"], 2), stowplan_min_us=round(min(times["stowplan"]), 2),
        ratio=round(middle["stowplan"] / middle["litert"], 3),
    )  # fmt: skip


def measure(quick: bool) -> Mapping[str, dict[str, object]]:
    """Return the facts of every model."""
    return {name: compare(str(MODELS / path), 100 if quick else 500) for name, path in HOST_MODELS.items()}


def main() -> None:
    options = arguments(__doc__ or "")
    facts = measure(options.quick)
    rows = [
        (name, f["kernels"], f["litert_us"], f["litert_min_us"], f["stowplan_us"], f["stowplan_min_us"], f["ratio"],
         GOALS.get(name, "-"))
        for name, f in facts.items()
    ]  # fmt: skip
    headings = ("model", "kernels", "LiteRT us", "min", "stowplan us", "min", "ratio", "goal")
    show(options, headings, rows, dict(benchmark="runtime_host", rounds=100 if options.quick else 500, models=facts))


if __name__ == "__main__":
    main()
