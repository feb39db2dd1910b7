"""Sources for tests of the MLIR backend."""

from __future__ import annotations

from pathlib import Path

import pytest

ADD = "module { func.func @add(%a: i32, %b: i32) -> i32 { %0 = arith.addi %a, %b : i32\n return %0 : i32 } }"
SPLIT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %size = transform.tune.knob<"size"> options = [2 : i64, 3 : i64, 8 : i64] -> !transform.param<i64>
    %found = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.foreach %found : !transform.any_op {
    ^each(%one: !transform.any_op):
      %tiled, %loop = transform.structured.tile_using_for %one tile_sizes [%size]
        : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    }
    transform.yield
  }
}"""
"""A schedule that tiles every generic operation."""
MODELS = Path(__file__).resolve().parents[2].parent / "shared" / "models"


def shared(*parts: str) -> Path:
    """Return a model of the collection beside the checkout, or skip."""
    path = MODELS.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    return path
