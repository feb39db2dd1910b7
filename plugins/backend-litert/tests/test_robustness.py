"""Damaged models by the thousand, and memory that stays flat."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = """
import random, sys, time
from stowplan_backend_litert import CompiledModel, Environment, signatures
from stowplan_backend_litert.errors import LiteRtError
data, seed = open(sys.argv[1], "rb").read(), int(sys.argv[2])
numbers, env, slowest, ran, refused = random.Random(seed), Environment(), 0.0, 0, 0
for number in range(int(sys.argv[3])):
    broken = bytearray(data)
    if number % 10 == 0:
        broken = broken[: numbers.randrange(len(data))]
    else:
        for _ in range(numbers.randint(1, 4)):
            broken[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
    start = time.monotonic()
    try:
        signatures(env, bytes(broken))
        with CompiledModel(env, bytes(broken), max_model_bytes=1 << 24) as model:
            model.run([bytes(size) for size in model.io_sizes()[0]], timeout=10)
        ran += 1
    except LiteRtError as err:
        assert "\\n" not in str(err), str(err)
        refused += 1
    slowest = max(slowest, time.monotonic() - start)
print(ran, refused, round(slowest, 3))
"""

MEMORY = """
import sys
from stowplan_backend_litert import CompiledModel, Environment
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
sizes = []
with Environment() as env:
    for number in range(600):
        with CompiledModel(env, sys.argv[1], profile=number % 50 == 0) as model:
            model.run([bytes(size) for size in model.io_sizes()[0]])
        if number in (99, 599):
            sizes.append(resident())
print(*sizes)
"""


def output_of(code: str, *arguments: object, timeout: int = 300) -> list[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.split()


@pytest.mark.slow
def test_a_thousand_damaged_models_crash_and_hang_nothing(digits: Path) -> None:
    ran, refused, slowest = output_of(FUZZ, digits, 1, 1000)
    assert int(ran) + int(refused) == 1000
    assert int(refused) >= 100
    assert float(slowest) < 15


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_six_hundred_compilations_leave_memory_flat(digits: Path) -> None:
    early, late = map(int, output_of(MEMORY, digits))
    assert late - early < 4 * 1024 * 1024


@pytest.mark.slow
def test_damaged_models_on_other_accelerators_cost_no_more_than_their_process(digits: Path) -> None:
    """A driver or a vendor's compiler may crash on what LiteRT lets pass; the caller gets an error."""
    from stowplan_backend_litert import Isolated
    from stowplan_backend_litert.errors import LiteRtError

    data, numbers = digits.read_bytes(), random.Random(4)
    outcomes = {"ran": 0, "refused": 0}
    for _ in range(40):
        broken = bytearray(data)
        for _ in range(numbers.randint(1, 3)):
            broken[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
        try:
            with Isolated(bytes(broken), accelerators=("npu", "cpu"), npu_device="cpu", start_timeout=60) as model:
                model.run([bytes(size) for size in model.io_sizes()[0]], timeout=10)
            outcomes["ran"] += 1
        except LiteRtError as err:
            assert "\n" not in str(err)
            outcomes["refused"] += 1
    assert outcomes["ran"] and outcomes["refused"]


def test_models_cut_short_are_refused(digits: Path) -> None:
    from stowplan_backend_litert import CompiledModel, Environment
    from stowplan_backend_litert.errors import ModelRefusedError

    data, numbers = digits.read_bytes(), random.Random(2)
    with Environment() as env:
        for size in [*range(0, 64, 7), *(numbers.randrange(len(data)) for _ in range(50))]:
            with pytest.raises(ModelRefusedError):
                CompiledModel(env, data[:size])
