"""What the verifier leaves open: what LiteRT would crash or drown on is refused, and sound models are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import litert_models
from stowplan_backend_litert import CompiledModel, Environment
from stowplan_backend_litert.errors import ModelRefusedError
from stowplan_backend_litert.vetting import vet
from tflite_builder import ModelBuilder

MODELS = Path(__file__).parents[4] / "shared" / "models"


def sliding(kind: str, height: int, *, stride: int = 1, batch: int = 1, filter_height: int = 3) -> bytes:
    """A convolution or pool over rows, whose output is stated as 8 rows high."""
    model = ModelBuilder()
    x = model.input("x", (batch, height, 8, 1), "float32")
    y = model.tensor("y", (1, 8, 8, 1), "float32")
    common = dict(padding="SAME", stride_h=stride, stride_w=1)
    if kind.endswith("POOL_2D"):
        model.operator(kind, [x], [y], filter_height=filter_height, filter_width=1, **common)
    else:
        w = model.constant("w", np.zeros((1, filter_height, 1, 1), np.float32))
        model.operator(kind, [x, w, model.constant("b", np.zeros(1, np.float32))], [y], **common)
    return model.outputs(y).build()


def dense(rows: int, stated: int = 1, *, is_open: bool = False) -> bytes:
    model = ModelBuilder()
    x = model.input("x", (rows, 16), "float32")
    w = model.constant("w", np.zeros((4, 16), np.float32))
    y = model.tensor("y", (stated, 4), "float32", shape_signature=(-1, 4) if is_open else None)
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    return model.outputs(y).build()


KINDS = ["CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_that_cannot_shrink_to_the_stated_output_is_refused(kind: str) -> None:
    for data in (sliding(kind, 16_777_224), sliding(kind, 8, batch=1 << 20), sliding(kind, 40)):
        with pytest.raises(ModelRefusedError, match="operator 0: its input is larger than its output allows"):
            vet("m", data)


@pytest.mark.parametrize("kind", KINDS)
def test_strides_and_windows_may_make_it_smaller(kind: str) -> None:
    for data in (
        sliding(kind, 8),
        sliding(kind, 16, stride=2),
        sliding(kind, 40, stride=5),
        sliding(kind, 15, filter_height=8),
    ):
        vet("m", data)


def test_rows_of_a_fully_connected_layer_must_agree_unless_they_are_open() -> None:
    vet("m", dense(3, 3))
    vet("m", dense(3, 1, is_open=True))
    with pytest.raises(ModelRefusedError, match="operator 0: its input is larger"):
        vet("m", dense(1 << 20))


def test_a_tensor_too_large_is_refused() -> None:
    model = ModelBuilder()
    x, y = (model.tensor(name, (1 << 28, 8), "float32") for name in ("x", "y"))
    model.current.inputs = [x]
    model.operator("RELU", [x], [y])
    with pytest.raises(ModelRefusedError, match="tensor 0 of 8589934592 bytes is more than LiteRT can be trusted with"):
        vet("m", model.outputs(y).build())


def test_an_input_with_two_shapes_is_refused() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4_000_000, 1), "float32", shape_signature=(-1, 10, 1))
    y = model.tensor("y", (1, 10, 1), "float32")
    model.operator("RELU", [x], [y])
    with pytest.raises(ModelRefusedError, match="input tensor 0 has two shapes"):
        vet("m", model.outputs(y).build())


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: setattr(m.signatureDefs[0].inputs[0], "name", None), "signature 0 has an argument without a name"),
        (lambda m: setattr(m.signatureDefs[0], "signatureKey", None), "signature 0 has no key"),
        (
            lambda m: setattr(m.signatureDefs[0].outputs[0], "tensorIndex", 0),
            "the outputs of signature 0 are not those",
        ),
        (lambda m: setattr(m.signatureDefs[0].inputs[0], "tensorIndex", 1), "the inputs of signature 0 are not those"),
        (lambda m: setattr(m.signatureDefs[0], "subgraphIndex", 7), "LiteRT refuses it"),
        (lambda m: setattr(m.signatureDefs[0].outputs[0], "tensorIndex", 99), "LiteRT refuses it"),
    ],
)
def test_a_signature_that_is_incomplete_is_refused(env: Environment, spoil: Callable, words: str) -> None:
    model = ModelBuilder()
    x, y = model.input("x", (4,), "float32"), model.tensor("y", (4,), "float32")
    model.operator("RELU", [x], [y])
    model.outputs(y).signature("run", {"x": x}, {"y": y})
    spoil(model.model)
    with pytest.raises(ModelRefusedError, match=words):
        CompiledModel(env, model.build())


def test_a_file_that_is_cut_where_nobody_verified_it_is_refused() -> None:
    with pytest.raises(ModelRefusedError, match="the file is damaged"):
        vet("m", litert_models.custom()[:60])


def test_every_sound_model_of_many_passes() -> None:
    if not MODELS.is_dir():
        pytest.skip("needs ../shared/models")
    found = [path for path in MODELS.rglob("*.tflite") if path.read_bytes()[4:8] == b"TFL3"]
    assert len(found) > 100
    refused = set()
    for path in found:
        try:
            vet(path.name, path.read_bytes())
        except ModelRefusedError as err:
            assert "of signature 0 are not those of its subgraph" in str(err)
            refused.add(path.stem)
    # Converters left signatures in these that name other tensors; LiteRT aborts the process on them.
    assert refused == {"yunet2021_fullint", "yunet2021_int8_floatio", "cfu_hps_2022_89ops"}
