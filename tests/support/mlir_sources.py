"""Sources for tests of the MLIR backend."""

from __future__ import annotations

from pathlib import Path

import pytest

ADD = "module { func.func @add(%a: i32, %b: i32) -> i32 { %0 = arith.addi %a, %b : i32\n return %0 : i32 } }"
MODELS = Path(__file__).resolve().parents[2].parent / "shared" / "models"


def shared(*parts: str) -> Path:
    """Return a model of the collection beside the checkout, or skip."""
    path = MODELS.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    return path
