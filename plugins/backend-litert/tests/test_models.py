"""Opening models: verified, bounded in size, with their signatures; everything else refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import litert_models
from stowplan.errors import ModelError
from stowplan_backend_litert import CompiledModel, Environment, signatures
from stowplan_backend_litert.errors import CompileFailedError, LiteRtError, ModelRefusedError, OptionError

Write = Callable[[bytes], Path]


def refusal(env: Environment, source: object, **options: object) -> LiteRtError:
    with pytest.raises(LiteRtError) as caught:
        CompiledModel(env, source, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


def test_signatures_are_read_without_compiling(env: Environment, write: Write) -> None:
    assert signatures(env, write(litert_models.two_signatures())) == ["add", "mul"]


def test_a_model_without_signatures_has_the_default_one(env: Environment) -> None:
    assert len(signatures(env, litert_models.cast("int16", "int32"))) == 1


def test_signatures_can_be_read_of_a_model_that_does_not_compile(env: Environment) -> None:
    assert len(signatures(env, litert_models.custom())) == 1


@pytest.mark.parametrize("wanted", ["mul", 1])
def test_a_signature_is_chosen_by_key_or_index(env: Environment, wanted: str | int) -> None:
    with CompiledModel(env, litert_models.two_signatures(), signature=wanted) as model:
        assert (model.signature, model.signatures()) == ("mul", ["add", "mul"])
        assert [port.name for port in (*model.inputs, *model.outputs)] == ["x", "y", "result"]


def test_only_the_chosen_signature_can_be_compiled(env: Environment) -> None:
    with CompiledModel(env, litert_models.two_signatures(), signature="mul", only_this_signature=True) as model:
        assert len(model.run([bytes(16), bytes(16)])) == 1


@pytest.mark.parametrize("wanted", ["sub", 2, -1, ""])
def test_a_signature_that_is_none_is_refused_with_those_there_are(env: Environment, wanted: str | int) -> None:
    error = refusal(env, litert_models.two_signatures(), signature=wanted)
    assert isinstance(error, OptionError)
    assert str(error).endswith("it has 0 add, 1 mul")


def test_a_model_larger_than_allowed_is_refused(env: Environment, digits: Path) -> None:
    size = digits.stat().st_size
    assert "max_model_bytes allows" in str(refusal(env, digits, max_model_bytes=size - 1))
    CompiledModel(env, digits, max_model_bytes=size).close()


def test_files_that_are_no_models_are_refused(env: Environment, tmp_path: Path, write: Write, digits: Path) -> None:
    data = digits.read_bytes()
    cases = {
        "no such file": tmp_path / "absent.tflite",
        "is a directory": tmp_path,
        "the file is empty": write(b""),
        "is no TFLite model": b"text that is no model at all",
        "LiteRT refuses it": data[:-1],
        "invalid flatbuffer": data[: len(data) // 2],
    }
    for words, source in cases.items():
        error = refusal(env, source)
        assert isinstance(error, ModelRefusedError) and isinstance(error, ModelError), words
        assert words in str(error)


def test_an_operator_that_nobody_knows_is_refused_with_litert_s_text(env: Environment) -> None:
    error = refusal(env, litert_models.custom())
    assert isinstance(error, CompileFailedError)
    assert "unresolved custom op: MyOperator" in str(error)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accelerators": ("tpu",)}, "accelerators: no 'tpu'; known are cpu, gpu, npu"),
        ({"accelerators": ()}, "accelerators is empty"),
        ({"accelerators": "cpu"}, "give a sequence"),
        ({"precision": "int4"}, "precision: no 'int4'; known are default, fp16, fp32, fp16_with_fp32_accum"),
        ({"npu_device": "tpu"}, "npu_device: no 'tpu'"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": True}, "threads is True"),
        ({"max_model_bytes": -1}, "max_model_bytes is -1"),
        ({"signature": 1.5}, "signature is 1.5: give its key or its index"),
        ({"colour": "red"}, "no option colour; options are accelerators, precision"),
    ],
)
def test_options_that_mean_nothing_are_usage_errors(env: Environment, digits: Path, options: dict, words: str) -> None:
    error = refusal(env, digits, **options)
    assert (error.exit_code, words in str(error)) == (2, True)
