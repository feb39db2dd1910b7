"""From canonical operators to the nodes that kernels execute: every number a kernel needs, computed once, here."""

from stowplan.build.lower.dispatch import lower
from stowplan.build.lower.nodes import Lowered, Operand, ParamValue

__all__ = ["Lowered", "Operand", "ParamValue", "lower"]
