"""Which of the models in ../shared/models compile, prove and give their oracle's answers; one process each.

    python tests/benchmarks/coverage.py [--json] [--quick] [--limit SECONDS] [--kind op] [NAME ...]

Each line: the verdict, the model, and the largest difference or the reason. `equal`: the oracle's bytes. `close`:
floats within 1e-4 of the largest output, integers of models with float parts or of FULLY_CONNECTED within one step.
`hybrid`: int8 weights with float activations, where runtimes disagree with each other: we are no further from the
nearest of LiteRT's three paths (reference, built-in, XNNPACK) than the nearest two of these are from each other, or
within a tenth of the largest output (each path quantizes activations on the fly, we multiply as stored). `differs`,
`failed` and `timeout` are faults; `refused` says why. Models that keep state are run several times in a row.
`alone`: it compiles and proves, but no runtime computes it here.
ONNX models (`--format onnx`) are judged by coverage_onnx.py, which says what its verdicts mean.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
MODELS = HERE.parents[3] / "shared" / "models"
SUPPORT = HERE.parents[1] / "support"
RUNS = 3
TOLERANCE = {"close": 1e-4, "hybrid": 0.1}
"""Of the largest output."""
ORACLES = {"tflite-micro": "tflm", "litert reference": "runs_ref"}
"""Which column of the manifest says whether it runs a model."""
NO_ORACLE = {
    "litert_static_w8_a16_quantized_q_einsum": "LiteRT leaves zeros where int16 meets constant int8; "
    "the kernels' tests have the product itself",
}
"""Models that a runtime runs without computing them."""
RIGHT = ("equal", "close", "hybrid", "steps")
QUICK = ("kws/mlperf_kws_dscnn_int8", "image-cls/mlperf_resnet8_int8", "misc/tflm_hello_world_fp32")


def main() -> int:
    arguments = _arguments()
    if arguments.one:
        print(json.dumps(_judge(Path(arguments.one), arguments.oracles.split(","))))
        return 0
    if not MODELS.is_dir():
        print("needs the models in ../shared/models")
        return 1
    rows = [_run(row, arguments) for row in _chosen(arguments)]
    counts = Counter(row["verdict"] for row in rows)
    if arguments.json:
        print(json.dumps({"models": rows, "counts": counts}))
    else:
        runnable = [row for row in rows if row["runnable"]]
        good = sum(row["verdict"] in RIGHT for row in runnable)
        print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
        print(f"of {len(runnable)} that some runtime runs, {good} right ({100 * good / max(1, len(runnable)):.0f} %)")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="parts of paths; all models if none")
    parser.add_argument("--kind", default="model,derived", help="kinds of the manifest, by commas")
    parser.add_argument("--format", default="tflite", help="formats of the manifest, by commas")
    parser.add_argument("--limit", type=float, default=180, help="seconds for each model")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="three models only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--oracles", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[dict[str, str]]:
    with (MODELS / "MANIFEST.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    names = arguments.names or (QUICK if arguments.quick else ())
    return [
        row
        for row in rows
        if row["kind"] in arguments.kind.split(",")
        and row["format"] in arguments.format.split(",")
        and (not names or any(name in row["path"] for name in names))
    ]


def _run(row: dict[str, str], arguments: argparse.Namespace) -> dict[str, Any]:
    # Some models crash a runtime, and this process with it: the manifest knows which.
    oracles = ",".join(name for name, column in ORACLES.items() if not row[column].startswith("crash"))
    command = [sys.executable, str(HERE), "--one", str(MODELS / row["path"]), "--oracles", oracles]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit)
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None
    except subprocess.TimeoutExpired:
        found = {"verdict": "timeout", "why": f"more than {arguments.limit:.0f} s"}
    if found is None:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        found = {"verdict": "failed", "why": lines[-1]}
    runs = "ok" in (row["runs_ref"], row["tflm"])
    result = {"path": row["path"], "runnable": runs, **found, "seconds": round(time.perf_counter() - start, 1)}
    if not arguments.json:
        print(f"{result['verdict']:8} {result['path']}  {result['seconds']} s  {result['why'][:300]}", flush=True)
    return result


def _judge(path: Path, names: list[str]) -> dict[str, Any]:
    """Compile, prove and compare one model."""
    sys.path.insert(0, str(SUPPORT))
    if path.suffix == ".onnx":
        from coverage_onnx import judge

        return judge(path)
    from stowplan.build.pipeline import CompileRequest, compile_model
    from stowplan.errors import InternalFault, StowplanError

    try:
        plan = compile_model(CompileRequest(model_path=path)).data
    except InternalFault as err:
        return {"verdict": "failed", "why": str(err)}
    except StowplanError as err:
        return {"verdict": "refused", "why": str(err)}
    if path.stem in NO_ORACLE:
        return {"verdict": "alone", "why": NO_ORACLE[path.stem]}
    oracles = _oracles(path.read_bytes(), names)
    if not oracles:
        return {"verdict": "alone", "why": "no runtime runs it here"}
    return _compare(path.read_bytes(), plan, oracles)


def _oracles(model: bytes, names: list[str]) -> list[tuple[str, Any]]:
    from oracles import open_litert_reference, open_tflm

    found = []
    openers = {"tflite-micro": open_tflm, "litert reference": open_litert_reference}
    for name, opener in ((name, openers[name]) for name in names):
        try:
            found.append((name, opener(model)))
        except (RuntimeError, ValueError):
            continue
    return found


def _compare(model: bytes, plan: bytes, oracles: list[tuple[str, Any]]) -> dict[str, Any]:
    """Judge by the oracle that is nearest: the two are known to differ from each other on some models."""
    import numpy as np

    from oracles import random_inputs
    from stowplan_backend_c import CBackend

    samples = [[_tame(array, seed) for array in random_inputs(model, seed)] for seed in range(RUNS)]
    mine = CBackend().compile(plan)
    answers = [mine.run([np.ascontiguousarray(array).tobytes() for array in inputs]) for inputs in samples]
    best: dict[str, Any] = {"verdict": "alone", "why": "no runtime gets through its run"}
    for name, run in oracles:
        try:
            truth = [run(inputs) for inputs in samples]
        except (RuntimeError, ValueError) as err:
            best.setdefault("failed_oracle", str(err)[:100])
            continue
        worst, largest = 0.0, 1e-9
        for got, want in zip(answers, truth, strict=True):
            for data, array in zip(got, want, strict=True):
                found = np.frombuffer(data, array.dtype).reshape(array.shape).astype(np.float64)
                exact = array.astype(np.float64)
                same = np.nan_to_num(found) - np.nan_to_num(exact)
                worst = max(worst, float(np.abs(same).max(initial=0)) if array.size else 0.0)
                largest = max(largest, float(np.abs(np.nan_to_num(exact)).max(initial=0)))
        integer = all(array.dtype.kind != "f" for want in truth for array in want)
        verdict = _verdict(worst, largest, integer, model)
        result = {"verdict": verdict, "why": f"{worst:.3g} of {largest:.3g} from {name}", "off": worst / largest}
        if best["verdict"] == "alone" or result["off"] < best["off"]:
            best = result
    if best["verdict"] == "differs" and _is_hybrid(model):
        return _among_paths(model, samples[0], answers[0])
    return best


def _among_paths(model: bytes, inputs: list[Any], answer: list[bytes]) -> dict[str, Any]:
    """Compare with each of LiteRT's paths, and these with each other."""
    import numpy as np
    from ai_edge_litert import interpreter as litert

    kinds = litert.OpResolverType
    paths = []
    for kind in (kinds.BUILTIN_REF, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES, kinds.AUTO):
        one = litert.Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
        one.allocate_tensors()
        for detail, array in zip(one.get_input_details(), inputs, strict=True):
            one.set_tensor(detail["index"], array)
        one.invoke()
        paths.append([np.array(one.get_tensor(detail["index"])) for detail in one.get_output_details()])
    mine = [np.frombuffer(data, a.dtype).reshape(a.shape) for data, a in zip(answer, paths[0], strict=True)]

    def apart(a: list[Any], b: list[Any]) -> float:
        return max(float(np.abs(x - y).max(initial=0)) for x, y in zip(a, b, strict=True))

    own = min(apart(mine, path) for path in paths)
    theirs = min(apart(paths[i], paths[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    verdict = "hybrid" if own <= theirs else "differs"
    return {"verdict": verdict, "why": f"{own:.3g} from the nearest path, these {theirs:.3g} apart", "off": own}


def _tame(array: Any, seed: int) -> Any:
    """Whole numbers of 32 bits and more count things: places in a table, positions in a text."""
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4:
        return array % (seed + 7)
    return array


def _verdict(worst: float, largest: float, integer: bool, model: bytes) -> str:
    if worst == 0:
        return "equal"
    if worst <= (1.0 if integer else TOLERANCE["close"] * largest):
        return "close"
    hybrid = _is_hybrid(model)
    return "hybrid" if hybrid and worst <= TOLERANCE["hybrid"] * largest else "differs"


def _is_hybrid(model: bytes) -> bool:
    """Say whether some operator multiplies float activations with integer weights."""
    from stowplan_importer_tflite.parse import parse
    from tflite_import import model_of

    main = parse(model_of(model)).subgraphs[0]
    return any(
        len(operator.inputs) > 1
        and main.tensors[operator.inputs[0]].dtype == "float32"
        and main.tensors[operator.inputs[1]].dtype in ("int8", "int4", "uint8")
        for operator in main.operators
        if operator.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    )


if __name__ == "__main__":
    sys.exit(main())
