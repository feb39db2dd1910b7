"""The range coder: round trips, its length against theory, damage, and the C decoder beside this one."""

from __future__ import annotations

import contextlib
import ctypes
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import UnsupportedError
from stowplan_compressor_range import RangeCompressor, stowplan_compressors

RANGE = RangeCompressor()
ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT.parent / "shared" / "models"


def c_decoded(packed: bytes, size_bytes: int) -> bytes | None:
    """Return what the C runtime makes of a block, None where it refuses; both sides lie between guards."""
    from stowplan_backend_c.binding import runtime
    from stowplan_backend_c.host import AlignedBytes

    source, target = AlignedBytes(len(packed), "source"), AlignedBytes(size_bytes, "target")
    ctypes.memmove(source.address, packed, len(packed))
    done = runtime().library.stow_range_decode(source.address, len(packed), target.address, size_bytes)
    source.check()
    target.check()
    return ctypes.string_at(target.address, size_bytes) if done else None


def ours(packed: bytes, size_bytes: int) -> bytes | None:
    with contextlib.suppress(ValueError):
        return RANGE.decompress(packed, size_bytes)
    return None


def weights(size_bytes: int, spread: float, seed: int) -> bytes:
    """Bytes as quantized weights are: a bell around zero."""
    rng = random.Random(seed)
    return bytes(max(-127, min(127, round(rng.gauss(0, spread)))) & 0xFF for _ in range(size_bytes))


def ideal_bits(data: bytes) -> float:
    """Return what eight decisions a byte cost by their odds, in exact arithmetic of fractions as floats."""
    odds: dict[str, int] = {}
    total = 0.0
    for byte in data:
        text = f"{byte:08b}"
        for at, bit in enumerate(text):
            zero = odds.get(text[:at], 2048)
            total -= math.log2((zero if bit == "0" else 4096 - zero) / 4096)
            odds[text[:at]] = zero + (4096 - zero) // 32 if bit == "0" else zero - zero // 32
    return total


@pytest.mark.parametrize("size_bytes", [*range(20), 255, 256, 65535])
def test_every_length_from_zero_round_trips_here_and_in_c(size_bytes: int) -> None:
    data = bytes((i * i) >> 7 & 0xFF for i in range(size_bytes))
    packed = RANGE.compress(data)
    assert RANGE.decompress(packed, size_bytes) == data == c_decoded(packed, size_bytes)


@given(st.binary(max_size=600) | st.lists(st.sampled_from([0, 1, 127, 128, 255]), max_size=3000).map(bytes))
@example(b"\xff" * 5000)
@example(b"\x00" * 5000)
@example(b"\xff" * 3000 + b"\x00" * 50 + b"\xff" * 300)
def test_any_bytes_round_trip_here_and_in_c(data: bytes) -> None:
    packed = RANGE.compress(data)
    assert RANGE.decompress(packed, len(data)) == data == c_decoded(packed, len(data))


@given(st.binary(max_size=400), st.integers(1, 60), st.integers(0, 1000))
@settings(max_examples=60)
def test_a_block_is_as_long_as_its_odds_say(data: bytes, spread: int, seed: int) -> None:
    whole = data + weights(500, spread, seed)
    ideal = ideal_bits(whole) / 8
    assert ideal <= len(RANGE.compress(whole)) + 0.01
    assert len(RANGE.compress(whole)) <= ideal * 1.005 + 5


def test_a_constant_run_shrinks_to_a_sixtieth() -> None:
    assert len(RANGE.compress(bytes(100_000))) < 100_000 / 60


@pytest.mark.parametrize("wrong", [-1, 0, 99, 101, 25000, 2**31, 2**63])
def test_another_length_than_was_packed_is_refused(wrong: int) -> None:
    packed = RANGE.compress(b"stow" * 25)
    with pytest.raises(ValueError, match="range-coded block"):
        RANGE.decompress(packed, wrong)
    if 0 <= wrong < 1 << 20:
        assert c_decoded(packed, wrong) is None


@given(st.binary(max_size=300), st.integers(0, 5000))
def test_garbage_is_refused_or_decoded_alike_here_and_in_c(data: bytes, size_bytes: int) -> None:
    assert ours(data, size_bytes) == c_decoded(data, size_bytes)


def test_mutated_blocks_are_refused_or_decoded_alike_and_most_are_refused() -> None:
    rng, passed = random.Random(4), 0
    for seed in range(1500):
        data = weights(rng.randrange(1, 300), rng.choice([1, 8, 40]), seed)
        packed = bytearray(RANGE.compress(data))
        packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        found = ours(bytes(packed), len(data))
        assert found == c_decoded(bytes(packed), len(data))
        passed += found is not None
    assert passed < 15


@given(st.binary(min_size=64, max_size=64), st.data())
def test_a_truncated_block_is_refused(data: bytes, draw: st.DataObject) -> None:
    packed = RANGE.compress(data)
    cut = packed[: draw.draw(st.integers(0, len(packed) - 1))]
    assert ours(cut, len(data)) is None and c_decoded(cut, len(data)) is None


@pytest.mark.slow
@pytest.mark.parametrize("model", ["vww-person/mlperf_vww_int8", "kws/mlperf_kws_dscnn_int8",
                                   "image-cls/mlperf_resnet8_int8"])  # fmt: skip
def test_quantized_models_are_proven_and_smaller_than_with_lz4(model: str) -> None:
    pytest.importorskip("lz4", reason="needs the lz4 package")
    path = MODELS / f"{model}.tflite"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    pools = (("fast", 256 << 10), ("slow", 1 << 20))
    sizes = {name: len(compile_model(CompileRequest(model_path=path, pools=pools, compressor=name)).data)
             for name in ("lz4", "range")}  # fmt: skip
    assert sizes["range"] < 0.98 * sizes["lz4"]


def test_generated_code_has_the_decoder_that_its_plan_needs_and_no_other() -> None:
    from stowplan.plugins.kinds import SourceOptions
    from stowplan_backend_c import CBackend

    digits = ROOT / "examples" / "digits" / "digits_int8.tflite"
    for name, other in (("range", "lz4"), ("lz4", "range")):
        request = CompileRequest(model_path=digits, pools=(("fast", 16384),), compressor=name)
        source = CBackend().generate(compile_model(request).data, SourceOptions(name="digits"))["digits.c"].decode()
        assert f"stow_{name}_decode" in source and f"stow_{other}_decode" not in source


def test_a_compressor_that_the_runtime_has_no_decoder_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.build.planning.DECODERS", {"lz4": 0, "zip": 0})
    digits = ROOT / "examples" / "digits" / "digits_int8.tflite"
    request = CompileRequest(model_path=digits, pools=(("fast", 16384),), compressor="range")
    with pytest.raises(
        UnsupportedError, match=r"^-c range: the C runtime has no decoder .* it has those of lz4 and zip$"
    ):
        compile_model(request)


def test_the_hook_offers_one_record_with_a_name_and_a_summary() -> None:
    (record,) = stowplan_compressors()
    assert (record.name, record.version, bool(record.summary)) == ("range", "1", True)


def test_importing_the_plugin_imports_no_coder() -> None:
    code = "import sys, stowplan_compressor_range; print([m for m in sys.modules if m.endswith('coder')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "stowplan_compressor_range.coder" not in out.stdout
