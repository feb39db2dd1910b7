"""Numbers: every operator and many models beside TFLite Micro and LiteRT's reference kernels, which share no code."""

from __future__ import annotations

import ctypes
import math
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlir_sources import ADD, shared
from more_operator_models import COMPUTED, FLOATS, INT16, MOVES
from operator_models import MAKERS, Sampler
from oracles import open_litert_reference, open_tflm, random_inputs
from stowplan.errors import ModelError, RuntimeFailure, StowplanError, UnsupportedError, UsageError
from stowplan.nouns import replace
from stowplan_backend_mlir import Artifact, Context, compile, jit  # noqa: A004
from stowplan_backend_mlir.vetting import COMPARED
from tflite_builder import ModelBuilder

Array = NDArray[Any]
SEEDS = 6
NEVER: Mapping[str, str] = {
    "floor_mod": "leaves out the product",
    "transpose_conv": "TRANSPOSE_CONV (never compared",
    "abs-int8": "ABS of int8 (never compared", "less-int8": "LESS of int8 (never compared",
    "greater_equal-int8": "GREATER_EQUAL of int8 (never compared", "equal-int8": "EQUAL of int8 (never compared",
    "not_equal-int8": "NOT_EQUAL of int8 (never compared",
    "pad_v2-float32": "operand 2 is 0-D", "softmax-float32": "not in TOSA: SOFTMAX",
    "softmax-int8": "not in TOSA: SOFTMAX",
}  # fmt: skip
"""What our sampler makes of these is refused every time, and why."""
STEPS: Mapping[str, int] = {"resize_bilinear": 1, "mul-int16": 1, "conv_2d-int16": 1, "fully_connected-int16": 1}
"""Where results may differ from both by so many steps of the output: TOSA rounds these otherwise."""


def outputs(artifact: Artifact, *inputs: Sequence[Array], context: Context) -> list[list[Array]]:
    """Return what each set of inputs gives."""
    assert artifact.outputs is not None
    with jit(artifact, opt_level=0, context=context) as code:  # which is made soonest, and computes the same
        found = [code.run([np.ascontiguousarray(one).tobytes() for one in given]) for given in inputs]
    return [
        [np.frombuffer(data, port.dtype).reshape(port.shape) for data, port in zip(one, artifact.outputs, strict=True)]
        for one in found
    ]


