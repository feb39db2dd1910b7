"""One process with MLIR for all tests of a file; without the wheels they skip and say what to install."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan_backend_mlir import Context
from stowplan_backend_mlir.installation import require

ROOT = Path(__file__).resolve().parents[3]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        require("torch_mlir", "tosa_converter_for_tflite")
    except Exception as err:
        for item in items:
            if Path(__file__).parent in item.path.parents and "without_the_wheels" not in item.name:
                item.add_marker(pytest.mark.skip(reason=f"{err}"))


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    with Context(timeout=200) as one:
        yield one


@pytest.fixture(scope="session")
def digits() -> Path:
    return ROOT / "examples" / "digits" / "digits_int8.tflite"
