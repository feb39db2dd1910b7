"""What lowering returns: a node kind with its parameters, and which inputs its kernel reads by rows."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.build.rows import Form
from stowplan.nouns import dataclass, field

ParamValue = int | float | bytes | None


@dataclass(frozen=True, kw_only=True)
class Operand:
    """An input that the kernel reads by rows: its position among the operator's inputs.

    `form` says how a constant there is cut into rows; it is None for an activation, whose form the layout has.
    """

    position: int
    form: Form | None = None


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """One node before it has an order or an address: a kind of `planfile/kinds.py` and its parameters by name.

    A `const` parameter holds bytes, or None for none; constants are stored once however often they are used.
    """

    kind: str
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    operands: tuple[Operand, ...] = ()