def apart(found: Array, wanted: Array) -> float:
    """Return how far apart the farthest are: in steps for integers, for floats beside the largest of the result."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    with np.errstate(all="ignore"):
        same = (found == wanted) | ((found != found) & (wanted != wanted))
        far = np.where(same, 0.0, np.abs(found.astype(np.float64) - wanted.astype(np.float64)))
        if found.dtype.kind == "f":
            finite = np.abs(wanted.astype(np.float64))[np.isfinite(wanted)]
            far = far / max(float(finite.max(initial=0)), 1e-3)
    return float(np.nan_to_num(far, nan=math.inf).max(initial=0))


def wanted(model: bytes, inputs: Sequence[Array]) -> list[list[Array]]:
    """Return what those of the two runtimes say that run a model at all."""
    found = []
    for opened in (open_tflm, open_litert_reference):
        try:
            found.append(opened(model)(inputs))
        except (RuntimeError, ValueError):
            continue
    return found


CASES = [
    *((kind, dtype, make) for table in (MAKERS, MOVES, COMPUTED) for kind, make in table.items()
      for dtype in ("int8", "float32")),
    *((kind, "float32", make) for kind, make in FLOATS.items()),
    *((kind, "int16", make) for kind, make in INT16.items()),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype", "make"), CASES, ids=[f"{kind}-{dtype}" for kind, dtype, _ in CASES])
def test_every_operator_equals_one_of_two_other_runtimes_or_is_refused(
    kind: str, dtype: str, make: Any, context: Context
) -> None:
    refusal = NEVER.get(f"{kind}-{dtype}", NEVER.get(kind, ""))
    steps = STEPS.get(f"{kind}-{dtype}", STEPS.get(kind, 0))
    compared = 0
    for seed in range(SEEDS):
        model = make(Sampler(dtype, seed))
        try:
            artifact = compile(model, cache="off", context=context)
        except (UnsupportedError, ModelError) as err:
            assert refusal in str(err)
            continue
        inputs = random_inputs(model, seed)
        answers = wanted(model, inputs)
        (found,) = outputs(artifact, inputs, context=context)
        nearest = min((max(map(apart, found, answer)) for answer in answers), default=0.0)
        exact = all(one.dtype.kind != "f" for one in found)
        assert nearest <= (steps if exact else 2e-5), f"seed {seed}: {nearest} apart"
        compared += bool(answers)
    assert compared if not refusal else not compared


def test_every_trusted_operator_was_compared() -> None:
    """An entry of the list is in a model of one operator above, or in a model below."""
    named = {kind.rstrip("_").upper() for kind, _, _ in CASES}
    aliases = {"REDUCE": "SUM", "PAD_V2": "PADV2", "MEAN_OVER_THE_BATCH": "MEAN"}
    sampled = {aliases.get(name, name) for name in named} | {"QUANTIZE", "DEQUANTIZE"}
    others = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST", "REDUCE_ALL", "GATHER_ND", "GREATER", "LESS_EQUAL"}
    assert set(COMPARED) - sampled == others


MODELS = {
    # Bytes equal those of TFLite Micro, which rounds FULLY_CONNECTED twice as TOSA does.
    ("vww-person", "mlperf_vww_int8.tflite"): 0, ("kws", "mlperf_kws_dscnn_int8.tflite"): 0,
    ("image-cls", "mlperf_resnet8_int8.tflite"): 0, ("anomaly", "mlperf_ad01_int8.tflite"): 0,
    ("wakeword", "mlperf_streaming_ww_int8.tflite"): 0, ("kws", "tflm_micro_speech_int8.tflite"): 0,
    ("image-cls", "tinymaix_cifar10_q.tflite"): 0, ("image-cls", "tinymaix_mnist_arduino_q.tflite"): 0,
    ("vww-person", "tflm_person_detect_int8.tflite"): 0, ("image-cls", "mlonmcu_catdog_cnn_int8.tflite"): 1e-6,
    ("anomaly", "mlperf_toycar_fullint_floatio.tflite"): 1e-6, ("audio-denoise", "arm_rnnoise_int8.tflite"): 0,
    ("vww-person", "mlperf_vww_fp32.tflite"): 1e-5, ("anomaly", "mlperf_ad01_fp32.tflite"): 1e-5,
    ("image-cls", "mlperf_resnet8_fp32.tflite"): 1e-5, ("sensor", "tflm_magic_wand_fp32.tflite"): 1e-5,
    ("misc", "mlonmcu_qnn_model.tflite"): 0,
}  # fmt: skip
BESIDE_LITERT = {
    ("image-cls", "coral_mobilenet_v1_0.25_128_quant.tflite"): 1, ("image-cls", "cfu_mobilenetv2_160_035.tflite"): 0,
    ("face", "yunet2021_fullint.tflite"): 0, ("face", "yunet2021_fp32.tflite"): 1e-5,
    ("transformer", "litert_torchaudio_conformer.tflite"): 1e-5, ("op-tflite", "litert_simple_reduceall_op.tflite"): 0,
    ("op-tflite", "aeq_single_gather_nd_with_const_indices.tflite"): 0, ("op-tflite", "aeq_bmm.tflite"): 1e-6,
    ("derived", "vww_a16w8.tflite"): 0, ("derived", "resnet8_a16w8.tflite"): 0,
    ("op-tflite", "litert_topo_sort_interleaved.tflite"): 1e-6, ("gesture", "mp_custom_gesture_classifier.tflite"): 0,
    ("segment", "coral_deeplabv3_mnv2_dm05_quant.tflite"): 0,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "most"), MODELS.items(), ids=[name for _, name in MODELS])
def test_models_give_the_results_of_tflite_micro(parts: tuple[str, str], most: float, context: Context) -> None:
    same_as(open_tflm, shared(*parts), most, context)


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "most"), BESIDE_LITERT.items(), ids=[name for _, name in BESIDE_LITERT])
def test_models_give_the_results_of_litert(parts: tuple[str, str], most: float, context: Context) -> None:
    same_as(open_litert_reference, shared(*parts), most, context)


def same_as(opened: Any, path: Path, most: float, context: Context) -> None:
    model = path.read_bytes()
    artifact, other = compile(path, cache="off", context=context), opened(model)
    inputs = [random_inputs(model, seed) for seed in range(2)]
    for given, found in zip(inputs, outputs(artifact, *inputs, context=context), strict=True):
        assert max(map(apart, found, other(given))) <= most


def test_digits_give_the_bytes_of_both(digits: Path, context: Context) -> None:
    same_as(open_tflm, digits, 0, context)
    same_as(open_litert_reference, digits, 0, context)


def test_fully_connected_layers_round_twice_where_litert_rounds_once(context: Context) -> None:
    """3 at a scale of just under 1/2 is rounded up to 1.5 first, and then again; rounded once it stays below."""
    model = ModelBuilder()
    x = model.input("x", (1, 1), "int8", scale=1.0)
    w = model.constant("w", np.ones((1, 1), np.int8), scale=1.0)
    y = model.tensor("y", (1, 1), "int8", scale=float(np.nextafter(np.float32(2), np.float32(3))))
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    data = model.outputs(y).build()
    three = np.full((1, 1), 3, np.int8)
    ((found,),) = outputs(compile(data, cache="off", context=context), [three], context=context)
    assert (int(found[0, 0]), int(open_tflm(data)([three])[0][0, 0])) == (2, 2)
    assert int(open_litert_reference(data)([three])[0][0, 0]) == 1


@pytest.mark.parametrize(("low", "dtype", "point"), [(-128, "int8", -128), (-128, "int8", 3), (-32768, "int16", 0)])
def test_floats_outside_of_the_range_saturate(low: int, dtype: str, point: int, context: Context) -> None:
    """The converter's own cast wraps: 200 steps above the range would come out at its other end."""
    values = np.float32([[0, 1, -1, 1e3, -1e3, 1e9, -1e9, 33.2]])
    found, answer = quantized(values, dtype, point, context)
    assert (found == answer).all() and found.min() == low


