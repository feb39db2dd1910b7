"""IF and WHILE: what is left of them once branches and loops are inlined."""

from __future__ import annotations

from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.site import (
    ANYTHING,
    Conversion,
    Mismatch,
    Refusal,
    Site,
    check_activation,
    check_same_quantization,
)


def branch(site: Site) -> Conversion:
    """One input is the branch taken; of three, the first says which of the others is."""
    if site.table is not None:
        raise Refusal("its branches keep state, or do not take and give as many tensors as it; others are supported")
    if len(site.inputs) == 1:
        return _passed_on(site, 0)
    site.arity(3, 3)
    condition = site.activation(0, ("bool",))
    if condition.elements != 1:
        raise Mismatch(f"a condition of shape {spelled(condition.shape)}; one number is defined")
    if condition.data is not None:
        return _passed_on(site, 1 if any(condition.data) else 2)
    first, second = site.activation(1, ANYTHING), site.activation(2, ANYTHING)
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        shapes = " or ".join(f"{spelled(value.shape)} {value.dtype}" for value in (first, second))
        raise Mismatch(f"its output is {shapes}, as its condition turns out; the same shape would be supported")
    check_same_quantization(first, second)
    check_same_quantization(first, check_activation(site.result(first.dtype), ANYTHING))
    return Conversion("select", (condition.tensor, first.tensor, second.tensor), first.shape)


def loop(site: Site) -> Conversion:
    """What the last turn leaves is another name for the output."""
    if site.table is not None:
        raise Refusal(
            "how often it runs depends on the model's inputs, or it keeps state; "
            "a loop with a known number of turns would be supported"
        )
    return _passed_on(site, 0)


def _passed_on(site: Site, position: int) -> Conversion:
    value = site.activation(position, ANYTHING)
    check_same_quantization(value, site.result(value.dtype))
    return Conversion("reshape", (value.tensor,), value.shape)
