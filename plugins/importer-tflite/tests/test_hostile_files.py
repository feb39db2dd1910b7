"""Damaged files end in one clear error, soon; never in a traceback, a hang or a graph with missing bytes."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from stowplan.build.planning import Lowering
from stowplan.errors import ModelError, StowplanError, UnsupportedError, UsageError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan_importer_tflite import TfliteImporter
from tflite_import import MODELS, model_of, shared_models

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.tflite"
REFUSALS = (ModelError, UnsupportedError, UsageError)


def mutate(data: bytes, chance: random.Random, most: int = 6) -> bytes:
    """Return the file with bits flipped, bytes overwritten, a part moved, or its end cut off."""
    changed = bytearray(data)
    kind = chance.choice(["flip", "flip", "flip", "word", "splice", "truncate"])
    if kind == "truncate":
        return bytes(changed[: chance.randrange(len(changed))])
    for _ in range(chance.randint(1, most)):
        at = chance.randrange(len(changed) - 8)
        if kind == "flip":
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == "word":
            word = chance.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, chance.getrandbits(32), len(data)])
            changed[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
        else:
            source, length = chance.randrange(len(data)), chance.randint(1, 64)
            part = data[source : source + length]
            changed[at : at + len(part)] = part
    return bytes(changed)


def check_sound(graph: Graph) -> None:
    """A graph that came through must be whole, whatever the file said."""
    for index, tensor in enumerate(graph.tensors):
        assert all(size > 0 for size in tensor.shape)
        if tensor.constant is not None:
            assert len(graph.constant_bytes(index)) == tensor.elements * SIZE_BYTES[tensor.dtype]
    written = set(graph.inputs)
    for operator in graph.operators:
        assert all(t in written for t in operator.inputs if graph.is_activation(t))
        written.update(operator.outputs)
    assert written.issuperset(graph.outputs)


def test_two_thousand_mutations_end_in_a_graph_or_one_refusal() -> None:
    data = DIGITS.read_bytes()
    chance = random.Random(2)
    ends: Counter[str] = Counter()
    texts: list[str] = []
    slowest = 0.0
    for _ in range(2000):
        model = model_of(mutate(data, chance))
        began = time.perf_counter()
        try:
            TfliteImporter().describe(model)
            check_sound(TfliteImporter().load(model, {}))
            ends["graph"] += 1
        except REFUSALS as err:
            ends[type(err).__name__] += 1
            texts.append(str(err))
        slowest = max(slowest, time.perf_counter() - began)
    print(f"{dict(ends)}, slowest {slowest * 1000:.0f} ms")
    assert not [text for text in texts if "\n" in text or len(text) > 8000]
    assert slowest < 2
    assert len(ends) == 3


def test_every_prefix_of_a_model_is_refused() -> None:
    data = DIGITS.read_bytes()
    for length in range(0, len(data) - 16, 7):
        with pytest.raises(REFUSALS):
            TfliteImporter().load(model_of(data[:length]), {})


@pytest.mark.parametrize("data", [b"x", b"TFL3", b"\0" * 64, b"\x18\0\0\0TFL3", b"\xff" * 4 + b"TFL3" + b"\xff" * 64])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError):
        TfliteImporter().load(model_of(data), {})
    assert TfliteImporter().sniff(data) == (data[4:8] == b"TFL3")


def test_every_model_at_hand_is_imported_or_refused() -> None:
    ends: Counter[str] = Counter()
    texts: list[str] = []
    for path in shared_models():
        model = Model.read(path)
        try:
            check_sound(TfliteImporter().load(model, {}))
            ends["imported"] += 1
        except REFUSALS as err:
            ends[type(err).__name__] += 1
            texts.append(str(err))
        try:
            TfliteImporter().describe(model)
        except ModelError:
            ends["not described"] += 1
    print(dict(ends))
    assert not [text for text in texts if "\n" in text]
    assert ends["imported"] >= 43


def test_models_chosen_to_be_refused_are_refused() -> None:
    shared_models()
    with (MODELS / "MANIFEST.tsv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["kind"] == "negative"]
    paths = [MODELS / row["path"] for row in rows if row["path"].endswith(".tflite")]
    assert paths
    for path in paths:
        with pytest.raises(StowplanError):
            TfliteImporter().load(Model.read(path), {})


def test_importing_a_model_loads_neither_numpy_nor_a_schema_package() -> None:
    code = (
        "import sys; from stowplan.flow.model import Model; from stowplan_importer_tflite import TfliteImporter; "
        f"TfliteImporter().load(Model.read({str(DIGITS)!r}), {{}}); "
        "sys.exit(' '.join({'numpy', 'tflite', 'flatbuffers', 'ai_edge_litert'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "family", ["floats", "integers", "recurrent", "scaled", "detections", "wake word", "branch", "loop"]
)
def test_mutations_of_wider_models_end_in_kernels_or_one_refusal(family: str) -> None:
    """Through to the nodes that kernels get: what converts also lowers, or says by name what does not."""
    if family == "wake word":
        data = next(iter(shared_models("wakeword/esphome_v2_vad.tflite"))).read_bytes()
    elif family in ("branch", "loop"):
        models = pytest.importorskip("control_models", reason="needs ai-edge-litert and numpy")
        data = (
            models.counting(3) if family == "loop" else models.branching(None, models.unary("LOG"), models.unary("NEG"))
        )
    else:
        families = pytest.importorskip("every_other_kernel", reason="needs ai-edge-litert and numpy").FAMILIES
        data = families[family]()
    chance = random.Random(family)
    ends: Counter[str] = Counter()
    for _ in range(700):
        model = model_of(mutate(data, chance, most=1))
        began = time.perf_counter()
        try:
            TfliteImporter().describe(model)
            graph = TfliteImporter().load(model, {})
            check_sound(graph)
            lowering = Lowering(graph)
            for index in range(len(graph.operators)):
                lowering.operator(index)
            ends["lowered"] += 1
        except REFUSALS as err:
            ends[type(err).__name__] += 1
            assert "\n" not in str(err)
        assert time.perf_counter() - began < 5
    assert min(ends["lowered"], ends["ModelError"]) > 50, ends