def test_floats_between_two_steps_are_one_step_off_where_tosa_takes_the_even_one(context: Context) -> None:
    found, answer = quantized(np.float32([[0.25, -0.25, 0.75, -0.75, 1.25, -1.25, 33.25, 0]]), "int8", 0, context)
    assert found.tolist() == [[0, 0, 2, -2, 2, -2, 66, 0]]
    assert answer.tolist() == [[1, -1, 2, -2, 3, -3, 67, 0]]


def quantized(values: Array, dtype: str, point: int, context: Context) -> tuple[Array, Array]:
    """Quantize floats in steps of 0.5, here and in LiteRT."""
    model = ModelBuilder()
    x = model.input("x", (1, 8), "float32")
    y = model.tensor("y", (1, 8), dtype, scale=0.5, zero_point=point)
    model.operator("QUANTIZE", [x], [y])
    data = model.outputs(y).build()
    ((found,),) = outputs(compile(data, cache="off", context=context), [values], context=context)
    return found, open_litert_reference(data)([values])[0]


def softmax(scale: float) -> bytes:
    model = ModelBuilder()
    x = model.input("x", (1, 3), "int16", scale=scale)
    y = model.tensor("y", (1, 3), "int16", scale=1 / 32768)
    model.operator("SOFTMAX", [x], [y], beta=1.0)
    return model.outputs(y).build()


def test_a_softmax_in_int16_is_right_as_far_as_it_is_trusted(context: Context) -> None:
    """Inputs at both ends, whose difference is the most that the converter's table has."""
    data = softmax(10 / 65535)
    inputs = [np.int16([[-32768, middle, 32767]]) for middle in range(-32768, 32768, 4111)]
    found = outputs(compile(data, cache="off", context=context), *([one] for one in inputs), context=context)
    for one, (ours,) in zip(inputs, found, strict=True):
        assert apart(ours, open_litert_reference(data)([one])[0]) == 0
    with pytest.raises(UnsupportedError, match="SOFTMAX: in int16 the converter's table wraps where inputs can differ"):
        compile(softmax(1.6e-4), cache="off", context=context)


