"""LiteRT through our interface beside the wheel's own: time of a run on six models, and of a fresh process to a result.

A run is what a caller does: input in, model run, output out; XNNPACK, one thread. Below that, what a run costs more
through another process: `Isolated`, `Server`, and a `Client` of it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import MODELS, arguments, in_turn, process, show

SIX = {
    "vww int8": "vww-person/mlperf_vww_int8.tflite",
    "vww fp32": "vww-person/mlperf_vww_fp32.tflite",
    "kws int8": "kws/mlperf_kws_dscnn_int8.tflite",
    "resnet8 int8": "image-cls/mlperf_resnet8_int8.tflite",
    "ad01 int8": "anomaly/mlperf_ad01_int8.tflite",
    "strww int8": "wakeword/mlperf_streaming_ww_int8.tflite",
}
START = {
    "ours": "from stowplan_backend_litert import CompiledModel, Environment\n"
    "m = CompiledModel(Environment(), {path!r})\nm.run([bytes(n) for n in m.io_sizes()[0]])",
    "CompiledModel": "import numpy as np\nfrom ai_edge_litert.compiled_model import CompiledModel\n"
    "m = CompiledModel.from_file({path!r})\ni, o = m.create_input_buffers(0), m.create_output_buffers(0)\n"
    "i[0].write(np.zeros({size}, np.int8))\nm.run_by_index(0, i, o)\no[0].read({count}, np.int8)",
    "Interpreter": "import numpy as np\nfrom ai_edge_litert.interpreter import Interpreter\n"
    "m = Interpreter({path!r}, num_threads=1)\nm.allocate_tensors()\nd = m.get_input_details()[0]\n"
    "m.set_tensor(d['index'], np.zeros(d['shape'], d['dtype']))\nm.invoke()\n"
    "m.get_tensor(m.get_output_details()[0]['index'])",
}
DTYPES = {"int8": np.int8, "float32": np.float32}
Run = Callable[[], object]


def ours(path: str) -> tuple[Run, Any, Any]:
    """Return what runs a model through our interface, and its ports."""
    from stowplan_backend_litert import CompiledModel, Environment

    model = CompiledModel(Environment(), path)
    x = np.zeros(model.inputs[0].shape, DTYPES[model.inputs[0].dtype])
    return partial(model.run, [x]), model.inputs[0], model.outputs[0]


def interpreter(path: str) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    model = Interpreter(path, num_threads=1)
    model.allocate_tensors()
    takes, gives = model.get_input_details()[0], model.get_output_details()[0]["index"]
    x, place = np.zeros(takes["shape"], takes["dtype"]), takes["index"]

    def run() -> object:
        model.set_tensor(place, x)
        model.invoke()
        return model.get_tensor(gives)

    return run


def compiled_model(path: str, takes: Any, gives: Any) -> Run:
    from ai_edge_litert.compiled_model import CompiledModel, CpuOptions, HardwareAccelerator, Options

    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=CpuOptions(num_threads=1))
    model = CompiledModel.from_file(path, options=options)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    x, count, kind = np.zeros(takes.shape, DTYPES[takes.dtype]), int(np.prod(gives.shape)), DTYPES[gives.dtype]

    def run() -> object:
        inputs[0].write(x)
        model.run_by_index(0, inputs, outputs)
        return outputs[0].read(count, kind)

    return run


def medians(rivals: dict[str, Run], rounds: int, each: int) -> dict[str, float]:
    """Return each rival's time of a run in microseconds: the median over rounds of the rounds' medians."""
    seen: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            times = []
            for _ in range(each):
                start = time.perf_counter_ns()
                run()
                times.append(time.perf_counter_ns() - start)
            seen[name].append(statistics.median(times) / 1000)
    return {name: statistics.median(times) for name, times in seen.items()}


def through_processes(path: str, rounds: int, each: int) -> dict[str, float]:
    """Return how many microseconds a run takes longer than in this process, for each way of sharing the model."""
    from stowplan_backend_litert import Client, Isolated, Server

    run, takes, _ = ours(path)
    inputs = [bytes(takes.size_bytes)]
    with Isolated(path) as isolated, Server(path) as server, Client(server.listen()) as client:
        ways: dict[str, Run] = {"here": run}
        ways |= {type(way).__name__: partial(way.run, inputs) for way in (isolated, server, client)}
        found = medians(ways, rounds, each)
    return {name: us - found["here"] for name, us in found.items() if name != "here"}


def main() -> None:
    options = arguments(__doc__ or "")
    if not MODELS.is_dir():
        raise SystemExit(f"the models are not at {MODELS}")
    rounds, each = (5, 60) if options.quick else (21, 200)
    rows: list[list[object]] = []
    facts: dict[str, object] = {}
    ratios = []
    for name, file in SIX.items():
        path = str(MODELS / file)
        run, takes, gives = ours(path)
        rivals = {"ours": run, "CompiledModel": compiled_model(path, takes, gives), "Interpreter": interpreter(path)}
        for warm in rivals.values():
            for _ in range(20):
                warm()
        found = medians(rivals, rounds, each)
        ratio = found["ours"] / min(found["CompiledModel"], found["Interpreter"])
        ratios.append(ratio)
        to_compiled = found["ours"] / found["CompiledModel"]
        facts[name] = {**found, "ratio": ratio, "ratio_to_compiled_model": to_compiled}
        rows.append([name, *(f"{found[k]:.1f}" for k in rivals), f"{to_compiled:.2f}", f"{ratio:.2f}"])
    rows.append(["median", "", "", "", "", f"{statistics.median(ratios):.2f}"])
    facts["median_ratio"] = statistics.median(ratios)
    path = str(MODELS / SIX["vww int8"])
    codes = {k: [sys.executable, "-c", c.format(path=path, size=(1, 96, 96, 3), count=2)] for k, c in START.items()}
    costs = in_turn({k: partial(process, command) for k, command in codes.items()}, 5 if options.quick else 15)
    facts["start"] = {k: vars(cost) for k, cost in costs.items()}
    for kind in ("wall_ms", "cpu_ms"):
        ratio = getattr(costs["ours"], kind) / getattr(costs["CompiledModel"], kind)
        facts[f"start_{kind}_ratio"] = ratio
        times = (f"{getattr(costs[k], kind):.0f}" for k in START)
        rows.append([f"fresh process, {kind.replace('_', ' ')}", *times, f"{ratio:.2f}", ""])
    facts["through_another_process_us"] = extra = through_processes(path, rounds, each)
    rows += [[f"{name}, us more", f"{us:.0f}", "", "", "", ""] for name, us in extra.items()]
    show(options, ["us a run", "ours", "CompiledModel", "Interpreter", "x CompiledModel", "x faster"], rows, facts)


if __name__ == "__main__":
    main()