def test_an_index_outside_of_a_table_is_the_nearest_one_and_no_read_outside(context: Context) -> None:
    model, table = ModelBuilder(), np.arange(12, dtype=np.float32).reshape(4, 3)
    x, y = model.input("x", (5,), "int32"), model.tensor("y", (5, 3), "float32")
    model.operator("GATHER", [model.constant("table", table), x], [y])
    artifact = compile(model.outputs(y).build(), cache="off", context=context)
    ((found,),) = outputs(artifact, [np.int32([2, -1, 4, 2**31 - 1, -(2**31)])], context=context)
    assert (found == table[[2, 0, 3, 3, 0]]).all()


def test_free_dimensions_are_one_and_a_sliced_one_is_too(context: Context) -> None:
    path = shared("image-cls", "mlperf_resnet8_int8.tflite")
    artifact = compile(path, cache="off", context=context)
    assert artifact.inputs is not None and artifact.inputs[0].shape == (1, 32, 32, 3)


def test_float_models_with_integer_weights_compute_in_float(context: Context) -> None:
    """LiteRT would also round each input to 8 bits; here results are those of the weights as they are meant."""
    model, rng = ModelBuilder(), np.random.default_rng(5)
    x = model.input("x", (1, 32), "float32")
    weights = rng.integers(-127, 128, (4, 32)).astype(np.int8)
    w = model.constant("w", weights, scale=0.02)
    y = model.tensor("y", (1, 4), "float32")
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    artifact = compile(model.outputs(y).build(), cache="off", context=context)
    values = rng.standard_normal((1, 32)).astype(np.float32)
    ((found,),) = outputs(artifact, [values], context=context)
    assert np.allclose(found, values @ (weights.astype(np.float32) * np.float32(0.02)).T, rtol=1e-5)
    assert artifact.dequantized == 1


@pytest.mark.parametrize("name", ["int32", "bool", "cast"])
def test_integers_and_truth_values(name: str, context: Context) -> None:
    model, rng = ModelBuilder(), np.random.default_rng(7)
    if name == "int32":
        x, y = (model.input(one, (2, 3), "int32") for one in "xy")
        steps = [model.tensor(f"t{n}", (2, 3), "int32") for n in range(5)]
        for number, kind in enumerate(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")):
            model.operator(kind, [x, y] if number == 0 else [steps[number - 1], y], [steps[number]])
        inputs = [rng.integers(-1000, 1000, (2, 3)).astype(np.int32) for _ in "xy"]
        last = steps[-1]
    elif name == "bool":
        x, y = (model.input(one, (2, 3), "float32") for one in "xy")
        more, less = model.tensor("more", (2, 3), "bool"), model.tensor("less", (2, 3), "bool")
        last = model.tensor("last", (2, 3), "float32")
        model.operator("GREATER", [x, y], [more], options="GreaterOptions")
        model.operator("LESS_EQUAL", [x, y], [less], options="LessEqualOptions")
        other = model.tensor("other", (2, 3), "float32")
        model.operator("SELECT_V2", [less, x, y], [other], options="SelectV2Options")
        model.operator("SELECT_V2", [more, other, x], [last], options="SelectV2Options")
        inputs = [rng.integers(-2, 2, (2, 3)).astype(np.float32) for _ in "xy"]
    else:
        x = model.input("x", (2, 3), "int32")
        last, wide = model.tensor("last", (1, 6, 1), "float32"), model.tensor("wide", (2, 3), "float32")
        flat, narrow = model.tensor("flat", (1, 6), "float32"), model.tensor("narrow", (6,), "float32")
        model.operator("CAST", [x], [wide], options="CastOptions")
        model.operator("RESHAPE", [wide, model.constant("shape", np.int32([1, 6]))], [flat])
        model.operator("SQUEEZE", [flat], [narrow], squeeze_dims=[0])
        model.operator(
            "EXPAND_DIMS", [flat, model.constant("axis", np.int32([2]))], [last], options="ExpandDimsOptions"
        )
        inputs = [rng.integers(-(2**24), 2**24, (2, 3)).astype(np.int32)]
        last = (last, narrow)
    data = model.outputs(*(last if isinstance(last, tuple) else (last,))).build()
    (found,) = outputs(compile(data, cache="off", context=context), inputs, context=context)
    for one, answer in zip(found, open_litert_reference(data)(inputs), strict=True):
        assert apart(one, answer) == 0


def test_numbers_go_in_and_out_of_functions_that_are_no_models(context: Context) -> None:
    source = """module {
      func.func @add(%a: i32, %b: i32) -> i32 { %0 = arith.addi %a, %b : i32
        return %0 : i32 }
      func.func @mix(%x: tensor<3xf32>, %k: f32) -> tensor<3xf32> {
        %e = tensor.empty() : tensor<3xf32>
        %s = linalg.fill ins(%k : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
        %0 = tosa.add %x, %s : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        return %0 : tensor<3xf32> }
      func.func @nothing() { return } }"""
    with jit(compile(source, cache="off", context=context), context=context) as code:
        assert code.invoke("add", 20, 22) == 42
        found = code.invoke("mix", np.float32([1, 2, 3]).tobytes(), 0.5)
        assert np.frombuffer(found, np.float32).tolist() == [1.5, 2.5, 3.5]
        assert code.invoke("nothing") is None


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_every_level_of_optimization_gives_the_same_bytes(opt_level: int, digits: Path, context: Context) -> None:
    artifact = compile(digits, context=context)
    data = bytes(range(64))
    with jit(artifact, context=context) as usual, jit(artifact, opt_level=opt_level, context=context) as other:
        assert usual.run([data]) == other.run([data])


def test_events_of_a_run_come_with_durations(digits: Path, context: Context) -> None:
    heard: list[tuple[str, Mapping[str, Any]]] = []
    artifact = compile(digits, context=context)
    with jit(artifact, context=context, telemetry=lambda name, facts: heard.append((name, facts))) as code:
        code.run([bytes(64)])
    assert [name for name, _ in heard] == ["codegen", "load", "execution"]
    assert all(facts["key"] == artifact.key and facts["duration_ns"] >= 0 for _, facts in heard)
    assert heard[-1][1]["symbol"] == "model"


def test_functions_that_are_only_declared_come_from_shared_libraries(tmp_path: Path, context: Context) -> None:
    source = tmp_path / "thrice.c"
    source.write_text("int thrice(int x) { return 3 * x; }\n")
    library = tmp_path / "libthrice.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    text = """module { func.func private @thrice(i32) -> i32
      func.func @f(%x: i32) -> i32 { %0 = func.call @thrice(%x) : (i32) -> i32
        return %0 : i32 } }"""
    artifact = compile(text, cache="off", context=context)
    with jit(artifact, shared_libraries=[library], context=context) as code:
        assert code.invoke("f", 14) == 42
    with Context() as other, jit(artifact, context=other) as alone, pytest.raises(RuntimeFailure) as err:
        alone.invoke("f", 14)
    assert "function f cannot be linked; it calls thrice, and one of those is not here" in str(err.value)


def test_eight_threads_get_right_answers_from_one_model(digits: Path, context: Context) -> None:
    artifact = compile(digits, context=context)
    inputs = [np.full(64, 3 * n, np.int8).tobytes() for n in range(8)]
    wrong: list[int] = []
    with jit(artifact, context=context) as code:
        right = [code.run([one]) for one in inputs]

        def ask(number: int) -> None:
            wrong.extend(number for _ in range(50) if code.run([inputs[number]]) != right[number])

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong and len({one[0] for one in right}) > 1


def test_bytecode_that_is_not_what_was_compiled_is_refused(digits: Path, context: Context) -> None:
    artifact = compile(digits, context=context)
    damaged = replace(artifact, bytecode=artifact.bytecode[:-1] + b"\1")
    with pytest.raises(ModelError, match="its bytecode is not what was compiled: compile it again"):
        jit(damaged, context=context)


def test_wrong_calls_are_refused_in_one_line(digits: Path, context: Context) -> None:
    artifact = compile(digits, context=context)
    early = compile(ADD, cache="off", context=context, pipeline="canonicalize")
    other = compile("module { func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> } }",
                    cache="off", context=context, pipeline="one-shot-bufferize{bufferize-function-boundaries=true "
                    "function-boundary-type-conversion=identity-layout-map},finalize-memref-to-llvm,"
                    "convert-func-to-llvm,reconcile-unrealized-casts")  # fmt: skip
    free = compile("module { func.func @f(%x: memref<?xf32>) { return } }", cache="off", context=context,
                   pipeline="finalize-memref-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts")  # fmt: skip
    odd = compile("module { func.func @f(%x: i5) { return } }", cache="off", context=context)
    with jit(artifact, context=context) as code, jit(other, context=context) as wrong, \
            jit(free, context=context) as dynamic, jit(odd, context=context) as strange:  # fmt: skip
        for call, kind, message in (
            (lambda: code.run([]), RuntimeFailure, "model takes 1 inputs, not 0"),
            (lambda: code.run([bytes(63)]), RuntimeFailure, "model: input 0 has 63 bytes, it takes 64"),
            (lambda: code.run([bytes(64)], "main"), UsageError, "no function 'main'; it has model"),
            (lambda: wrong.run([bytes(8)], "f"), UsageError, "its pipeline passes results otherwise"),
            (lambda: dynamic.run([bytes(8)], "f"), UnsupportedError, "free dimensions cannot be passed"),
            (lambda: strange.invoke("f", 3), StowplanError, "i5"),
            (lambda: jit(early, context=context), UsageError, "it still has arith.addi, func.return, func.func"),
            (lambda: jit(artifact, opt_level=4, context=context), UsageError, "opt_level is 4: choose 0, 1, 2 or 3"),
            (lambda: jit(artifact, shared_libraries=["no.so"]), UsageError, "shared_libraries: no.so: no such file"),
        ):
            with pytest.raises(kind) as err:
                call()
            assert message in str(err.value) and "\n" not in str(err.value)
    with pytest.raises(RuntimeFailure, match="this model was closed"):
        code.run([bytes(64)])
    with jit(compile(ADD, context=context), context=context) as add:
        for bad, message in (("x", "input 1 is a str, it takes i32"), (1.5, "cannot be made of that")):
            with pytest.raises(RuntimeFailure, match=message):
                add.invoke("add", 1, bad)


def test_a_crash_costs_one_request_and_names_the_signal(digits: Path) -> None:
    text = """module { func.func private @abort()
      func.func @f() { func.call @abort() : () -> ()
        return } }"""
    with Context() as context:
        code = jit(compile(text, cache="off", context=context), context=context)
        with pytest.raises(RuntimeFailure, match=r"source: MLIR's process died \(SIGABRT\).*this request is lost"):
            code.invoke("f")
        with pytest.raises(RuntimeFailure, match=r"the process that held this model is gone; make a new one with jit"):
            code.invoke("f")
        code.close()
        assert compile(digits, cache="off", context=context).cache == "off"


def test_what_takes_too_long_is_ended() -> None:
    text = """module { func.func @f() { cf.br ^again
      ^again: cf.br ^again } }"""
    with Context(timeout=3) as context:
        artifact = compile(text, cache="off", context=context,
                           pipeline="convert-cf-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts")  # fmt: skip
        with pytest.raises(RuntimeFailure, match=r"MLIR did not end within 3 s; its process was ended"):
            jit(artifact, opt_level=0, context=context).invoke("f")
    with pytest.raises(RuntimeFailure, match="its context was closed"):
        compile(ADD, cache="off", context=context)


def test_a_model_without_a_context_has_a_process_of_its_own_that_ends_with_it(digits: Path) -> None:
    with jit(compile(digits)) as code:
        assert code.run([bytes(64)])
        pid = code._own.pid if code._own else None
    assert pid and not Path(f"/proc/{pid}").exists()
    assert ctypes.sizeof(ctypes.c_int) == 4
